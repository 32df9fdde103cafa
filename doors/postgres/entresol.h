/*
 * The engine for PostgreSQL's processes: the C interface of crates/pg.
 *
 * Rules:
 *
 * 1. Every function returns ENT_DONE or more if the cache has answered, less if it could not. ent_error()
 *    then has a sentence. None calls back into PostgreSQL but for EntInterrupted, so no longjmp crosses it.
 *    A bug of the engine aborts the process.
 * 2. Functions marked [c] may be called in critical sections and with buffers locked: they allocate nothing,
 *    and of the failures only ENT_GONE and ENT_FAILED are left, which are a PANIC there. (ent_stage has
 *    ENT_INTERRUPTED, too, if the postmaster has ended.)
 * 3. A process attaches once, outside critical sections, and uses the interface from one thread.
 * 4. Integers are of the machine. Pages have 8192 bytes, and are aligned to 4096 for direct I/O.
 */
#ifndef ENTRESOL_H
#define ENTRESOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ENT_PAGE_BYTES 8192

/* What a function returns. */
enum
{
	ENT_DONE = 0,
	ENT_ABSENT = 1,			/* the newest version is on disk */
	ENT_FULL = 2,			/* no room, and the caller does not wait */
	ENT_DISK_ONLY = 3,		/* not for the cache: the caller writes the page to disk */
	ENT_NOTHING = 4,		/* nothing has happened within the time */

	ENT_REFUSED = -1,		/* bad options, another cluster's flash: nothing was changed */
	ENT_DAMAGED = -2,		/* the only newest copy of a page cannot be proved */
	ENT_FAILED = -3,		/* flash or disk has failed, for good */
	ENT_GONE = -4,			/* the worker has ended, or the shared memory was given up */
	ENT_INTERRUPTED = -5,	/* EntInterrupted has said so */
	ENT_CHANGED = -6,		/* the cache is another one now, or is being changed: attach anew, and call again */
};

/* A relation's fork, as PostgreSQL names it. It is the name of an object (crates/objects). */
typedef struct EntFork
{
	uint32_t	tablespace;
	uint32_t	database;
	uint32_t	relation;
	uint32_t	fork;
} EntFork;

/* Where blocks are. */
enum
{
	ENT_ON_DISK = 0,
	ENT_AT_HAND = 1,			/* ent_read() has them */
	ENT_ON_FLASH = 2,			/* next to each other */
};

typedef struct EntPlace
{
	int32_t		at;
	uint32_t	blocks;			/* of which that is so */
	/* On flash: */
	int32_t		descriptor;		/* of the device, in this process */
	uint32_t	object;			/* of the fork, to be proved with */
	uint64_t	offset;			/* on the device, in bytes */
	uint64_t	stamp;			/* of the first block, to be proved with */
	bool		is_direct;		/* reads go past the kernel's cache */
} EntPlace;

/* What a process has had of the cache since it began, in pages. */
typedef struct EntOwn
{
	uint64_t	hits;			/* reads that the cache served */
	uint64_t	async_hits;		/* of these, reads that the server has started */
	uint64_t	misses;			/* reads that the cache could not serve */
	uint64_t	staged_dirty;	/* pages that it took */
	uint64_t	staged_clean;
} EntOwn;

/* Flags of ent_stage: those of storage/flashcache.h. */
enum
{
	ENT_DIRTY = 0x01,
	ENT_EVICT = 0x02,
	ENT_RING = 0x04,
	ENT_PULL = 0x08,
	/* and ours: */
	ENT_THROUGH = 0x10,		/* a clean page that the caller has just written to disk */
	ENT_KEPT_OUT = 0x20,	/* its relation is kept out of the cache */
	ENT_ATOMIC = 0x40,		/* dirty, and no write past the cache may tear it: no budget keeps it out */
};

/* The same in all processes of a server. Strings outlive the process. */
typedef struct EntOptions
{
	const char *flash;			/* file or block device */
	const char *data;			/* the cluster's folder, absolute */
	const char *version_folder; /* of this PostgreSQL version in tablespaces */
	const char *policy;			/* "face", "face-gr", "face-gsc" or "reuse" */
	const char *mode;			/* "write-back", "write-through" */
	const char *writes_per_day; /* to flash: "unlimited", device writes as "0.5x", bytes as "200G" */
	uint64_t	flash_bytes;	/* 0: all that is there */
	uint64_t	max_bytes;		/* memory is planned for a cache of so many; 0: of flash_bytes */
	uint32_t	objects;		/* forks that may have pages in the cache */
	uint32_t	processes;		/* most of them at a time */
	uint32_t	workers;		/* threads that dequeue and destage */
	bool		checksums;		/* of the cluster: its pages carry their own */
	bool		survives;		/* write-back: WAL is kept so that it replaces a lost flash */
} EntOptions;

#define ENT_FLASH_PATH_BYTES 1024

/* The cache as it is: those settings that change while the server runs. */
typedef struct EntNow
{
	uint64_t	flash_bytes;	/* 0: no cache was opened */
	uint32_t	policy;			/* 0 face, 1 face-gr, 2 face-gsc, 3 reuse */
	uint32_t	mode;			/* 0 write-back, 1 write-through */
	char		flash[ENT_FLASH_PATH_BYTES];
} EntNow;

/* The cluster at its start: what a flash is compared with. As FlashCacheStartup. */
typedef struct EntCluster
{
	uint64_t	system_identifier;
	uint64_t	redo;
	uint64_t	checkpoint;		/* the record of the checkpoint that redo begins with */
	uint32_t	timeline;
	uint32_t	segment_bytes;	/* of a segment of the write-ahead log */
	bool		backup;
	bool		in_use;
	bool		target;			/* recovery is to end at a target, and may not replay all of the log */
	bool		alone;			/* no other process uses it, and the caller takes no events */
} EntCluster;

/* What the worker's main thread is to do. */
typedef struct EntEvent
{
	int			kind;
	int			pages;			/* of ENT_EVENT_PULL */
	/*
	 * Of ENT_EVENT_MESSAGE: 0 information, 1 warning, 2 error. Of ENT_EVENT_FAILED: 1 if the flash has failed, and WAL
	 * replaces it from the next start on.
	 */
	int			level;
} EntEvent;

typedef struct EntCheckpoint
{
	uint64_t	record;			/* 0: there is none */
	uint64_t	redo;
	uint32_t	timeline;		/* of the record */
} EntCheckpoint;

/* What is wanted of WAL, if it is to replace a lost flash: crates/pg/src/horizon.rs. */
typedef struct EntLogWanted
{
	EntCheckpoint newest;		/* that is complete; a record of 0: none is new */
	uint64_t	safe;			/* WAL from before must not be replayed over newer files */
	uint64_t	bound;			/* bytes of WAL that are kept */
	bool		all;			/* as little of WAL as possible is to be needed */
} EntLogWanted;

/* How WAL is kept. */
typedef struct EntLogKept
{
	EntCheckpoint horizon;		/* with WAL from its REDO pointer on the files need no flash; a record of 0: they do */
	uint64_t	from;			/* WAL is kept from there on; 0: for no flash */
	uint64_t	pages;			/* dirty pages that need more of WAL than redo after a crash */
} EntLogKept;

/* A redo that replaces the flash. */
typedef struct EntRedo
{
	EntCheckpoint from;
	uint64_t	upto;			/* the record that it must reach */
	uint32_t	upto_timeline;	/* of that record */
} EntRedo;

/* How long a redo took. */
typedef struct EntRedoTook
{
	uint64_t	bytes;			/* of WAL */
	uint64_t	pages;			/* that it has handed down */
	uint64_t	micros;
	bool		replaced;		/* a lost flash */
} EntRedoTook;

/* What a replay in place of the flash has to do. */
typedef struct EntReplay
{
	uint64_t	bytes;			/* of WAL */
	uint64_t	pages;			/* that were handed down in the time of that WAL; 0: it is not known */
} EntReplay;

enum
{
	ENT_EVENT_PULL = 1,			/* push victims into the cache, then ent_worker_pulled() */
	ENT_EVENT_MESSAGE = 2,		/* for the server's log; ent_error() has it */
	ENT_EVENT_FAILED = 3,		/* abort: all processes are to start anew; ent_error() says why */
	ENT_EVENT_OFF = 4,			/* the cache has switched itself off, and the files are complete; ent_error() says why */
};

/* What the cache has of one fork, and what was counted for it while it had pages in the cache. */
typedef struct EntRelation
{
	EntFork		fork;
	uint64_t	cached;			/* pages in the cache */
	uint64_t	dirty;			/* of these, newer than disk */
	uint64_t	hits;			/* reads that the cache has served */
	uint64_t	misses;			/* blocks that were read from disk */
	uint64_t	staged_dirty;	/* dirty pages taken */
	uint64_t	staged_clean;	/* clean pages taken, or offered with an equal copy in the cache */
} EntRelation;

/* Counters of all processes since the cache was opened, and present values; see crates/pg/src/types.rs. */
typedef struct EntStat
{
	uint64_t	values[37];
} EntStat;

#define ENT_STATS 37

/* Places of some of them. */
#define ENT_STAT_SLOTS 30
#define ENT_STAT_SLOTS_VALID 31
#define ENT_STAT_SLOTS_SUPERSEDED 33

/* What takes its time. */
enum
{
	ENT_TOOK_READ = 0,			/* reads from the cache, and */
	ENT_TOOK_STAGE = 1,			/* pages handed to it: what processes measure with ent_took() */
	ENT_TOOK_FLASH_WRITE = 2,
	ENT_TOOK_BACKGROUND = 3,
	ENT_TOOK_CHECKPOINT = 4,
	ENT_TOOK_FLASH_SYNC = 5,
};

#define ENT_LATENCIES 6

/* Microseconds; those that a part of them took less than, rounded up to powers of two. */
typedef struct EntLatency
{
	uint64_t	count;
	uint64_t	total_us;
	uint64_t	p50_us;
	uint64_t	p95_us;
	uint64_t	p99_us;
} EntLatency;

/* What processes of one kind did, in pages. */
typedef struct EntBackend
{
	uint64_t	hits;
	uint64_t	misses;
	uint64_t	staged_dirty;
	uint64_t	staged_clean;
	uint64_t	refused;		/* offered, and not taken */
} EntBackend;

#define ENT_BACKEND_KINDS 32

/* I/O of the flash, by a kind of process, or by the cache's own threads. In pages, and microseconds. */
typedef struct EntIo
{
	uint64_t	reads;			/* pages read from flash */
	uint64_t	read_us;		/* of those that are measured */
	uint64_t	writes;			/* pages written to flash */
	uint64_t	write_us;
	uint64_t	hits;			/* pages read from memory between DRAM and flash */
	uint64_t	evictions;		/* pages written to their files, to make room or on request */
	uint64_t	reuses;			/* second chances */
	uint64_t	syncs;			/* of the flash */
	uint64_t	sync_us;
} EntIo;

#define ENT_FORECAST_BYTES 512

/* What the cache has saved since an hour ago, or since it was opened. */
typedef struct EntBenefit
{
	uint64_t	since_s;		/* seconds since 1970 */
	uint64_t	seconds;		/* from then to now */
	uint64_t	disk_reads_saved;	/* pages that the cache has served */
	int64_t		disk_writes_saved;	/* pages handed down, less those written to their files */
	uint64_t	disk_read_ns;	/* of a page, as measured; 0: none was */
	uint64_t	disk_write_ns;	/* of a page with its sync */
	uint64_t	flash_write_bytes;
	int32_t		hit_permille[3];	/* of a cache of this size, half of it, twice it; -1: not known */
	char		forecast[ENT_FORECAST_BYTES];	/* in words, or why there is none */
} EntBenefit;

/* How the cache ends. */
enum
{
	ENT_CLOSE_WARM = 0,			/* as it is, and needed */
	ENT_CLOSE_DRAINED = 1,		/* all dirty pages go to disk first; warm, and not needed */
	ENT_CLOSE_RELEASED = 2,		/* the same, and the flash is the cluster's no more */
};

/* Asked after each wait, at least every 100 ms: is the caller to wait no longer? Must return. */
typedef bool (*EntInterrupted) (void);

/* In the postmaster: completes flash_bytes, and says how much shared memory the cache needs. */
int32_t		ent_plan(EntOptions *options, size_t *memory_bytes);

/*
 * In each process, when the worker has opened the cache; again after ENT_CHANGED and ent_detach(). The memory was
 * mapped by the postmaster, as zeros. "kind" is what kind of process it is, less than ENT_BACKEND_KINDS; "place" is
 * the process's own number, less than "processes". The cache may have other settings than "options": see EntNow.
 */
int32_t		ent_attach(const EntOptions *options, void *memory, size_t memory_bytes, uint32_t kind,
					   uint32_t place, EntInterrupted interrupted);
/* Whether "text" may be the option writes_per_day. */
int32_t		ent_check_writes_per_day(const char *text);
bool		ent_is_attached(void);	/* [c] */
void		ent_detach(void);
/* Of the cache that this process has attached: is it never newer than the files, and is it being changed? */
bool		ent_is_through(void);	/* [c] */
bool		ent_is_changing(void);	/* [c] */
bool		ent_is_stale(void);		/* [c] it was changed */
/* Attached or not: the cache as it is. */
int32_t		ent_now(const EntOptions *options, void *memory, size_t memory_bytes, EntNow *now);
/*
 * Notes durably that the flash is being exchanged; with two equal paths, that it is not. And whether it is, for the
 * one at "to".
 */
int32_t		ent_moving(const EntOptions *options, const char *from, const char *to);
bool		ent_is_moving(const EntOptions *options, const char *to);

/*
 * Whether the block is here, and for how many blocks from it on that is so. A hint, without I/O. With "reads"
 * the caller reads from disk what is not here, and it counts as missed.
 */
int32_t		ent_residency(EntFork fork, uint32_t block, uint32_t n, bool reads, uint32_t *same,
						  bool *here);	/* [c] */
/* Whether the cache has a version of the block that is newer than the file's. A hint, without I/O. */
int32_t		ent_is_newer(EntFork fork, uint32_t block, bool *newer);	/* [c] */
/*
 * The LSN of that version, from the summary of its group on flash, without reading the page; or in the process
 * that redoes, the LSN of the file's version if it is known to be durable. 0 if neither is known. Allocates.
 */
int32_t		ent_durable_lsn(EntFork fork, uint32_t block, uint64_t *lsn);
/*
 * In the process that redoes, before redo begins at "redo". How many pages are known to be durable in the files
 * goes to *known. Not "is_own": what is known is of other files than these, and is dropped.
 */
int32_t		ent_redo_begins(uint64_t redo, bool is_own, uint64_t *known);
/* There, before a block is changed: nothing is known of it any more. */
int32_t		ent_redo_changes(EntFork fork, uint32_t block);	/* [c] */
/* Blocks of a fork, which were forgotten, are about to be written past the cache; a crash may tear them. */
int32_t		ent_overwrites(EntFork fork);	/* [c] */
/* Of this process, attached or not. */
void		ent_own(EntOwn *own);	/* [c] */
/* Reads blocks up to the first that is absent; how many goes to *done. */
int32_t		ent_read(EntFork fork, uint32_t block, void *const *pages, uint32_t n, uint32_t *done);	/* [c] */
/*
 * Where the block is, and for how many blocks from it on, at most "n", that is so. With "reads" the caller reads
 * them next, and they count. Those on flash it reads itself, later, and maybe in another process. Until then it
 * stages no newer version of them. Nothing keeps them in their place: what is read there must be proved.
 */
int32_t		ent_locate(EntFork fork, uint32_t block, uint32_t n, bool reads, EntPlace *place);	/* [c] */
/*
 * In any process, attached or not: is the page the block that was located with this object and stamp? If so, it is
 * PostgreSQL's page now. Of the blocks of one place, each one has a stamp that is one more.
 */
bool		ent_prove(uint32_t object, uint32_t block, uint64_t stamp, bool checksums, void *page);	/* [c] */
/* ent_prove() said no of the block: ent_locate() says that it is at hand, once. */
int32_t		ent_reject(EntFork fork, uint32_t block);	/* [c] */
/* The device's descriptor in this process; -1: it has none. */
int32_t		ent_descriptor(void);	/* [c] */
/*
 * The log up to "lsn" is durable, or was replayed. To be said before pages are handed down or forgotten: what they know is in
 * the log before it.
 */
void		ent_log_at(uint32_t timeline, uint64_t lsn);	/* [c] */
/* Takes a page. Waits for room if it is dirty and not pulled. */
int32_t		ent_stage(EntFork fork, uint32_t block, const void *page, uint64_t lsn, uint32_t flags);	/* [c] */

/* Dead blocks. On return no older version is on its way to disk. n = UINT32_MAX: to the end of the fork. */
int32_t		ent_forget(EntFork fork, uint32_t block, uint32_t n);	/* [c] */
int32_t		ent_forget_relation(EntFork relation);	/* [c] all forks */
/* tablespace = 0: in all of them. */
int32_t		ent_forget_database(uint32_t database, uint32_t tablespace);

/* Dirty pages of a database, or of all, are durable on disk. They stay in the cache as clean ones. */
int32_t		ent_destage_database(uint32_t database);
int32_t		ent_destage_all(void);

/* The fork's pages that were staged before are durable on return. */
int32_t		ent_flush(EntFork fork);
/*
 * All that was staged and forgotten before is durable on return. "done" is the REDO pointer of the last
 * checkpoint that pg_control names, "redo" that of this one: a flash that knows neither is not the cluster's
 * present one.
 */
int32_t		ent_checkpoint(uint64_t done, uint64_t redo);

/* Removes a relation's pages from the cache, dirty ones to their files; how many goes to *removed. */
int32_t		ent_evict(EntFork relation, uint64_t *removed);

int32_t		ent_stat(EntStat *stat);
int32_t		ent_stat_reset(void);
int32_t		ent_latencies(EntLatency *rows);	/* ENT_LATENCIES of them */
int32_t		ent_backends(EntBackend *rows);		/* ENT_BACKEND_KINDS of them */
int32_t		ent_took(uint32_t row, uint64_t us);	/* [c] */
/* ENT_BACKEND_KINDS rows, and then one of the cache's own threads. */
int32_t		ent_io(EntIo *rows);
int32_t		ent_benefit(EntBenefit *benefit);
/*
 * The caller is about to read blocks from disk that counted as missed. If this read was drawn for that, does so
 * before, and times it; "direct" as the caller will. Allocates.
 */
void		ent_time_disk(bool direct);
/* Writes the pages in the cache to a file that is made or replaced; how many goes to *pages. */
int32_t		ent_dump_manifest(const char *path, uint64_t *pages);
/* Looks at the directory of the whole cache. Rows that do not fit are left out. */
int32_t		ent_relations(EntRelation *rows, uint32_t room, uint32_t *n);

/*
 * The worker. Its threads inherit the mask of signals: block all of them during ent_worker_open, and
 * ent_worker_close. On ENT_REFUSED nothing was changed. On ENT_FAILED the flash cannot be reached, and the files
 * are complete without it: the server goes on without a cache.
 */
int32_t		ent_worker_open(const EntOptions *options, void *memory, size_t memory_bytes,
							const EntCluster *cluster);
int32_t		ent_worker_wait(uint32_t patience_ms, EntEvent *event);
/* Redo is over, and the files are as new as the log: notes of durable pages are taken from now on. */
void		ent_worker_redone(void);
void		ent_worker_pulled(int pages);
/* Another value of the option writes_per_day. */
int32_t		ent_worker_limit(const char *text);
/*
 * A change to other settings, in this order: it is prepared, until that is done (ENT_NOTHING: not yet; as the first
 * answer: there is nothing to be changed); the gate is closed, until all processes have left the cache; it is made;
 * and the gate is opened again, to another cache or the same one. On ENT_REFUSED the cache of before serves. "done" is
 * the REDO pointer of the last checkpoint that pg_control names, "redo" that of the last one that has begun.
 */
int32_t		ent_worker_prepare(const EntOptions *options);
int32_t		ent_worker_is_prepared(void);
void		ent_worker_give_up(void);
void		ent_worker_close_gate(void);
bool		ent_worker_is_alone(void);
int32_t		ent_worker_change(uint64_t done, uint64_t redo);
void		ent_worker_open_gate(bool is_another);
int32_t		ent_worker_mark(uint64_t done, uint64_t redo);
/* Files may have been written without the cache: clean pages stay out until two checkpoints are complete. */
void		ent_worker_files_were_written(void);
bool		ent_worker_awaits_checkpoints(void);
/*
 * WAL is kept so that it replaces a lost flash. ENT_NOTHING: that is under way. ENT_DONE: there is nothing to be waited
 * for. "safe" is considered when the function returns; on ENT_FAILED it may not be.
 */
int32_t		ent_worker_keep_log(const EntLogWanted *wanted);
int32_t		ent_worker_log_is_kept(EntLogKept *kept);
/* "redo" is the REDO pointer of the last checkpoint that pg_control names. */
int32_t		ent_worker_close(uint32_t how, uint64_t redo);

/*
 * A start of a cluster that needs its flash: is that lost, and does WAL replace it? If so, it is given up. ENT_NOTHING:
 * it is not said to be lost. ENT_REFUSED: no WAL replaces it, or recovery has a target; nothing was changed. "data" is
 * the cluster's folder.
 */
int32_t		ent_lost_begin(const char *data, const EntCheckpoint *newest, bool has_target, uint32_t segment_bytes,
						   EntRedo *redo);
/* From where on WAL would replace it. */
int32_t		ent_lost_promise(const char *data, EntCheckpoint *horizon);
/* The cluster does not need a flash. ENT_DONE: one was said to be lost; ENT_NOTHING: none was. */
int32_t		ent_lost_end(const char *data);
/* Notes how long a redo took. */
void		ent_redo_took(const char *data, const EntRedoTook *took);
/* How long a replay in place of the flash takes. Negative: it is not known. */
double		ent_replay_seconds(const char *data, const EntReplay *ahead);

/* The last failure of this process, as a sentence; its length, or what it would have been. */
size_t		ent_error(char *buffer, size_t bytes);

#endif							/* ENTRESOL_H */
