/*
 * The background worker that has the back of the cache. It lives from before redo until after the shutdown
 * checkpoint. The engine's threads do the work; this, the main thread, does what only it may do: it pushes
 * victims out of shared buffers, and writes to the server's log.
 *
 * It must not end unnoticed, because all processes would wait for it. So it ends by SIGUSR2 alone; everything
 * else is a crash of the server.
 */
#include "door.h"

#include <signal.h>

#include "access/xlog.h"
#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/pmsignal.h"
#include "storage/smgr.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/wait_event.h"

/* Between two looks at requests that come by a state or a signal. */
#define LOOK_EVERY_MS 50

static volatile sig_atomic_t leave = false;

/* This process has opened a cache, and has not ended it. */
bool		door_has_cache;

/* The REDO pointer of the last checkpoint that is complete, or restartpoint; its timeline goes to *timeline. */
XLogRecPtr
door_redo(TimeLineID *timeline)
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
	if (timeline)
		*timeline = control->checkPointCopy.ThisTimeLineID;
	pfree(control);
	return redo;
}

static void
on_usr2(SIGNAL_ARGS)
{
	leave = true;
	SetLatch(MyLatch);
}

static void
on_exit_of_worker(int code, Datum arg)
{
	if (!leave && PostmasterIsAliveInternal())
		abort();
}

/* Waits without the engine: it is not open, or not any more. */
void
door_wait_a_little(void)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, LOOK_EVERY_MS,
					 PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
}

/* Opens the cache. The engine's threads inherit the mask: signals are for the main thread. */
int
door_open_cache(void)
{
	sigset_t	all,
				before;
	EntOptions	wanted = door_wanted();
	int			code;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	code = ent_worker_open(&wanted, door_memory, door_memory_bytes, &door->cluster);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (code != ENT_DONE)
		strlcpy(door->message, door_error(), sizeof(door->message));
	else
		pg_atomic_write_u32(&door->through, door_now().mode);
	door_has_cache = code == ENT_DONE;
	return code;
}

/*
 * The cache goes on without its flash, and the files are complete. From now on the hooks do nothing, and the
 * cluster is a stock one.
 */
static void
switch_off(void)
{
	strlcpy(door->message, door_error(), sizeof(door->message));
	door_set_state(DOOR_OFF);
	if (!door_is_through)
		SetControlFileCacheBit(false, true);
	ereport(WARNING,
			(errcode(ERRCODE_IO_ERROR),
			 errmsg("the flash cache is switched off: %s", door->message),
			 errdetail("No page was lost: the files of the cluster are complete."),
			 errhint("Replace the flash device, or name another one in \"entresol.flash\", and restart the server.")));
	if (!door_is_through && !fullPageWrites)
		ereport(WARNING,
				(errmsg("\"full_page_writes\" is off, which is safe with the flash cache only"),
				 errhint("Set \"full_page_writes\" to on, and reload the configuration.")));
}

static void
look_at(const EntEvent *event)
{
	static const int levels[] = {LOG, WARNING, LOG};

	switch (event->kind)
	{
		case ENT_EVENT_PULL:
			ent_worker_pulled(FlashCachePullVictims(event->pages));
			/* Pulling looks relations up; nobody tells us when they are dropped. */
			AtEOXact_SMgr();
			break;
		case ENT_EVENT_MESSAGE:
			ereport(levels[event->level], (errmsg_internal("entresol: %s", door_error())));
			break;
		case ENT_EVENT_FAILED:
			/* This process ends by abort(), and the postmaster starts all anew. */
			if (event->level == 1)
				ereport(FATAL,
						(errcode(ERRCODE_IO_ERROR),
						 errmsg("the flash cache has failed: %s", door_error()),
						 errdetail("The flash is given up: the server replays WAL from %X/%X on in its place, when it starts.",
								   LSN_FORMAT_ARGS((XLogRecPtr) pg_atomic_read_u64(&door->log_horizon)))));
			ereport(PANIC,
					(errcode(ERRCODE_IO_ERROR),
					 errmsg("the flash cache has failed: %s", door_error()),
					 errhint("The cluster needs the pages on its flash. Make the device readable again, and start the server. If it is lost, restore the cluster from a backup.")));
			break;
		case ENT_EVENT_OFF:
			switch_off();
			break;
	}
}

/* The settings were read again. */
static void
limit_writes(void)
{
	static char last[64];
	bool		is_first = last[0] == '\0';

	if (strncmp(last, door_writes_per_day, sizeof(last) - 1) == 0)
		return;
	strlcpy(last, door_writes_per_day, sizeof(last));
	if (!is_first && ent_worker_limit(door_writes_per_day) == ENT_DONE)
		ereport(LOG, (errmsg("the flash cache takes \"%s\" of writes in a day from now on", door_writes_per_day)));
}

static void
serve(MemoryContext context)
{
	bool		is_redone = false;

	limit_writes();
	door_settings_were_read();
	while (!leave && door_state() != DOOR_DRAINING)
	{
		EntEvent	event = {0};

		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
			limit_writes();
			door_settings_were_read();
		}
		if (!PostmasterIsAliveInternal())
			proc_exit(1);
		if (!is_redone && !RecoveryInProgress())
		{
			ent_worker_redone();
			is_redone = true;
			door_begin_to_keep_log();
		}
		door_keep_log();
		door_follow_settings(is_redone);
		if (!door_has_cache)
			door_wait_a_little();
		else if (ent_worker_wait(LOOK_EVERY_MS, &event) == ENT_DONE)
			look_at(&event);
		/* For pg_stat_io: what was pulled. */
		(void) pgstat_report_stat(false);
		MemoryContextReset(context);
	}
}

/* Writes what the engine has said last to the log. */
void
door_show_messages(void)
{
	EntEvent	event = {0};

	while (ent_worker_wait(0, &event) == ENT_DONE && event.kind == ENT_EVENT_MESSAGE)
		look_at(&event);
}

void
door_drain(void)
{
	/* In binary upgrade mode files are about to be replaced by name: see drain_for_upgrade(). */
	int			code = ent_worker_close(IsBinaryUpgrade ? ENT_CLOSE_RELEASED : ENT_CLOSE_DRAINED, door_redo(NULL));

	if (code != ENT_DONE)
		strlcpy(door->message, door_error(), sizeof(door->message));
	door_show_messages();
	door_set_state(code == ENT_DONE ? DOOR_DRAINED : DOOR_NOT_DRAINED);
}

/* The flash stays as it is, warm. */
static void
close_cache(void)
{
	int			code = ent_worker_close(ENT_CLOSE_WARM, door_redo(NULL));

	if (code != ENT_DONE)
		ereport(LOG, (errmsg("the flash cache was not closed in order: %s", door_error()),
					  errdetail("It will be opened as after a crash.")));
	door_show_messages();
}

void
entresol_worker(Datum arg)
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "entresol", ALLOCSET_DEFAULT_SIZES);
	int			code;

	before_shmem_exit(on_exit_of_worker, 0);
	pqsignal(SIGTERM, SIG_IGN);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGUSR2, on_usr2);
	BackgroundWorkerUnblockSignals();
	CurrentResourceOwner = ResourceOwnerCreate(NULL, "entresol");
	MemoryContextSwitchTo(context);

	pg_atomic_write_u32(&door->worker, MyProcPid);
	door_is_worker = true;
	while (!leave && door_state() == DOOR_NEW)
		door_wait_a_little();
	if (leave)
		proc_exit(0);
	/* Without a flash, one may be named later. */
	if (door_state() == DOOR_ASKED)
	{
		code = door_open_cache();
		if (code != ENT_DONE)
		{
			/* The startup process says why, and ends the server, or goes on without. */
			door_set_state(code == ENT_FAILED ? DOOR_OFF : DOOR_REFUSED);
			while (!leave)
				door_wait_a_little();
			proc_exit(0);
		}
		door_show_messages();
		door_set_state(DOOR_SERVING);
		/* What this thread pulls enters the cache as any other process's pages do. */
		door_attach();
	}
	serve(context);
	ent_detach();
	if (door_state() == DOOR_DRAINING)
	{
		door_drain();
		while (!leave)
			door_wait_a_little();
	}
	else if (door_has_cache)
		close_cache();
	proc_exit(0);
}

void
door_register_worker(void)
{
	BackgroundWorker worker = {
		.bgw_name = "entresol worker",
		.bgw_type = "entresol worker",
		.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_OUTLIVES_BACKENDS,
		.bgw_start_time = BgWorkerStart_PostmasterStart,
		.bgw_restart_time = 0,
		.bgw_library_name = "entresol",
		.bgw_function_name = "entresol_worker",
	};

	RegisterBackgroundWorker(&worker);
}
