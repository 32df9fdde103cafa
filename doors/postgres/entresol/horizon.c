/*
 * WAL replaces a flash that is lost: it is kept from the horizon on (crates/pg/src/horizon.rs).
 *
 * The worker knows the horizon. A process that asks it for something adds one to "log_asked", and waits until
 * "log_answered" has come that far.
 *
 * 1. The checkpointer asks when pg_control names a checkpoint, before WAL is removed. It waits while pages are brought to
 *	  their files that need more WAL than entresol.wal_keep_size. Until WAL replaces the flash, it does not wait.
 * 2. A process whose statement must not be replayed waits until no WAL from before is needed.
 * 3. When full-page images are switched off, and in the redo of such a statement, WAL replaces the flash no more, from the
 *	  next checkpoint on it does again.
 */
#include "door.h"

#include <sys/statvfs.h>

#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "access/xlogrecovery.h"
#include "catalog/pg_control.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "postmaster/bgwriter.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/pmsignal.h"
#include "utils/builtins.h"
#include "utils/pg_lsn.h"
#include "utils/wait_event.h"

PG_FUNCTION_INFO_V1(entresol_flash_loss);

/* Between two looks at the worker, in milliseconds. */
#define LOOK_EVERY_MS 5

#define MB ((uint64) 1024 * 1024)

bool		door_survives;
int			door_wal_keep_mb;

/* Whether WAL is kept at all. */
static bool
keeps_log(void)
{
	return door_survives && !door_is_through && IsUnderPostmaster && door_state() == DOOR_SERVING;
}

/* As in horizon.rs: 0 if no WAL replaces the flash. */
static XLogRecPtr
horizon_redo(void)
{
	return (XLogRecPtr) pg_atomic_read_u64(&door->log_horizon);
}

/* The hook: how much WAL is kept. */
XLogRecPtr
door_keep_wal_from(void)
{
	return (XLogRecPtr) pg_atomic_read_u64(&door->log_kept_from);
}

/* No checkpoint is told any more, and no WAL is kept. */
static void
forget_log(void)
{
	pg_atomic_write_u64(&door->log_horizon, 0);
	pg_atomic_write_u64(&door->log_kept_from, 0);
	SpinLockAcquire(&door->log_lock);
	door->log_newest.record = 0;
	SpinLockRelease(&door->log_lock);
}

/* What WAL has between two places, in MB. */
static unsigned long long
mb_between(XLogRecPtr from, XLogRecPtr to)
{
	return to > from ? (to - from) / MB : 0;
}

/* A server without room for its WAL stops. What is kept already has its room. */
static void
warn_of_no_room(void)
{
	struct statvfs room;
	unsigned long long kept = mb_between(door_keep_wal_from(), door_log_end());
	unsigned long long wanted = (unsigned long long) door_wal_keep_mb + max_wal_size_mb;
	unsigned long long free_mb;

	if (statvfs(XLOGDIR, &room) != 0)
		return;
	free_mb = (unsigned long long) room.f_bavail * room.f_frsize / MB;
	if (free_mb + kept < wanted)
		ereport(WARNING,
				(errcode(ERRCODE_DISK_FULL),
				 errmsg("the file system of \"%s\" has %llu MB free, and WAL may grow by %llu MB", XLOGDIR, free_mb, wanted - kept),
				 errdetail("WAL is kept to replace the flash cache, up to \"entresol.wal_keep_size\". A server that has no room for its WAL stops."),
				 errhint("Make room, or lower \"entresol.wal_keep_size\".")));
}

/* In this order, as the other processes read it: the log of a horizon is kept. */
static int
note_log(void)
{
	static bool has_kept;
	EntLogKept	kept;
	int			code = ent_worker_log_is_kept(&kept);

	pg_atomic_write_u64(&door->log_kept_from, kept.from);
	pg_write_barrier();
	pg_atomic_write_u64(&door->log_horizon, kept.horizon.redo);
	pg_atomic_write_u64(&door->log_pages, kept.pages);
	if (!has_kept && kept.horizon.redo != 0)
	{
		has_kept = true;
		warn_of_no_room();
	}
	return code;
}

static void
wait_a_little(int ms)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, ms, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
}

/* Asks the worker, and waits for its answer. With "may_end" an interrupt ends the wait. */
static void
ask(const EntCheckpoint *newest, bool all, bool may_end)
{
	uint64		asked;

	SpinLockAcquire(&door->log_lock);
	if (newest)
		door->log_newest = *newest;
	door->log_all |= all;
	asked = ++door->log_asked;
	SpinLockRelease(&door->log_lock);
	while (pg_atomic_read_u64(&door->log_answered) < asked && keeps_log())
	{
		if (may_end)
			CHECK_FOR_INTERRUPTS();
		else if (!PostmasterIsAliveInternal())
			proc_exit(1);
		wait_a_little(LOOK_EVERY_MS);
	}
}

/* A turn of the worker: takes what was asked for, and answers when it is done. */
void
door_keep_log(void)
{
	static uint64 under_way;
	EntLogWanted wanted = {
		.safe = pg_atomic_read_u64(&door->log_safe),
		.bound = (uint64) door_wal_keep_mb * MB,
	};
	uint64		asked;
	int			code = ENT_NOTHING;

	if (!XLogRecPtrIsInvalid(door->lost_upto))
		return;
	if (!keeps_log() || !door_has_cache)
	{
		forget_log();
		return;
	}
	SpinLockAcquire(&door->log_lock);
	asked = door->log_asked;
	if (asked > under_way)
	{
		wanted.newest = door->log_newest;
		wanted.all = door->log_all;
		door->log_newest.record = 0;
		door->log_all = false;
	}
	SpinLockRelease(&door->log_lock);
	if (asked > under_way)
	{
		under_way = asked;
		code = ent_worker_keep_log(&wanted);
		if (code < 0)
			ereport(PANIC,
					(errcode(ERRCODE_IO_ERROR),
					 errmsg("the horizon of the flash cache cannot be written: %s", door_error())));
	}
	if (note_log() == ENT_DONE || code == ENT_DONE)
		pg_atomic_write_u64(&door->log_answered, under_way);
}

/* Redo is over: WAL replaces the flash as soon as older pages are in their files. */
void
door_begin_to_keep_log(void)
{
	/* The checkpoint that redo began with may have been without images, or the next ones are. */
	if (!fullPageWrites || !XLogIsNeeded())
		door_log_is_safe_from(door_log_end());
	/* A standby replays as long as it is one. */
	if (!RecoveryInProgress() && !HotStandbyActive() && door->cluster.in_use)
		door_note_redo(door_redo(NULL), false);
	SpinLockAcquire(&door->log_lock);
	door->log_asked++;
	SpinLockRelease(&door->log_lock);
}

/* The hook: pg_control names a checkpoint. */
void
door_checkpoint_complete(const FlashCacheCheckpoint *done)
{
	EntCheckpoint newest = {.record = done->checkpoint, .redo = done->redo, .timeline = done->tli};

	if (XLogRecPtrIsInvalid(door->lost_upto))
	{
		if (!keeps_log())
		{
			forget_log();
			return;
		}
		door_log_is_safe_from(done->unsafe_until);
		ask(&newest, false, false);
		return;
	}
	/* Redo that replaces the flash is over, or on a standby far enough. */
	if (done->redo <= door->lost_upto)
		return;
	/* A restartpoint's record was replayed: redo goes on. */
	if (!RecoveryInProgress() || done->checkpoint >= GetXLogReplayRecPtr(NULL))
		door_note_redo(done->redo, true);
	SetControlFileCacheBit(false, true);
	if (ent_lost_end(DataDir) < 0)
		ereport(PANIC,
				(errcode(ERRCODE_IO_ERROR),
				 errmsg("%s", door_error())));
	door->lost_upto = InvalidXLogRecPtr;
	pg_atomic_write_u64(&door->log_kept_from, 0);
	ereport(LOG,
			(errmsg("the files of the cluster are complete without the flash cache that was lost")));
}

/* WAL from before "lsn" must not be replayed over newer files. */
void
door_log_is_safe_from(XLogRecPtr lsn)
{
	uint64		known = pg_atomic_read_u64(&door->log_safe);

	while (known < lsn && !pg_atomic_compare_exchange_u64(&door->log_safe, &known, lsn))
		;
}

/* The hook. */
void
door_no_replay_before(XLogRecPtr lsn, bool waits)
{
	while (keeps_log() && (!waits || horizon_redo() < lsn))
	{
		/* In redo, before full-page images are switched off, and if WAL does not replace the flash as yet. */
		if (!waits || horizon_redo() == 0)
		{
			door_log_is_safe_from(lsn);
			ask(NULL, false, waits);
			return;
		}
		ask(NULL, true, true);
		/* Forgotten pages count until the second checkpoint from then on. An idle server makes none. */
		if (keeps_log() && horizon_redo() < lsn)
			RequestCheckpoint(CHECKPOINT_IMMEDIATE | CHECKPOINT_FORCE | CHECKPOINT_WAIT);
		CHECK_FOR_INTERRUPTS();
	}
}

/* The hook: is the flash lost, and does WAL replace it? */
bool
door_redo_from(FlashCacheRedo *redo)
{
	EntCheckpoint newest = {
		.record = redo->newest.checkpoint,
		.redo = redo->newest.redo,
		.timeline = redo->newest.tli,
	};
	EntRedo		found;
	int			code;

	code = ent_lost_begin(DataDir, &newest, redo->has_target, wal_segment_size, &found);
	if (code == ENT_NOTHING)
		return false;
	if (code != ENT_DONE)
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("WAL cannot replace the flash cache of this cluster"),
				 errdetail("%s.", door_error()),
				 redo->has_target ?
				 errhint("Recover without a target: the server replays all of its log. For an earlier state, restore a backup.") :
				 errhint("Remove the file \"%s\" if the flash is not lost, or restore the cluster from a backup.",
						 DOOR_LOST_SIGNAL)));
	redo->checkpoint = found.from.record;
	redo->tli = found.from.timeline;
	redo->upto = found.upto;
	redo->upto_tli = found.upto_timeline;
	door->lost_upto = found.upto;
	pg_atomic_write_u64(&door->log_kept_from, found.from.redo);
	ereport(LOG,
			(errmsg("the flash cache is lost: redo starts at %X/%X, and replays at least %llu MB of WAL in its place",
					LSN_FORMAT_ARGS(found.from.redo), mb_between(found.from.redo, found.upto)),
			 errdetail("Unlogged tables will be empty. The cluster does not need a flash cache afterwards.")));
	return true;
}

/* For errors: what to do if the flash is lost. NULL: no WAL replaces it. */
const char *
door_hint_of_loss(void)
{
	EntCheckpoint horizon;

	if (ent_lost_promise(DataDir, &horizon) != ENT_DONE)
		return NULL;
	return psprintf("If the flash is lost, make the file \"%s/%s\", and start the server: it replays WAL from %X/%X on in place of the flash.",
					DataDir, DOOR_LOST_SIGNAL, LSN_FORMAT_ARGS(horizon.redo));
}

/* entresol_flash_loss(): what a loss of the flash would cost. */
Datum
entresol_flash_loss(PG_FUNCTION_ARGS)
{
	TupleDesc	description;
	Datum		values[5];
	bool		nulls[lengthof(values)] = {0};
	XLogRecPtr	horizon;
	double		seconds;

	door_check_loaded();
	if (get_call_result_type(fcinfo, NULL, &description) != TYPEFUNC_COMPOSITE ||
		description->natts != lengthof(values))
		elog(ERROR, "entresol_flash_loss() has other columns than the library; update the extension");
	horizon = horizon_redo();
	values[0] = CStringGetTextDatum(door_state() != DOOR_SERVING || door_is_through ? "survives, by its files" :
									!keeps_log() ? "fatal" :
									horizon == 0 ? "fatal, until older pages are in their files" : "survives, by WAL");
	nulls[1] = nulls[2] = nulls[3] = horizon == 0;
	values[1] = LSNGetDatum(horizon);
	values[2] = Int64GetDatum((int64) (door_log_end() - horizon));
	values[3] = Int64GetDatum((int64) pg_atomic_read_u64(&door->log_pages));
	seconds = horizon == 0 ? -1 : door_replay_seconds(horizon);
	nulls[4] = seconds < 0;
	values[4] = Float8GetDatum(seconds);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(description), values, nulls)));
}
