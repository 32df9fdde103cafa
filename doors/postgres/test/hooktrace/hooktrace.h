/*
 * A model of a write-back cache below shared buffers, for tests only.
 *
 * The cache is a ring of page frames in shared memory, in the manner of FaCE's mvFIFO: a page that enters
 * gets the next position, and supersedes its older version. A worker takes pages from the front, writes the
 * dirty ones to their files and drops them. The memory is lost with the server, so a checkpoint destages
 * everything, unless hooktrace.keep_dirty is on.
 *
 * Invariants, under "lock":
 *
 * 1. front <= rear <= front + frames. The frame of a position is position % frames.
 * 2. A key is in the index if and only if the frame of the position found there is valid and has this key.
 * 3. A position that is being destaged is in "in_flight" until its write is durable.
 */
#ifndef HOOKTRACE_H
#define HOOKTRACE_H

#include "postgres.h"

#include "port/atomics.h"
#include "port/pg_crc32c.h"
#include "storage/flashcache.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "utils/hsearch.h"

/* Pages that are destaged together: their files are synced once. */
#define BATCH_PAGES 16

typedef struct PageKey
{
	RelFileLocator rlocator;
	ForkNumber	fork;
	BlockNumber block;
} PageKey;

typedef struct Frame
{
	PageKey		key;
	XLogRecPtr	lsn;
	pg_crc32c	crc;			/* of the page when it entered */
	bool		valid;			/* the newest version, and not forgotten */
	bool		dirty;			/* newer than disk */
} Frame;

typedef struct IndexEntry
{
	PageKey		key;			/* first: the key of the hash table */
	uint64		position;
} IndexEntry;

/* A step that is left out for one relation, so that a test can show that it notices. */
typedef enum Fault
{
	FAULT_NONE,
	FAULT_FORGET,				/* writes of a few blocks are not forgotten */
	FAULT_CUT,					/* truncations are not forgotten */
	FAULT_DROP,					/* dropped relations are not forgotten */
	FAULT_WAIT,					/* forgetting does not wait for destages */
	FAULT_EARLY,				/* a page is dropped before its destage */
	FAULT_CLEAN,				/* a dirty page is taken for a clean one */
	FAULT_STALE,				/* a page that is dirtied again keeps its old version */
} Fault;

typedef enum Counter
{
	ATTACHED, HITS, MISSES, STAGED_DIRTY, STAGED_CLEAN, REFUSED_CLEAN, WAITS_FOR_ROOM, PULLED,
	DESTAGED, SUPERSEDED_IN_FLIGHT, FORGOTTEN, FORGOT_DIRTY, WAITS_FOR_DESTAGE,
	RELATIONS_DROPPED, DATABASES_FORGOTTEN, SYNCS, DRAINS, CHECKPOINTS, SHADOWS_CHECKED,
	CLEAN_COMPARED,
	COUNTERS
} Counter;

typedef struct Shared
{
	LWLock	   *lock;
	uint64		front;
	uint64		rear;
	uint64		drain_to;		/* the worker destages at least up to here */
	int			in_flight_n;
	PageKey		in_flight[BATCH_PAGES];

	pid_t		worker;			/* 0: it does not run */
	Latch	   *worker_latch;

	Fault		fault;
	RelFileLocator fault_at;

	pg_atomic_uint64 counters[COUNTERS];
} Shared;

/* hooktrace.c */
extern Shared *shared;
extern Frame *frames;
extern char *pages;
extern HTAB *page_index;
extern int	frames_n;
extern int	destage_delay_us;
extern int	pull_pages;
extern bool keep_dirty;
extern bool attached;

/* leave_out.c */
extern void leave_out(Fault fault, RelFileLocator rlocator);

static inline void
count(Counter counter)
{
	pg_atomic_fetch_add_u64(&shared->counters[counter], 1);
}

static inline void
check_attached(void)
{
	if (!attached)
		elog(PANIC, "hooktrace: a process that was not attached calls");
}

static inline bool
faulty(Fault fault, RelFileLocator rlocator)
{
	return shared->fault == fault && RelFileLocatorEquals(shared->fault_at, rlocator);
}

static inline char *
page_at(uint64 position)
{
	return pages + (position % frames_n) * (Size) BLCKSZ;
}

static inline Frame *
frame_at(uint64 position)
{
	return &frames[position % frames_n];
}

static inline PageKey
page_key(RelFileLocator rlocator, ForkNumber fork, BlockNumber block)
{
	PageKey		key;

	memset(&key, 0, sizeof(key));
	key.rlocator = rlocator;
	key.fork = fork;
	key.block = block;
	return key;
}

/* ring.c: the hooks. The caller holds no lock of ours. */
extern bool ring_is_newer(RelFileLocator rlocator, ForkNumber fork, BlockNumber block);
extern XLogRecPtr ring_durable_lsn(RelFileLocator rlocator, ForkNumber fork, BlockNumber block);
extern uint32 ring_residency(RelFileLocator rlocator, ForkNumber fork, BlockNumber block, uint32 n,
							 bool *cached);
extern uint32 ring_read(RelFileLocator rlocator, ForkNumber fork, BlockNumber block, void **buffers,
						uint32 n);
extern bool ring_stage(RelFileLocator rlocator, ForkNumber fork, BlockNumber block, const char *page,
					   XLogRecPtr lsn, int flags);
extern void ring_forget(RelFileLocator rlocator, ForkNumber fork, BlockNumber block, BlockNumber n);
extern void ring_forget_relation(RelFileLocator rlocator);
extern void ring_forget_database(Oid dbid, Oid spcid);
extern void ring_drain(void);
extern void ring_sync_relation(RelFileLocator rlocator, ForkNumber fork);
/* With the lock: drop a valid frame from the index. */
extern void ring_drop(uint64 position);

/* shadow.c: the LSN that each page had when it last left DRAM. All with the lock. */
extern Size shadow_bytes(void);
extern void shadow_init(void);
extern void shadow_staged(const PageKey *key, XLogRecPtr lsn);
extern void shadow_check(const PageKey *key, XLogRecPtr lsn);
extern void shadow_forget_page(const PageKey *key);
typedef bool (*KeyMatch) (const PageKey *key, const PageKey *pattern);
extern void shadow_forget(KeyMatch match, const PageKey *pattern);

/* destage.c */
extern void destage_register(void);
extern void destage_wake(void);
extern void check_disk(const PageKey *key, XLogRecPtr lsn);
extern PGDLLEXPORT void hooktrace_worker(Datum arg);

#endif							/* HOOKTRACE_H */
