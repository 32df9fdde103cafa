/*
 * How long a replay in place of a lost flash would take.
 *
 * The time of such a replay is that of the pages which it reads and writes. So they are counted when they are handed
 * down from shared buffers: redo will write about as many. What a page takes is known from the last replay
 * (crates/pg/src/forecast.rs).
 */
#include "door.h"

#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "access/xlogrecovery.h"
#include "miscadmin.h"
#include "utils/timestamp.h"

/* Where WAL ends now. */
XLogRecPtr
door_log_end(void)
{
	return RecoveryInProgress() ? GetXLogReplayRecPtr(NULL) : GetXLogInsertRecPtr();
}

/* Notes how many pages were handed down until WAL came to "lsn". */
static void
mark(XLogRecPtr lsn)
{
	SpinLockAcquire(&door->log_lock);
	door->log_marks[door->log_marked++ % DOOR_LOG_MARKS] = (LogMark) {
		.lsn = lsn,
		.pages = pg_atomic_read_u64(&door->handed_down),
	};
	SpinLockRelease(&door->log_lock);
}

/* In the startup process. */
void
door_redo_begins(XLogRecPtr from)
{
	door->redo_from = from;
	door->redo_began = GetCurrentTimestamp();
	mark(from);
}

/* A checkpoint begins. */
void
door_mark_log(void)
{
	mark(door_log_end());
}

/* Redo is over, at "upto". Less WAL than a segment tells nothing. */
void
door_note_redo(XLogRecPtr upto, bool replaced)
{
	EntRedoTook took = {
		.bytes = upto - door->redo_from,
		.micros = (uint64) (GetCurrentTimestamp() - door->redo_began),
		.pages = pg_atomic_read_u64(&door->handed_down),
		.replaced = replaced,
	};

	if (upto >= door->redo_from + wal_segment_size)
		ent_redo_took(DataDir, &took);
}

/*
 * About how many pages were handed down since WAL was at "from": counted from the nearest mark on, and scaled. 0: no mark
 * is a segment old.
 */
static uint64
handed_down_since(XLogRecPtr from, XLogRecPtr now)
{
	uint64		pages = pg_atomic_read_u64(&door->handed_down);
	LogMark		found = {0};

	SpinLockAcquire(&door->log_lock);
	for (int i = 0; i < Min(door->log_marked, DOOR_LOG_MARKS); i++)
	{
		LogMark		mark = door->log_marks[i];

		if (mark.lsn + wal_segment_size > now || mark.pages > pages)
			continue;
		if (XLogRecPtrIsInvalid(found.lsn) || Max(mark.lsn, from) - Min(mark.lsn, from) <
			Max(found.lsn, from) - Min(found.lsn, from))
			found = mark;
	}
	SpinLockRelease(&door->log_lock);
	if (XLogRecPtrIsInvalid(found.lsn))
		return 0;
	return (uint64) ((pages - found.pages) * ((double) (now - from) / (now - found.lsn)));
}

/* Seconds that a replay of WAL from "horizon" on takes. Negative: it is not known. */
double
door_replay_seconds(XLogRecPtr horizon)
{
	XLogRecPtr	now = door_log_end();
	EntReplay	ahead = {.bytes = now - horizon, .pages = handed_down_since(horizon, now)};

	return ent_replay_seconds(DataDir, &ahead);
}
