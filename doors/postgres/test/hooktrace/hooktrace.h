/*
 * Oracles over the hooks of storage/flashcache.h, for tests only.
 *
 * The module is loaded after the one that has a cache. Its table of hooks calls the other module's, and checks
 * the rules that PostgreSQL and a cache must keep together (oracle.c). A broken rule ends the server.
 */
#ifndef HOOKTRACE_H
#define HOOKTRACE_H

#include "postgres.h"

#include "major.h"
#include "port/atomics.h"
#include "storage/flashcache.h"
#include "storage/lwlock.h"

typedef struct PageKey
{
	RelFileLocator rlocator;
	ForkNumber	fork;
	BlockNumber block;
} PageKey;

/* A step that is left out for one relation, so that a test can show that it notices. */
typedef enum Fault
{
	FAULT_NONE,
	FAULT_FORGET,				/* writes of a few blocks are not forgotten */
	FAULT_CUT,					/* truncations are not forgotten */
	FAULT_DROP,					/* dropped relations are not forgotten */
	FAULT_CLEAN,				/* a dirty page is taken for a clean one */
	FAULT_STALE,				/* a page that is dirtied again keeps its old version */
} Fault;

typedef enum Counter
{
	ATTACHED, SHADOWS_CHECKED, CLEAN_COMPARED,
	COUNTERS
} Counter;

typedef struct Shared
{
	LWLock	   *lock;			/* of the shadows */
	/* A step was left out for it, so the oracles say nothing of it. Until the next run of the model. */
	RelFileLocator unchecked;
	/* For so long, in microseconds, the worker holds a page that it has pulled, before it hands the page down. */
	pg_atomic_uint32 pause_us;

	pg_atomic_uint64 counters[COUNTERS];
} Shared;

/* hooktrace.c. NULL where the module was not preloaded. */
extern Shared *shared;

/* oracle.c */
extern void oracle_install(void);

/* leave_out.c */
extern void leave_out(Fault fault, RelFileLocator rlocator);

static inline void
count(Counter counter)
{
	pg_atomic_fetch_add_u64(&shared->counters[counter], 1);
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

/* shadow.c: the LSN that each page had when it last left DRAM. All with the lock. */
extern Size shadow_bytes(void);
extern void shadow_init(void);
extern void shadow_staged(const PageKey *key, XLogRecPtr lsn);
extern void shadow_check(const PageKey *key, XLogRecPtr lsn);
extern void shadow_forget_page(const PageKey *key);
typedef bool (*KeyMatch) (const PageKey *key, const PageKey *pattern);
extern void shadow_forget(KeyMatch match, const PageKey *pattern);

#endif							/* HOOKTRACE_H */
