/*
 * The ring of frames, as the hooks see it. Everything here may run in a critical section: nothing is
 * allocated, and errors are PANICs.
 */
#include "hooktrace.h"

#include "access/xlog.h"
#include "storage/bufpage.h"

/* Between two looks at something that the worker does. */
#define POLL_US 100

static pg_crc32c
crc_of(const char *page)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, page, BLCKSZ);
	FIN_CRC32C(crc);
	return crc;
}

static IndexEntry *
find(const PageKey *key)
{
	return hash_search(page_index, key, HASH_FIND, NULL);
}

void
ring_drop(uint64 position)
{
	Frame	   *frame = frame_at(position);

	Assert(frame->valid);
	frame->valid = false;
	if (hash_search(page_index, &frame->key, HASH_REMOVE, NULL) == NULL)
		elog(PANIC, "hooktrace: a valid frame is not in the index");
}

uint32
ring_residency(RelFileLocator rlocator, ForkNumber fork, BlockNumber block, uint32 n, bool *cached)
{
	uint32		same = 0;

	check_attached();
	LWLockAcquire(shared->lock, LW_SHARED);
	for (; same < n; same++)
	{
		PageKey		key = page_key(rlocator, fork, block + same);
		bool		here = find(&key) != NULL;

		if (same == 0)
			*cached = here;
		else if (here != *cached)
			break;
	}
	LWLockRelease(shared->lock);
	return same;
}

bool
ring_is_newer(RelFileLocator rlocator, ForkNumber fork, BlockNumber block)
{
	PageKey		key = page_key(rlocator, fork, block);
	IndexEntry *entry;
	bool		newer;

	check_attached();
	LWLockAcquire(shared->lock, LW_SHARED);
	entry = find(&key);
	newer = entry && frame_at(entry->position)->dirty;
	LWLockRelease(shared->lock);
	return newer;
}

XLogRecPtr
ring_durable_lsn(RelFileLocator rlocator, ForkNumber fork, BlockNumber block)
{
	PageKey		key = page_key(rlocator, fork, block);
	IndexEntry *entry;
	XLogRecPtr	lsn = InvalidXLogRecPtr;

	check_attached();
	LWLockAcquire(shared->lock, LW_SHARED);
	entry = find(&key);
	if (entry && frame_at(entry->position)->dirty)
		lsn = frame_at(entry->position)->lsn;
	LWLockRelease(shared->lock);
	return lsn;
}

uint32
ring_read(RelFileLocator rlocator, ForkNumber fork, BlockNumber block, void **buffers, uint32 n)
{
	uint32		done = 0;

	check_attached();
	LWLockAcquire(shared->lock, LW_SHARED);
	for (; done < n; done++)
	{
		PageKey		key = page_key(rlocator, fork, block + done);
		IndexEntry *entry = find(&key);

		if (!entry)
			break;
		memcpy(buffers[done], page_at(entry->position), BLCKSZ);
		if (crc_of(buffers[done]) != frame_at(entry->position)->crc)
			elog(PANIC, "hooktrace: a page in memory has changed");
		count(HITS);
	}
	LWLockRelease(shared->lock);
	if (done == 0)
		count(MISSES);
	return done;
}

bool
ring_stage(RelFileLocator rlocator, ForkNumber fork, BlockNumber block, const char *page, XLogRecPtr lsn,
		   int flags)
{
	PageKey		key = page_key(rlocator, fork, block);
	bool		dirty = (flags & FLASH_STAGE_DIRTY) != 0;
	IndexEntry *entry;
	Frame	   *frame;
	bool		waited = false;

	check_attached();
	/*
	 * The rule of every log: what describes a change is durable before the change is. Clean pages are
	 * compared with the disk instead. Bulk writers fill new relations on disk without waiting for WAL.
	 */
	if (dirty && !RecoveryInProgress() && XLogNeedsFlush(lsn))
		elog(PANIC, "hooktrace: block %u of relation %u, fork %d, came with LSN %X/%X, which is not flushed",
			 block, rlocator.relNumber, fork, LSN_FORMAT_ARGS(lsn));

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	shadow_check(&key, lsn);
	entry = find(&key);
	if (!dirty && entry)
	{
		/* On-exit caching, conditionally: this version is here already. */
		if (frame_at(entry->position)->lsn != lsn && !faulty(shared->fault, rlocator))
			elog(PANIC, "hooktrace: a clean page has LSN %X/%X, its copy in the cache %X/%X",
				 LSN_FORMAT_ARGS(lsn), LSN_FORMAT_ARGS(frame_at(entry->position)->lsn));
		LWLockRelease(shared->lock);
		return true;
	}
	if (dirty && entry && faulty(FAULT_STALE, rlocator))
	{
		LWLockRelease(shared->lock);
		return true;
	}

	if (!dirty)
	{
		/* The buffer is pinned and clean, so nobody writes the page while we look. */
		LWLockRelease(shared->lock);
		check_disk(&key, lsn);
		LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	}

	while (shared->rear - shared->front == frames_n)
	{
		LWLockRelease(shared->lock);
		if (!dirty || (flags & FLASH_STAGE_PULL))
		{
			if (!dirty)
				count(REFUSED_CLEAN);
			return false;
		}
		if (!waited)
			count(WAITS_FOR_ROOM);
		waited = true;
		destage_wake();
		pg_usleep(POLL_US);
		LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	}

	/* The older version may have been destaged during the wait. */
	entry = find(&key);
	if (entry)
		ring_drop(entry->position);
	entry = hash_search(page_index, &key, HASH_ENTER_NULL, NULL);
	if (!entry)
		elog(PANIC, "hooktrace: more pages than frames");
	entry->position = shared->rear++;
	frame = frame_at(entry->position);
	memcpy(page_at(entry->position), page, BLCKSZ);
	*frame = (Frame) {
		.key = key, .lsn = lsn, .valid = true,
		.crc = crc_of(page_at(entry->position)),
		.dirty = dirty && !faulty(FAULT_CLEAN, rlocator),
	};
	if (dirty)
		shadow_staged(&key, lsn);
	LWLockRelease(shared->lock);

	count(dirty ? STAGED_DIRTY : STAGED_CLEAN);
	if (flags & FLASH_STAGE_PULL)
		count(PULLED);
	return true;
}

static bool
is_page(const PageKey *key, const PageKey *pattern)
{
	return memcmp(key, pattern, sizeof(PageKey)) == 0;
}

/* Blocks of the pattern's fork from its block on. */
static bool
is_cut(const PageKey *key, const PageKey *pattern)
{
	return RelFileLocatorEquals(key->rlocator, pattern->rlocator) && key->fork == pattern->fork &&
		key->block >= pattern->block;
}

static bool
is_of_relation(const PageKey *key, const PageKey *pattern)
{
	return RelFileLocatorEquals(key->rlocator, pattern->rlocator);
}

static bool
is_of_database(const PageKey *key, const PageKey *pattern)
{
	return key->rlocator.dbOid == pattern->rlocator.dbOid &&
		(!OidIsValid(pattern->rlocator.spcOid) || key->rlocator.spcOid == pattern->rlocator.spcOid);
}

static void
forget_at(uint64 position)
{
	count(FORGOTTEN);
	if (frame_at(position)->dirty)
		count(FORGOT_DIRTY);
	ring_drop(position);
}

static void
forget_all(KeyMatch match, const PageKey *pattern)
{
	for (uint64 position = shared->front; position < shared->rear; position++)
	{
		Frame	   *frame = frame_at(position);

		if (frame->valid && match(&frame->key, pattern))
			forget_at(position);
	}
	shadow_forget(match, pattern);
}

/* With the lock, which is let go of while we wait. */
static void
wait_for_destages(KeyMatch match, const PageKey *pattern)
{
	bool		waited = false;

	if (faulty(FAULT_WAIT, pattern->rlocator))
		return;
	for (int i = 0; i < shared->in_flight_n;)
	{
		if (!match(&shared->in_flight[i], pattern))
		{
			i++;
			continue;
		}
		if (!waited)
			count(WAITS_FOR_DESTAGE);
		waited = true;
		LWLockRelease(shared->lock);
		pg_usleep(POLL_US);
		LWLockAcquire(shared->lock, LW_EXCLUSIVE);
		i = 0;
	}
}

void
ring_forget(RelFileLocator rlocator, ForkNumber fork, BlockNumber block, BlockNumber n)
{
	check_attached();
	if (faulty(n == InvalidBlockNumber ? FAULT_CUT : FAULT_FORGET, rlocator))
		return;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (n == InvalidBlockNumber)
	{
		PageKey		from = page_key(rlocator, fork, block);

		forget_all(is_cut, &from);
		wait_for_destages(is_cut, &from);
	}
	else
	{
		for (BlockNumber i = 0; i < n; i++)
		{
			PageKey		key = page_key(rlocator, fork, block + i);
			IndexEntry *entry = find(&key);

			if (entry)
				forget_at(entry->position);
			shadow_forget_page(&key);
			wait_for_destages(is_page, &key);
		}
	}
	LWLockRelease(shared->lock);
}

void
ring_forget_relation(RelFileLocator rlocator)
{
	PageKey		pattern = page_key(rlocator, MAIN_FORKNUM, 0);

	check_attached();
	if (faulty(FAULT_DROP, rlocator))
		return;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	forget_all(is_of_relation, &pattern);
	wait_for_destages(is_of_relation, &pattern);
	LWLockRelease(shared->lock);
	count(RELATIONS_DROPPED);
}

void
ring_forget_database(Oid dbid, Oid spcid)
{
	PageKey		pattern = page_key((RelFileLocator) {.dbOid = dbid, .spcOid = spcid}, MAIN_FORKNUM, 0);

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	forget_all(is_of_database, &pattern);
	wait_for_destages(is_of_database, &pattern);
	LWLockRelease(shared->lock);
	count(DATABASES_FORGOTTEN);
}

void
ring_drain(void)
{
	uint64		rear;

	check_attached();
	count(DRAINS);
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	rear = shared->rear;
	shared->drain_to = Max(shared->drain_to, rear);
	while (shared->front < rear)
	{
		LWLockRelease(shared->lock);
		destage_wake();
		pg_usleep(POLL_US);
		LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	}
	LWLockRelease(shared->lock);
}

void
ring_sync_relation(RelFileLocator rlocator, ForkNumber fork)
{
	PageKey		pattern = page_key(rlocator, fork, 0);
	bool		any = false;

	count(SYNCS);
	LWLockAcquire(shared->lock, LW_SHARED);
	for (uint64 position = shared->front; position < shared->rear && !any; position++)
	{
		Frame	   *frame = frame_at(position);

		any = frame->valid && frame->dirty && is_cut(&frame->key, &pattern);
	}
	LWLockRelease(shared->lock);
	if (any)
		ring_drain();
}
