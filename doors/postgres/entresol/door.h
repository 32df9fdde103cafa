/*
 * What the files of the extension share.
 */
#ifndef DOOR_H
#define DOOR_H

#include "postgres.h"

#ifdef __has_include
#if !__has_include("storage/flashcache.h")
#error "this PostgreSQL has no hooks for a flash cache: build one with the patches in doors/postgres/patches (cargo xtask postgres build)"
#endif
#endif

#include "entresol.h"
#include "port/atomics.h"
#include "storage/flashcache.h"
#include "storage/lwlock.h"
#include "datatype/timestamp.h"

/*
 * A server without the patch has none of these. Then the module says so, instead of the dynamic linker. Here,
 * since one file that needs a symbol is enough.
 */
#pragma weak flash_cache
#pragma weak SetControlFileCacheBit
#pragma weak FlashCachePullVictims

/* How far the cache is, in the life of one shared memory. */
typedef enum DoorState
{
	DOOR_NEW,					/* the startup process has not said which cluster it is */
	DOOR_ASKED,					/* the worker opens the flash */
	DOOR_SERVING,
	DOOR_OFF,					/* goes on without the flash; "message" says why */
	DOOR_REFUSED,				/* "message" says why */
	DOOR_DRAINING,				/* at shutdown: the worker writes all dirty pages to disk */
	DOOR_DRAINED,				/* the files are complete */
	DOOR_NOT_DRAINED,			/* "message" says why */
} DoorState;

/* Relations that are kept out of the cache: see kept.c. */
#define KEPT_MAX 256

typedef struct KeptRelation
{
	Oid			relid;			/* in its database */
	RelFileLocator locator;		/* its files now, or while a transaction is under way also those to come */
} KeptRelation;

/* What processes of the server share beside the engine's memory. */
typedef struct DoorShared
{
	pg_atomic_uint32 state;		/* a DoorState */
	pg_atomic_uint32 worker;	/* its process; 0: it has not begun */
	/* Written before the state is changed, and not after. */
	EntCluster	cluster;
	char		message[1024];
	/* Changed under "kept_lock", read without it: what is read wrongly is a page more or less in the cache. */
	LWLock	   *kept_lock;
	pg_atomic_uint32 kept_count;
	KeptRelation kept[KEPT_MAX];
	TimestampTz reset;			/* of the counters; 0: never. Written under "kept_lock" */
} DoorShared;

/* entresol.c */
extern DoorShared *door;
extern EntOptions door_options;
extern void *door_memory;
extern Size door_memory_bytes;
extern bool drain_at_shutdown;
extern bool door_is_through;

static inline DoorState
door_state(void)
{
	DoorState	state = (DoorState) pg_atomic_read_u32(&door->state);

	pg_read_barrier();
	return state;
}

static inline void
door_set_state(DoorState state)
{
	pg_write_barrier();
	pg_atomic_write_u32(&door->state, state);
}

/* hooks.c */
extern const FlashCacheRoutine door_routine;
extern void door_attach(void);
extern const char *door_error(void);
extern void door_check(int code);
extern int	door_wait(int (*work) (void *), void *with);

/* kept.c */
extern void door_load_kept(void);
extern void door_watch_kept(void);
extern bool door_is_kept_slow(RelFileLocator rlocator);

/* Is this relation kept out of the cache? */
static inline bool
door_is_kept(RelFileLocator rlocator)
{
	return unlikely(pg_atomic_read_u32(&door->kept_count) > 0) && door_is_kept_slow(rlocator);
}

/* worker.c */
extern void door_register_worker(void);
extern PGDLLEXPORT void entresol_worker(Datum arg);
extern XLogRecPtr door_redo(void);

#endif							/* DOOR_H */
