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
#include "major.h"
#include "storage/dsm_impl.h"
#include "storage/lwlock.h"
#include "storage/spin.h"
#include "datatype/timestamp.h"
#include "utils/relcache.h"

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

/* Whether the worker adds or changes a cache. A shutdown begins between two changes, and none begins after it. */
typedef enum DoorChange
{
	DOOR_RESTS,
	DOOR_CHANGES,
	DOOR_STAYS,					/* the server shuts down */
} DoorChange;

/* Files in the set of those that are kept out of the cache: see kept.c. */
#define KEPT_MAX 512
/* With so many, no other relation is marked: a rewrite has two files until it commits. */
#define KEPT_MARKS_MAX 256
/* Places of databases whose marks and files were compared; see marks.c. */
#define KEPT_COMPARED 64

/* How a file that is on its way out of the set leaves it. */
typedef enum KeptLeaving
{
	KEPT_STAYS = 0,
	KEPT_LEAVES,				/* no checkpoint was made since */
	KEPT_LEAVES_SEEN,			/* one was */
	KEPT_LEAVES_LAST,			/* when the one with "redo" is complete, the file is durable */
} KeptLeaving;

/* A file, and why it is in the set. In shared memory "relNumber" 0 is a free place. */
typedef struct KeptFile
{
	RelFileLocator locator;
	Oid			relid;			/* the relation that it was made for */
	TransactionId xid;			/* that has put it here, or lets it leave; 0: how that ended was looked at */
	uint32		leaving;		/* a KeptLeaving */
	XLogRecPtr	redo;			/* with KEPT_LEAVES_LAST */
} KeptFile;

/* How many pages were handed down when WAL came to "lsn". */
typedef struct LogMark
{
	XLogRecPtr	lsn;
	uint64		pages;
} LogMark;

#define DOOR_LOG_MARKS 64

/* What processes of the server share beside the engine's memory. */
typedef struct DoorShared
{
	pg_atomic_uint32 state;		/* a DoorState */
	pg_atomic_uint32 worker;	/* its process; 0: it has not begun */
	pg_atomic_uint32 through;	/* 1: the cache is never newer than the files */
	pg_atomic_uint32 change;	/* a DoorChange */
	pg_atomic_uint64 redo_asked;	/* the REDO pointer of the last checkpoint that has begun; 0: none has */
	/* What came of the settings: "refused" says why the cache does not have them. Of the worker. */
	pg_atomic_uint64 settled;	/* how often the worker has made the cache follow them, or refused that */
	char		refused[1024];	/* empty: it has them */
	/* Written before the state is changed, and not after. */
	EntCluster	cluster;
	char		message[1024];
	/*
	 * Changed under "kept_lock", read without it: a file keeps its place, which is free, or has its number, from
	 * the moment on when that is written.
	 */
	LWLock	   *kept_lock;
	pg_atomic_uint32 kept_count;	/* files in the set */
	pg_atomic_uint32 kept_places;	/* places that may be taken: none from this one on is */
	bool		kept_changed;	/* since it was saved */
	uint32		kept_logged;	/* files in the note of the last checkpoint */
	KeptFile	kept[KEPT_MAX];
	Oid			compared[KEPT_COMPARED];
	TimestampTz reset;			/* of the counters; 0: never. Written under "kept_lock" */
	LWLock	   *statements_lock;
	pg_atomic_uint64 statements_clock;	/* counts what is recorded of statements */
	/* WAL that replaces a lost flash: see horizon.c. */
	slock_t		log_lock;		/* of the next three */
	uint64		log_asked;		/* how often something was asked of the worker */
	EntCheckpoint log_newest;	/* the newest complete checkpoint */
	bool		log_all;		/* as little WAL as possible is to be needed */
	pg_atomic_uint64 log_answered;	/* how far "log_asked" is done */
	pg_atomic_uint64 log_safe;	/* WAL from before this LSN must not be replayed */
	pg_atomic_uint64 log_kept_from; /* WAL is kept from there on; 0: for no flash */
	pg_atomic_uint64 log_horizon;	/* the REDO pointer of the horizon; 0: no WAL replaces the flash */
	pg_atomic_uint64 log_pages;		/* dirty pages that need more WAL than redo after a crash */
	pg_atomic_uint64 handed_down;	/* dirty pages that have left shared buffers, whoever writes them */
	LogMark		log_marks[DOOR_LOG_MARKS];	/* under "log_lock": see forecast.c */
	int			log_marked;		/* so often */
	XLogRecPtr	redo_from;		/* where redo began, and when */
	TimestampTz redo_began;
	XLogRecPtr	lost_upto;		/* redo replaces a lost flash, up to this record; of the startup process, and then of the checkpointer */
} DoorShared;

/* What a process tells its parallel workers. Written by itself alone. */
typedef struct DoorLeader
{
	uint64		queryid;		/* of the statement that a client has sent */
	dsm_handle	explained;		/* the segment for a query that it explains, or DSM_HANDLE_INVALID */
} DoorLeader;

/* entresol.c */
extern DoorShared *door;
extern EntOptions door_options;
extern void *door_memory;
extern Size door_memory_bytes;
extern bool drain_at_shutdown;
#define door_is_through (pg_atomic_read_u32(&door->through) != 0)
extern bool door_is_worker;
extern EntOptions door_wanted(void);
extern bool door_names_flash(void);
extern EntNow door_now(void);
extern int	door_statements;
extern char *door_writes_per_day;
extern volatile DoorLeader *door_leaders;	/* by the number of the process */

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

/* Takes the cache's state for a change, or for the shutdown. False: the other one has it. */
static inline bool
door_take_change(DoorChange wanted)
{
	uint32		rests = DOOR_RESTS;

	return pg_atomic_compare_exchange_u32(&door->change, &rests, wanted);
}

/* hooks.c */
extern const FlashCacheRoutine door_routine;
extern void door_attach(void);
extern void door_leave(void);
extern bool door_has_changed(int code);
extern int	door_try_attach(void);
extern const char *door_error(void);
extern void door_check(int code);
extern int	door_wait(int (*work) (void *), void *with);
extern void door_time_disk(void);

/* Is there a cache? Attaches this process. */
static inline bool
door_is_there(void)
{
	if (unlikely(door_state() == DOOR_OFF))
		return false;
	if (unlikely(!ent_is_attached()))
		door_attach();
	return ent_is_attached();
}

static inline EntFork
door_fork_of(RelFileLocator rlocator, ForkNumber forknum)
{
	return (EntFork) {
		.tablespace = rlocator.spcOid,
		.database = rlocator.dbOid,
		.relation = rlocator.relNumber,
		.fork = (uint32) forknum,
	};
}

/* Calls the cache for "code"; again if it was changed meanwhile. Attaches this process, if there is a cache. */
#define door_ask(code, work) \
	do \
	{ \
		(void) door_is_there(); \
		(code) = (work); \
	} while (door_has_changed(code))

/* reads.c; see major.h */
extern void door_wait_for_reads(void);

/* async.c */
extern uint32 door_locate(RelFileLocator rlocator, ForkNumber forknum, BlockNumber blkno, uint32 nblocks, bool reads,
						  FlashCachePlace *place);
extern int	door_device(void);
extern bool door_prove(const FlashCacheProof *proof, BlockNumber first, uint32 at, char *page);
extern void door_reject(RelFileLocator rlocator, ForkNumber forknum, BlockNumber blkno);

/* Whether pages of a file may enter the cache. */
typedef enum Kept
{
	KEPT_NOT,
	KEPT_CLEAN,					/* dirty ones may: it is on its way out of the set */
	KEPT_OUT,
} Kept;

/* kept.c */
extern void door_load_kept(void);
extern Kept door_find_kept(RelFileLocator rlocator);
extern bool door_keep(RelFileLocator rlocator, Oid relid, TransactionId xid, bool is_mark);
extern void door_let_in(RelFileLocator rlocator, TransactionId xid);
extern bool door_read_kept(uint32 *at, KeptFile *file);
extern void door_settle_kept(const KeptFile *as_read, Kept now);
extern void door_save_kept(void);
extern void door_file_is_gone(RelFileLocator rlocator);
extern void door_database_is_gone(Oid dbid, Oid spcid);
extern void door_kept_at_checkpoint(XLogRecPtr redo, int flags);
extern void door_redo_note(const char *data, Size length);

static inline Kept
door_kept(RelFileLocator rlocator)
{
	if (likely(pg_atomic_read_u32(&door->kept_count) == 0))
		return KEPT_NOT;
	return door_find_kept(rlocator);
}

/* Of several processes, in shared memory. Zeros are a new one. */
typedef struct DoorCounts
{
	pg_atomic_uint64 hits;
	pg_atomic_uint64 async_hits;
	pg_atomic_uint64 misses;
	pg_atomic_uint64 staged_dirty;
	pg_atomic_uint64 staged_clean;
} DoorCounts;

/* counts.c */
extern EntOwn door_own_since(const EntOwn *before);
extern void door_add_own(EntOwn *sum, const EntOwn *more);
extern void door_count(DoorCounts *sum, const EntOwn *more);
extern EntOwn door_counted(DoorCounts *sum);

/* sql.c */
extern void door_check_loaded(void);
extern bool door_has_answered(int code);
extern Relation door_open_relation(Oid relid);

/* warm.c: pages that enter before they are needed. */
extern bool door_may_enter(Relation relation);
extern int64 door_warm_blocks(Relation relation, ForkNumber forknum, BlockNumber first, BlockNumber blocks);
extern uint64 door_room(void);

/* manifest.c */
extern int	door_manifest_every;
extern void door_register_warmer(void);
extern PGDLLEXPORT void entresol_warm_database(Datum arg);
extern PGDLLEXPORT void entresol_warmer(Datum arg);

/* statements.c */
extern Size door_statements_bytes(void);
extern void door_make_statements(void);
extern void door_watch_statements(void);
extern void door_forget_statements(void);

/* explain.c; see major.h */
extern void door_explain(void);

/* marks.c */
extern void door_watch_marks(void);
extern void door_new_file(Oid relid, Oid replaces, RelFileLocator rlocator);

/* worker.c */
extern void door_register_worker(void);
extern PGDLLEXPORT void entresol_worker(Datum arg);
extern XLogRecPtr door_redo(TimeLineID *timeline);
extern bool door_has_cache;
extern void door_wait_a_little(void);
extern int	door_open_cache(void);
extern void door_show_messages(void);
extern void door_drain(void);

/* horizon.c */
#define DOOR_LOST_SIGNAL "flash_lost.signal"
extern bool door_survives;
extern int	door_wal_keep_mb;
extern void door_keep_log(void);
extern void door_begin_to_keep_log(void);
extern void door_log_is_safe_from(XLogRecPtr lsn);
extern void door_checkpoint_complete(const FlashCacheCheckpoint *done);
extern XLogRecPtr door_keep_wal_from(void);
extern void door_no_replay_before(XLogRecPtr lsn, bool waits);
extern bool door_redo_from(FlashCacheRedo *redo);
extern const char *door_hint_of_loss(void);

/* forecast.c */
extern XLogRecPtr door_log_end(void);
extern void door_redo_begins(XLogRecPtr from);
extern void door_mark_log(void);
extern void door_note_redo(XLogRecPtr upto, bool replaced);
extern double door_replay_seconds(XLogRecPtr horizon);

/* change.c */
extern void door_settings_were_read(void);
extern void door_follow_settings(bool is_redone);

#endif							/* DOOR_H */
