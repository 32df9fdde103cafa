/*
 * The cache follows its settings while the server runs: size, mode, policy, and the flash itself.
 *
 * In the worker. A change is prepared while all processes go on: what can be refused is refused, and dirty pages are
 * brought to their files. Then the gate is closed. A process that comes there waits; one that waits for the cache comes
 * back to the gate. When no process is in the cache, and no read of the flash that the server has started is under way,
 * the old cache ends, and the new one begins in the same memory. Behind the gate each process attaches anew.
 *
 * pg_control's bit says that the cluster needs the cache. It is set before a page may be dirty, and cleared when none
 * is.
 */
#include "door.h"

#include <unistd.h>

#include "access/htup_details.h"
#include "access/xlog.h"
#include "access/xlogrecovery.h"
#include "catalog/pg_control.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "portability/instr_time.h"
#include "postmaster/bgwriter.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/pmsignal.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

PG_FUNCTION_INFO_V1(entresol_cache);
PG_FUNCTION_INFO_V1(entresol_move_flash);

/* Between two looks at processes in the cache. */
#define POLL_US 1000
/* How long processes have to leave it, before the change is given up. */
#define PATIENCE_US 30000000
/* Between two checkpoints that are asked for, and two looks of a session at a change that it waits for. */
#define CHECKPOINT_EVERY_US 1000000
#define LOOK_EVERY_MS 20

/* As in EntNow. */
static const char *const modes[] = {"write-back", "write-through"};
static const char *const policies[] = {"face", "face-gr", "face-gsc", "reuse"};

/* What the worker does about its settings. */
static enum
{
	FOLLOWS,					/* nothing: the cache has them, or they were refused */
	IS_TOLD,					/* they were read */
	PREPARES,
}			step;

/* Clean pages stay out until files are durable that were written without the cache. */
static bool wants_checkpoints;

/* The settings were read again. */
void
door_settings_were_read(void)
{
	step = IS_TOLD;
}

/* The settings were looked at. "why" they are refused; NULL: the cache has them. */
static void
settle(const char *why)
{
	step = FOLLOWS;
	if (why)
		ereport(LOG,
				(errmsg("the flash cache stays as it is: %s", why)));
	strlcpy(door->refused, why ? why : "", sizeof(door->refused));
	pg_write_barrier();
	(void) pg_atomic_fetch_add_u64(&door->settled, 1);
}

/* The cache has the flash that the settings name: no exchange is under way. */
static void
end_exchange(void)
{
	const char *path = door_wanted().flash;

	if (ent_is_moving(&door_options, path) && ent_moving(&door_options, path, path) != ENT_DONE)
		ereport(WARNING, (errmsg("%s", door_error())));
}

/* The counters are those of another cache. */
static void
reset_counters(void)
{
	int			code;

	door_ask(code, ent_stat_reset());
	if (code != ENT_DONE)
		return;
	LWLockAcquire(door->kept_lock, LW_EXCLUSIVE);
	door->reset = GetCurrentTimestamp();
	LWLockRelease(door->kept_lock);
}

/* Serves the cache that was begun. The mode of it, and pg_control, before the first process enters. */
static void
serve(bool was_through)
{
	bool		is_through = door_now().mode != 0;

	pg_atomic_write_u32(&door->through, is_through);
	if (is_through != was_through)
		SetControlFileCacheBit(!is_through, true);
	door_has_cache = true;
	door->message[0] = '\0';
}

static void
say_what_serves(const char *what, long waited_ms)
{
	EntNow		now = door_now();

	ereport(LOG,
			(errmsg("the flash cache %s: \"%s\", %llu MB, %s, %s; processes waited for it for %ld ms at most", what,
					now.flash, (unsigned long long) (now.flash_bytes >> 20), modes[now.mode], policies[now.policy], waited_ms)));
}

/*
 * A cache for a server that has none. No process uses one meanwhile. 1. A page is written to its file; 2. the cache
 * begins; 3. the page is read again, and evicted as clean. A crash may lose the file's version, but not the cache's,
 * which redo would take for that of the file. So clean pages stay out until two checkpoints are complete.
 */
static void
add(void)
{
	TimeLineID	timeline;
	XLogRecPtr	redo = door_redo(&timeline),
				asked = pg_atomic_read_u64(&door->redo_asked);
	int			code;

	door->cluster.redo = redo;
	/* No WAL was kept from it on: the horizon begins with a later one. */
	door->cluster.checkpoint = InvalidXLogRecPtr;
	door->cluster.timeline = timeline;
	/* The files are complete without a cache, and newer than any. */
	door->cluster.backup = true;
	door->cluster.in_use = false;
	door->cluster.target = false;
	code = door_open_cache();
	if (code != ENT_DONE)
	{
		settle(door->message);
		return;
	}
	ent_worker_files_were_written();
	if (!RecoveryInProgress())
		ent_worker_redone();
	if (asked != 0 && ent_worker_mark(redo, asked) != ENT_DONE)
		ereport(PANIC, (errmsg("the flash cache has failed: %s", door_error())));
	serve(true);
	door_set_state(DOOR_SERVING);
	pg_memory_barrier();
	/* One that has begun meanwhile may have found no cache to be told: see checkpoint(). */
	if (pg_atomic_read_u64(&door->redo_asked) != asked &&
		ent_worker_mark(door_redo(NULL), pg_atomic_read_u64(&door->redo_asked)) != ENT_DONE)
		ereport(PANIC, (errmsg("the flash cache has failed: %s", door_error())));
	door_show_messages();
	door_attach();
	wants_checkpoints = true;
	say_what_serves("was added", 0);
	end_exchange();
	settle(NULL);
}

/* Waits until no process uses the cache. */
static bool
are_gone(void)
{
	for (int waited = 0; !ent_worker_is_alone(); waited += POLL_US)
	{
		if (!PostmasterIsAliveInternal())
			proc_exit(1);
		if (waited >= PATIENCE_US)
			return false;
		pg_usleep(POLL_US);
	}
	return true;
}

/* The change is prepared. */
static void
make(void)
{
	bool		was_through = door_is_through;
	uint64		asked;
	XLogRecPtr	redo;
	instr_time	began,
				took;
	sigset_t	all,
				before;
	char		why[sizeof(door->refused)];
	int			code;

	door_leave();
	INSTR_TIME_SET_CURRENT(began);
	ent_worker_close_gate();
	if (!are_gone())
	{
		ent_worker_open_gate(false);
		ent_worker_give_up();
		door_attach();
		settle("a process stays in the cache, and waits there");
		return;
	}
	wait_for_flash_reads();
	/* In this order: the last checkpoint that has begun may be complete now. */
	asked = pg_atomic_read_u64(&door->redo_asked);
	pg_read_barrier();
	redo = door_redo(NULL);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	code = ent_worker_change(redo, asked != 0 ? asked : redo);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (code != ENT_DONE && code != ENT_REFUSED)
		ereport(PANIC,
				(errcode(ERRCODE_IO_ERROR),
				 errmsg("the flash cache has failed: %s", door_error())));
	strlcpy(why, code == ENT_DONE ? "" : door_error(), sizeof(why));
	serve(was_through);
	door_set_state(DOOR_SERVING);
	ent_worker_open_gate(true);
	INSTR_TIME_SET_CURRENT(took);
	INSTR_TIME_SUBTRACT(took, began);
	door_show_messages();
	door_attach();
	reset_counters();
	wants_checkpoints = true;
	if (code == ENT_DONE)
	{
		say_what_serves("was changed", (long) INSTR_TIME_GET_MILLISEC(took));
		end_exchange();
	}
	settle(code == ENT_DONE ? NULL : why);
}

static void
prepare(void)
{
	EntOptions	wanted = door_wanted();
	int			code;

	/* It goes on without a cache until the next start, as the log has said. */
	if (!door_names_flash() || (!door_has_cache && door_state() != DOOR_OFF))
	{
		settle(NULL);
		return;
	}
	if (!door_has_cache)
	{
		add();
		return;
	}
	code = ent_worker_prepare(&wanted);
	if (code == ENT_NOTHING)
	{
		end_exchange();
		settle(NULL);
	}
	else if (code == ENT_DONE)
		step = PREPARES;
	else
		settle(door_error());
}

/* Clean pages enter when the files are durable. */
static void
ask_for_checkpoints(void)
{
	static XLogRecPtr asked_at;
	static instr_time asked;
	instr_time	now,
				since;
	XLogRecPtr	redo;

	INSTR_TIME_SET_CURRENT(now);
	since = now;
	INSTR_TIME_SUBTRACT(since, asked);
	if (!INSTR_TIME_IS_ZERO(asked) && INSTR_TIME_GET_MICROSEC(since) < CHECKPOINT_EVERY_US)
		return;
	if (!ent_worker_awaits_checkpoints())
	{
		wants_checkpoints = false;
		return;
	}
	redo = door_redo(NULL);
	if (RecoveryInProgress() || redo == asked_at)
		return;
	asked_at = redo;
	asked = now;
	RequestCheckpoint(CHECKPOINT_IMMEDIATE | CHECKPOINT_FORCE);
}

/* A step of a change, which does not begin while the server shuts down. */
static void
follow(void)
{
	int			code;

	if (step == IS_TOLD)
		prepare();
	if (step != PREPARES)
		return;
	code = ent_worker_is_prepared();
	if (code == ENT_DONE)
		make();
	else if (code != ENT_NOTHING)
	{
		char		why[sizeof(door->refused)];

		strlcpy(why, door_error(), sizeof(why));
		ent_worker_give_up();
		settle(why);
	}
}

/*
 * A turn of the worker. While redo makes the files complete, nothing is changed: nor until a checkpoint is behind redo that
 * replaces a lost flash.
 */
void
door_follow_settings(bool is_redone)
{
	if ((!is_redone && !HotStandbyActive()) || !XLogRecPtrIsInvalid(door->lost_upto))
		return;
	if (wants_checkpoints && door_has_cache)
		ask_for_checkpoints();
	if (step == FOLLOWS || !door_take_change(DOOR_CHANGES))
		return;
	follow();
	pg_write_barrier();
	pg_atomic_write_u32(&door->change, DOOR_RESTS);
}

Datum
entresol_cache(PG_FUNCTION_ARGS)
{
	TupleDesc	description;
	Datum		values[6];
	bool		nulls[lengthof(values)] = {0};
	bool		is_there;
	EntNow		now;

	door_check_loaded();
	if (get_call_result_type(fcinfo, NULL, &description) != TYPEFUNC_COMPOSITE ||
		description->natts != lengthof(values))
		elog(ERROR, "entresol_cache() has other columns than the library; update the extension");
	now = door_now();
	is_there = now.flash_bytes != 0;
	nulls[0] = nulls[1] = nulls[3] = nulls[4] = !is_there;
	values[0] = CStringGetTextDatum(now.flash);
	values[1] = Int64GetDatum((int64) (now.flash_bytes >> 20));
	values[2] = Int64GetDatum((int64) (door_options.max_bytes >> 20));
	values[3] = CStringGetTextDatum(modes[now.mode]);
	values[4] = CStringGetTextDatum(policies[now.policy]);
	nulls[5] = door->refused[0] == '\0';
	values[5] = CStringGetTextDatum(door->refused);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(description), values, nulls)));
}

/* ALTER SYSTEM SET entresol.flash, and a reload. */
static void
set_flash(const char *path)
{
	VariableSetStmt *set = makeNode(VariableSetStmt);
	AlterSystemStmt *alter = makeNode(AlterSystemStmt);
	A_Const    *value = makeNode(A_Const);

	value->val.sval.type = T_String;
	value->val.sval.sval = pstrdup(path);
	value->location = -1;
	set->kind = VAR_SET_VALUE;
	set->name = "entresol.flash";
	set->args = list_make1(value);
	alter->setstmt = set;
	AlterSystemSetConfigFile(alter);
	if (kill(PostmasterPid, SIGHUP) != 0)
		ereport(ERROR, (errmsg("the configuration cannot be read again: %m")));
}

/* Waits until the worker has settled the settings, or the cache is on "path". False: it has refused them. */
static bool
await(const char *path, uint64 settled)
{
	for (;;)
	{
		if (strcmp(door_now().flash, path) == 0 && door_state() == DOOR_SERVING &&
			pg_atomic_read_u64(&door->settled) != settled)
			return true;
		if (pg_atomic_read_u64(&door->settled) != settled && door->refused[0] != '\0')
			return false;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, LOOK_EVERY_MS,
						 PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * Exchanges the flash, or adds one. The note of the exchange is there before the setting is changed, and until the cache
 * is on the new flash: see crates/pg/src/moving.rs. It is not undone if the transaction is rolled back.
 */
Datum
entresol_move_flash(PG_FUNCTION_ARGS)
{
	char	   *path = text_to_cstring(PG_GETARG_TEXT_PP(0));
	uint64		settled;
	EntNow		now;

	door_check_loaded();
	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("only superusers may exchange the flash")));
	if (path[0] == '\0' || strlen(path) >= ENT_FLASH_PATH_BYTES || strchr(path, '\n') != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("the path of a flash has 1 to %d bytes, and no newline", ENT_FLASH_PATH_BYTES - 1)));
	now = door_now();
	if (now.flash_bytes != 0 && ent_moving(&door_options, now.flash, path) != ENT_DONE)
		ereport(ERROR, (errmsg("%s", door_error())));
	settled = pg_atomic_read_u64(&door->settled);
	set_flash(path);
	if (!await(path, settled))
	{
		char		why[sizeof(door->refused)];

		strlcpy(why, door->refused, sizeof(why));
		if (now.flash_bytes != 0)
		{
			set_flash(now.flash);
			(void) ent_moving(&door_options, path, path);
		}
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the flash was not exchanged: %s", why)));
	}
	PG_RETURN_VOID();
}
