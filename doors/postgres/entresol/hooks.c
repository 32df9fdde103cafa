/*
 * The table of hooks (storage/flashcache.h).
 *
 * Most of this may run in critical sections and with buffers locked. An error there is a PANIC, which is
 * right: the cache's state is in question, and a restart settles it.
 */
#include "door.h"

#include "access/xlog.h"
#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "miscadmin.h"
#include "postmaster/startup.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/pmsignal.h"
#include "utils/wait_event.h"

/* Between two looks at what another process does. */
#define POLL_US 5000
/* How long a process waits for the postmaster, which ends all processes when the worker has died. */
#define PATIENCE_US 10000000
/* How long the startup process waits for the worker to begin. It then takes as long as it takes. */
#define WORKER_PATIENCE_US 60000000

static uint32 wait_for_read;
static uint32 wait_for_room;
static uint32 wait_for_destage;
static uint32 wait_for_checkpoint;

/* The last "read" of this process has ended at a block that the cache does not have. */
static bool missed;

const char *
door_error(void)
{
	static char sentence[1024];

	ent_error(sentence, sizeof(sentence));
	return sentence;
}

/* This process waits without locks, and may be told to stop waiting. */
static bool cancellable;

/* Called between waits for the cache, possibly with locks: then nothing but this ends a wait. */
static bool
interrupted(void)
{
	return (cancellable && InterruptPending) || !PostmasterIsAliveInternal();
}

static void
detach(int code, Datum arg)
{
	ent_detach();
}

/* The cache could not do what it was asked for. */
static void
fail(int code)
{
	const char *why = door_error();

	if (code == ENT_DAMAGED)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("the flash cache has a damaged page: %s", why)));
	if (code == ENT_INTERRUPTED)
		ereport(FATAL,
				(errcode(ERRCODE_ADMIN_SHUTDOWN),
				 errmsg("terminating, since the postmaster has ended")));

	/* The worker has died, or is about to. The postmaster will end us, too. */
	for (int waited = 0; waited < PATIENCE_US && PostmasterIsAliveInternal(); waited += POLL_US)
		pg_usleep(POLL_US);
	ereport(PANIC,
			(errcode(ERRCODE_IO_ERROR),
			 errmsg("the flash cache has failed: %s", why)));
}

static inline void
check(int code)
{
	if (unlikely(code < 0))
		fail(code);
}

/* Waits until the state is no longer one before "state". */
static void
wait_for_state(DoorState state)
{
	while (door_state() < state)
	{
		if (!PostmasterIsAliveInternal())
			ereport(FATAL, (errmsg("terminating, since the postmaster has ended")));
		pg_usleep(POLL_US);
	}
}

/*
 * Attaches this process as soon as the worker has opened the cache.
 *
 * The checkpointer and the background writer begin before that, and come here with their first page.
 */
void
door_attach(void)
{
	static bool reserved;
	int			code;

	wait_for_state(DOOR_SERVING);
	if (!reserved)
	{
		/* The flash's descriptor is not one of fd.c's. */
		ReserveExternalFD();
		reserved = true;
		on_shmem_exit(detach, 0);
	}
	code = ent_attach(&door_options, door_memory, door_memory_bytes, interrupted);
	if (code == ENT_GONE)
		fail(code);
	if (code != ENT_DONE)
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the flash cache cannot be used by this process: %s", door_error())));
}

static inline void
ensure_attached(void)
{
	if (unlikely(!ent_is_attached()))
		door_attach();
}

static inline EntFork
fork_of(RelFileLocator rlocator, ForkNumber forknum)
{
	return (EntFork) {
		.tablespace = rlocator.spcOid,
		.database = rlocator.dbOid,
		.relation = rlocator.relNumber,
		.fork = (uint32) forknum,
	};
}

static void
attach(void)
{
	wait_for_read = WaitEventExtensionNew("EntresolRead");
	wait_for_room = WaitEventExtensionNew("EntresolStage");
	wait_for_destage = WaitEventExtensionNew("EntresolForget");
	wait_for_checkpoint = WaitEventExtensionNew("EntresolCheckpoint");
	if (door_state() == DOOR_SERVING)
		ensure_attached();
}

static uint32
residency(RelFileLocator rlocator, ForkNumber forknum, BlockNumber blkno, uint32 nblocks, bool *cached)
{
	uint32		same;
	int			code;

	ensure_attached();
	code = ent_residency(fork_of(rlocator, forknum), blkno, nblocks, missed, &same, cached);
	missed = false;
	check(code);
	return same;
}

static uint32
read_blocks(RelFileLocator rlocator, ForkNumber forknum, BlockNumber blkno, void **buffers, uint32 nblocks)
{
	uint32		done;
	int			code;

	ensure_attached();
	pgstat_report_wait_start(wait_for_read);
	code = ent_read(fork_of(rlocator, forknum), blkno, buffers, nblocks, &done);
	pgstat_report_wait_end();
	check(code);
	missed = done == 0;
	return done;
}

static bool
stage(RelFileLocator rlocator, ForkNumber forknum, BlockNumber blkno, const char *page, XLogRecPtr lsn, int flags)
{
	int			code;

	ensure_attached();
	pgstat_report_wait_start(wait_for_room);
	code = ent_stage(fork_of(rlocator, forknum), blkno, page, lsn, flags);
	pgstat_report_wait_end();
	check(code);
	return code == ENT_DONE;
}

static void
forget(RelFileLocator rlocator, ForkNumber forknum, BlockNumber blkno, BlockNumber nblocks)
{
	int			code;

	ensure_attached();
	pgstat_report_wait_start(wait_for_destage);
	code = ent_forget(fork_of(rlocator, forknum), blkno, nblocks);
	pgstat_report_wait_end();
	check(code);
}

static void
forget_relation(RelFileLocator rlocator)
{
	int			code;

	ensure_attached();
	pgstat_report_wait_start(wait_for_destage);
	code = ent_forget_relation(fork_of(rlocator, MAIN_FORKNUM));
	pgstat_report_wait_end();
	check(code);
}

static void
forget_database(Oid dbid, Oid spcid)
{
	int			code;

	ensure_attached();
	pgstat_report_wait_start(wait_for_destage);
	code = ent_forget_database(dbid, spcid);
	pgstat_report_wait_end();
	check(code);
}

static void
sync_relation(RelFileLocator rlocator, ForkNumber forknum)
{
	int			code;

	ensure_attached();
	pgstat_report_wait_start(wait_for_checkpoint);
	code = ent_flush(fork_of(rlocator, forknum));
	pgstat_report_wait_end();
	check(code);
}

/*
 * Callers are not in critical sections, and no page is locked. It may take minutes: interrupts are looked at,
 * and then the rest is destaged.
 */
static void
destage(bool all, Oid dbid)
{
	int			code;

	ensure_attached();
	do
	{
		CHECK_FOR_INTERRUPTS();
		cancellable = InterruptHoldoffCount == 0 && CritSectionCount == 0;
		pgstat_report_wait_start(wait_for_destage);
		code = all ? ent_destage_all() : ent_destage_database(dbid);
		pgstat_report_wait_end();
		cancellable = false;
	} while (code == ENT_INTERRUPTED && PostmasterIsAliveInternal());
	check(code);
}

static void
destage_database(Oid dbid)
{
	destage(false, dbid);
}

static void
destage_all(void)
{
	destage(true, InvalidOid);
}

static void
startup(const FlashCacheStartup *at)
{
	door->cluster = (EntCluster) {
		.system_identifier = at->system_identifier,
		.redo = at->redo,
		.timeline = at->tli,
		.backup = at->backup,
		.in_use = at->in_use,
	};
	door_set_state(DOOR_ASKED);
	for (int waited = 0; door_state() == DOOR_ASKED; waited += POLL_US)
	{
		HandleStartupProcInterrupts();
		if (waited >= WORKER_PATIENCE_US && pg_atomic_read_u32(&door->worker) == 0)
			ereport(FATAL,
					(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
					 errmsg("the worker of the flash cache has not begun"),
					 errhint("Raise \"max_worker_processes\".")));
		pg_usleep(POLL_US);
	}
	if (door_state() == DOOR_REFUSED)
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the flash cache \"%s\" cannot be used by this cluster", door_options.flash),
				 errdetail("%s.", door->message),
				 at->in_use ?
				 errhint("The cluster needs the pages on its own flash. Nothing was changed.") :
				 errhint("The cluster is complete without a flash cache: set \"entresol.flash\" to another file or device, or to nothing. Nothing was changed.")));

	/* From now on the files alone are not the database. */
	SetControlFileCacheBit(true, true);
	ensure_attached();
}

/* The REDO pointer of the last checkpoint that is complete, or restartpoint. */
static XLogRecPtr
redo_of_control_file(void)
{
	bool		crc_ok;
	ControlFileData *control;
	XLogRecPtr	redo;

	LWLockAcquire(ControlFileLock, LW_SHARED);
	control = get_controlfile(DataDir, &crc_ok);
	LWLockRelease(ControlFileLock);
	if (!crc_ok)
		ereport(PANIC,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("incorrect checksum in control file")));
	redo = control->checkPointCopy.redo;
	pfree(control);
	return redo;
}

static void
checkpoint(XLogRecPtr redo, int flags)
{
	XLogRecPtr	done = redo_of_control_file();
	int			code;

	ensure_attached();
	pgstat_report_wait_start(wait_for_checkpoint);
	code = ent_checkpoint(done, redo);
	pgstat_report_wait_end();
	check(code);
}

static void
shutdown_hook(void)
{
	if (!drain_at_shutdown)
		return;
	door_set_state(DOOR_DRAINING);
	wait_for_state(DOOR_DRAINED);
	if (door_state() == DOOR_DRAINED)
		SetControlFileCacheBit(false, true);
	else
		ereport(WARNING,
				(errmsg("the flash cache could not be drained: %s", door->message),
				 errhint("The cluster still needs its flash.")));
}

const FlashCacheRoutine door_routine = {
	.version = FLASH_CACHE_VERSION,
	.attach = attach,
	.residency = residency,
	.read = read_blocks,
	.stage = stage,
	.forget = forget,
	.forget_relation = forget_relation,
	.forget_database = forget_database,
	.sync_relation = sync_relation,
	.destage_database = destage_database,
	.destage_all = destage_all,
	.startup = startup,
	.checkpoint = checkpoint,
	.shutdown = shutdown_hook,
};
