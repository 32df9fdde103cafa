/*
 * What processes have had of the cache, as differences and as sums.
 */
#include "door.h"

/* What this process has had since it had "before". */
EntOwn
door_own_since(const EntOwn *before)
{
	EntOwn		now;

	ent_own(&now);
	return (EntOwn) {
		.hits = now.hits - before->hits,
		.async_hits = now.async_hits - before->async_hits,
		.misses = now.misses - before->misses,
		.staged_dirty = now.staged_dirty - before->staged_dirty,
		.staged_clean = now.staged_clean - before->staged_clean,
	};
}

void
door_add_own(EntOwn *sum, const EntOwn *more)
{
	sum->hits += more->hits;
	sum->async_hits += more->async_hits;
	sum->misses += more->misses;
	sum->staged_dirty += more->staged_dirty;
	sum->staged_clean += more->staged_clean;
}

/* Adds to a sum of several processes. */
void
door_count(DoorCounts *sum, const EntOwn *more)
{
	pg_atomic_fetch_add_u64(&sum->hits, more->hits);
	pg_atomic_fetch_add_u64(&sum->async_hits, more->async_hits);
	pg_atomic_fetch_add_u64(&sum->misses, more->misses);
	pg_atomic_fetch_add_u64(&sum->staged_dirty, more->staged_dirty);
	pg_atomic_fetch_add_u64(&sum->staged_clean, more->staged_clean);
}

EntOwn
door_counted(DoorCounts *sum)
{
	return (EntOwn) {
		.hits = pg_atomic_read_u64(&sum->hits),
		.async_hits = pg_atomic_read_u64(&sum->async_hits),
		.misses = pg_atomic_read_u64(&sum->misses),
		.staged_dirty = pg_atomic_read_u64(&sum->staged_dirty),
		.staged_clean = pg_atomic_read_u64(&sum->staged_clean),
	};
}
