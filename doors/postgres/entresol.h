/*
 * The engine for PostgreSQL's processes: the C interface of crates/pg.
 *
 * A PLAN. Nothing implements it yet (docs/POSTGRESQL.md). It is written against the hooks of
 * storage/flashcache.h, which are tested, and against SharedFront and FlashTier::open_shared of
 * crates/engine.
 *
 * Rules:
 *
 * 1. Every function returns ENT_DONE or more if the cache has answered, less if it could not. ent_error()
 *    then has a sentence. None calls back into PostgreSQL but through EntCallbacks, so no longjmp crosses it.
 * 2. Functions marked [c] may be called in critical sections: they allocate nothing, and of the failures
 *    only ENT_GONE and ENT_FAILED are left, which are a PANIC there.
 * 3. A process attaches once, outside critical sections, and uses the interface from one thread.
 * 4. Integers are of the machine. Pages are of 8192 bytes, aligned to 4096 for direct I/O.
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
	ENT_DISK_FIRST = 4,		/* write-through: the caller writes it, and stages it again as clean */
	ENT_OFF = 5,			/* the cache has switched itself off; the disk has everything */

	ENT_REFUSED = -1,		/* bad options, another cluster's flash: nothing was changed */
	ENT_DAMAGED = -2,		/* the only newest copy of a page cannot be proved */
	ENT_FAILED = -3,		/* flash or disk has failed, for good */
	ENT_GONE = -4,			/* the worker has ended: attach again, as after a crash */
	ENT_INTERRUPTED = -5,	/* EntCallbacks.interrupted has said so */
};

/* A relation's fork, as PostgreSQL names it. It is the locator of an object (crates/objects). */
typedef struct EntFork
{
	uint32_t	tablespace;
	uint32_t	database;
	uint32_t	relation;
	uint32_t	fork;
} EntFork;

/* Flags of ent_stage: those of storage/flashcache.h. */
enum
{
	ENT_DIRTY = 0x01,
	ENT_EVICT = 0x02,
	ENT_RING = 0x04,
	ENT_PULL = 0x08,
};

/* Where the cache is; the same in all processes of a server. */
typedef struct EntOptions
{
	const char *flash;			/* file or block device */
	const char *segment;		/* file in memory that the processes share */
	const char *data;			/* the cluster's folder */
	uint64_t	flash_bytes;
	const char *policy;			/* "face", "face-gr", "face-gsc" */
	uint32_t	processes;		/* most of them at a time */
	bool		write_back;
	bool		checksums;		/* of the cluster: pages carry their own */
} EntOptions;

/* The cluster at its start: what a flash is compared with. As FlashCacheStartup. */
typedef struct EntCluster
{
	uint64_t	system_identifier;
	uint32_t	timeline;
	uint64_t	checkpoint;
	uint64_t	redo;
	bool		crashed;
	bool		backup;
	bool		in_use;
} EntCluster;

typedef struct EntCallbacks
{
	bool		(*interrupted) (void);	/* asked after each wait, at least every 100 ms */
	void		(*pull) (int n);		/* in the worker's main thread: FlashCachePullVictims */
	void		(*log) (int level, const char *sentence);
} EntCallbacks;

/* Once in each process; again after ENT_GONE. Waits until the worker has opened the cache. */
int32_t		ent_attach(const EntOptions *options, const EntCallbacks *callbacks);
void		ent_detach(void);

/* Whether the page is here, and for how many pages from it on that is so. A hint, without I/O. */
int32_t		ent_residency(EntFork fork, uint32_t block, uint32_t n, uint32_t *same);	/* [c] */
/* Reads pages up to the first that is absent; how many goes to *done. */
int32_t		ent_read(EntFork fork, uint32_t block, void **pages, uint32_t n, uint32_t *done);	/* [c] */
/* Takes a page. Waits for room if it is dirty and not pulled. */
int32_t		ent_stage(EntFork fork, uint32_t block, const void *page, uint64_t lsn,
						  uint32_t flags);	/* [c] */

/* Dead pages. On return no older version is on its way to disk. n = UINT32_MAX: to the end of the fork. */
int32_t		ent_forget(EntFork fork, uint32_t block, uint32_t n);	/* [c] */
int32_t		ent_forget_relation(uint32_t tablespace, uint32_t database, uint32_t relation);	/* [c] */
/* tablespace = 0: in all of them. */
int32_t		ent_forget_database(uint32_t database, uint32_t tablespace);

/* What was staged and forgotten before is durable on return. */
int32_t		ent_flush(void);
int32_t		ent_checkpoint(uint64_t redo);
/* Dirty pages of a database are durable on disk; of all with 0. They may stay in the cache as clean ones. */
int32_t		ent_destage(uint32_t database);

/*
 * The worker: opens the cache, or makes it, and runs it until ent_worker_stop. Its threads block all
 * signals. It does not return when something fails: it aborts, so that the postmaster starts all anew.
 */
int32_t		ent_worker(const EntOptions *options, const EntCluster *cluster, const EntCallbacks *callbacks);
void		ent_worker_stop(void);	/* may be called by a signal handler */

/* The last failure of this process, as a sentence; its length, or what it would have been. */
size_t		ent_error(char *buffer, size_t bytes);

#endif							/* ENTRESOL_H */
