/*
 * The table of hooks (storage/flashcache.h).
 *
 * Most of this may run in critical sections and with buffers locked. An error there is a PANIC, which is
 * right: the cache's state is in question, and a restart settles it.
 */
#include "door.h"

#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "access/xlogrecovery.h"
#include "catalog/pg_control.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "postmaster/interrupt.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "storage/pmsignal.h"
#include "storage/smgr.h"
#include "utils/guc.h"
#include "utils/timeout.h"
#include "utils/wait_event.h"

/* Between two looks at what another process does. */
#define POLL_US 5000
/* Between two looks at a cache that is being changed. */
#define GATE_POLL_US 1000
/* How long a process waits for the postmaster, which ends all processes when the worker has died. */
#define PATIENCE_US 10000000
/* How long the startup process waits for the worker to begin. It then takes as long as it takes. */
#define WORKER_PATIENCE_US 60000000

static uint32 wait_for_read;
static uint32 wait_for_room;
static uint32 wait_for_destage;
static uint32 wait_for_forget;
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

/* What ends a wait for the cache, beside the end of the postmaster. */
static enum
{
	BY_NOTHING,					/* the cache has changed, and the caller cannot go back */
	BY_END_OR_CANCEL,			/* a lock is held: the statement is cancelled, or the process is to end */
	BY_INTERRUPTS,
}			wait_ends;

/* Whether this process is to give up what it does, of the interrupts that do not look at whether locks are held. */
static bool
is_told_to_end(void)
{
	return ProcDiePending || (QueryCancelPending && QueryCancelHoldoffCount == 0) ||
		(MyBackendType == B_BG_WRITER && ShutdownRequestPending);
}

/* A process without a postmaster is one of its own: see open_alone(). */
static inline bool
door_has_postmaster(void)
{
	return !IsUnderPostmaster || PostmasterIsAliveInternal();
}

/*
 * Called between waits for the cache, possibly with locks: then nothing but this ends a wait. A change of the cache
 * ends it, too: the call is made again, after the change.
 */
static bool
interrupted(void)
{
	if (wait_ends != BY_NOTHING && ent_is_changing())
		return true;
	if (wait_ends == BY_INTERRUPTS ? InterruptPending : wait_ends == BY_END_OR_CANCEL && is_told_to_end())
		return true;
	return !door_has_postmaster();
}

/* A wait for the cache begins. In critical sections nothing ends it. */
static void
begin_wait(uint32 event)
{
	if (CritSectionCount == 0)
		wait_ends = InterruptHoldoffCount == 0 ? BY_INTERRUPTS : BY_END_OR_CANCEL;
	pgstat_report_wait_start(event);
}

/*
 * It has ended with "code". True: it is to be begun again. May raise the interrupt as an error, also with a lock on
 * a buffer: as the server's own write of a page may, if it fails.
 */
static bool
end_wait(int code)
{
	pgstat_report_wait_end();
	wait_ends = BY_NOTHING;
	if (door_has_changed(code))
		return true;
	if (likely(code != ENT_INTERRUPTED) || !door_has_postmaster())
		return false;
	if (InterruptHoldoffCount == 0)
		CHECK_FOR_INTERRUPTS();
	else if (ProcDiePending)
		ereport(FATAL,
				(errcode(ERRCODE_ADMIN_SHUTDOWN),
				 errmsg("terminating process due to administrator command"),
				 errdetail("It waited for the flash cache.")));
	else if (QueryCancelPending)
	{
		QueryCancelPending = false;
		ereport(ERROR,
				(errcode(ERRCODE_QUERY_CANCELED),
				 get_timeout_indicator(STATEMENT_TIMEOUT, true) ?
				 errmsg("canceling statement due to statement timeout") :
				 errmsg("canceling statement due to user request"),
				 errdetail("It waited for the flash cache.")));
	}
	else if (is_told_to_end())
		ereport(ERROR,
				(errcode(ERRCODE_ADMIN_SHUTDOWN),
				 errmsg("the process is to end, and waited for the flash cache")));
	return true;
}

static void
detach(int code, Datum arg)
{
	ent_detach();
}

/* The postmaster has ended: this process does, too, as in the server's own waits. Its locks are released. */
static void
end_without_postmaster(void)
{
	/* There a FATAL is a PANIC. */
	if (CritSectionCount > 0)
		proc_exit(1);
	ereport(FATAL,
			(errcode(ERRCODE_ADMIN_SHUTDOWN),
			 errmsg("terminating, since the postmaster has ended")));
}

/* The cache could not do what it was asked for. */
static void
fail(int code)
{
	const char *why = door_error();

	if (code == ENT_DAMAGED)
	{
		const char *lost = CritSectionCount == 0 ? door_hint_of_loss() : NULL;

		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("the flash cache has a damaged page: %s", why),
				 lost ? errhint("%s", lost) : 0));
	}
	if (code == ENT_INTERRUPTED)
		end_without_postmaster();

	/* The worker has died, or is about to. The postmaster will end us, too, or has ended before it. */
	for (int waited = 0; waited < PATIENCE_US && door_has_postmaster(); waited += POLL_US)
		pg_usleep(POLL_US);
	if (!door_has_postmaster())
		end_without_postmaster();
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

void
door_check(int code)
{
	check(code);
}

/* Waits until the state is no longer one before "state". */
static void
wait_for_state(DoorState state)
{
	while (door_state() < state)
	{
		if (!door_has_postmaster())
			end_without_postmaster();
		if (CritSectionCount == 0)
			CHECK_FOR_INTERRUPTS();
		pg_usleep(POLL_US);
	}
}

/* Attaches this process to a cache that serves. */
int
door_try_attach(void)
{
	static bool reserved;

	if (!reserved)
	{
		/* fd.c does not know of two descriptors: of the flash, and of the folder of the notes. */
		ReserveExternalFD();
		ReserveExternalFD();
		reserved = true;
		on_shmem_exit(detach, 0);
	}
	return ent_attach(&door_options, door_memory, door_memory_bytes, (uint32) MyBackendType,
					  (uint32) MyProcNumber, interrupted);
}

/*
 * Attaches this process as soon as the worker has opened the cache, and does not change it.
 *
 * The checkpointer and the background writer begin before that, and come here with their first page. A process that
 * had attached before comes here again after a change; it may have locks, or be in a critical section. Then memory is
 * allocated, but none of the server's.
 */
void
door_attach(void)
{
	int			code;

	for (;;)
	{
		wait_for_state(DOOR_SERVING);
		if (door_state() == DOOR_OFF)
			return;
		code = door_try_attach();
		if (code != ENT_CHANGED)
			break;
		if (!door_has_postmaster())
			end_without_postmaster();
		pg_usleep(GATE_POLL_US);
	}
	if (code == ENT_GONE)
		fail(code);
	if (code != ENT_DONE)
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the flash cache cannot be used by this process: %s", door_error())));
}

/* Gives the place of this process up, and its descriptor of the flash. */
void
door_leave(void)
{
	int			descriptor = ent_descriptor();

	if (descriptor >= 0)
		before_close(descriptor);
	ent_detach();
}

/* Whether a call was in vain, as the cache was changed: it is to be made again. */
bool
door_has_changed(int code)
{
	if (likely(code != ENT_CHANGED))
		return false;
	door_leave();
	return true;
}

/* Does "work", which calls the cache, and checks what it returns. Without a cache: "otherwise". */
#define with_cache(work, otherwise) \
	do { \
		int			code_; \
		do \
		{ \
			if (!door_is_there()) \
				otherwise; \
			code_ = (work); \
		} while (door_has_changed(code_)); \
		check(code_); \
	} while (0)

/* Begins to measure, if the server does. */
static inline instr_time
begin(void)
{
	instr_time	now;

	if (track_io_timing)
		INSTR_TIME_SET_CURRENT(now);
	else
		INSTR_TIME_SET_ZERO(now);
	return now;
}

static inline void
end(uint32 row, instr_time began)
{
	instr_time	now;

	if (INSTR_TIME_IS_ZERO(began))
		return;
	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, began);
	(void) ent_took(row, INSTR_TIME_GET_MICROSEC(now));
}

static void
attach(void)
{
	wait_for_read = WaitEventExtensionNew("EntresolRead");
	wait_for_room = WaitEventExtensionNew("EntresolStage");
	wait_for_forget = WaitEventExtensionNew("EntresolForget");
	wait_for_destage = WaitEventExtensionNew("EntresolDestage");
	wait_for_checkpoint = WaitEventExtensionNew("EntresolCheckpoint");
	if (door_state() == DOOR_SERVING)
		(void) door_is_there();
}

/* The server is about to read from disk what the cache lacks. It allocates nothing in critical sections. */
void
door_time_disk(void)
{
	if (CritSectionCount == 0)
		ent_time_disk((io_direct_flags & IO_DIRECT_DATA) != 0);
}

static uint32
residency(RelFileLocator rlocator, ForkNumber forknum, BlockNumber blkno, uint32 nblocks, bool *cached)
{
	uint32		same;

	*cached = false;
	with_cache(ent_residency(door_fork_of(rlocator, forknum), blkno, nblocks, missed, &same, cached), return nblocks);
	if (missed)
		door_time_disk();
	missed = false;
	return same;
}

static bool
is_newer(RelFileLocator rlocator, ForkNumber forknum, BlockNumber blkno)
{
	bool		newer;

	with_cache(ent_is_newer(door_fork_of(rlocator, forknum), blkno, &newer), return false);
	return newer;
}

static XLogRecPtr
durable_lsn(RelFileLocator rlocator, ForkNumber forknum, BlockNumber blkno)
{
	uint64		lsn;

	with_cache(ent_durable_lsn(door_fork_of(rlocator, forknum), blkno, &lsn), return InvalidXLogRecPtr);
	return lsn;
}

static void
redo_changes(RelFileLocator rlocator, ForkNumber forknum, BlockNumber blkno)
{
	with_cache(ent_redo_changes(door_fork_of(rlocator, forknum), blkno), return);
}

static void
overwrites(RelFileLocator rlocator, ForkNumber forknum)
{
	with_cache(ent_overwrites(door_fork_of(rlocator, forknum)), return);
}

static uint32
read_blocks(RelFileLocator rlocator, ForkNumber forknum, BlockNumber blkno, void **buffers, uint32 nblocks)
{
	uint32		done;
	int			code;
	instr_time	began = begin();

	do
	{
		if (!door_is_there())
			return 0;
		begin_wait(wait_for_read);
		code = ent_read(door_fork_of(rlocator, forknum), blkno, buffers, nblocks, &done);
	} while (unlikely(end_wait(code)));
	check(code);
	if (done > 0)
		end(ENT_TOOK_READ, began);
	missed = done == 0;
	return done;
}

/*
 * Says how far the log is durable, or was replayed: what a page knows, and what makes a page dead, is in the log
 * before that. To be called before a page is handed down, after its copy was made, and before pages are
 * forgotten.
 */
static inline void
tell_log(void)
{
	TimeLineID	timeline;
	XLogRecPtr	lsn;

	/* The record that is being replayed may have changed the page already. */
	lsn = RecoveryInProgress() ? GetCurrentReplayRecPtr(&timeline) : GetFlushRecPtr(&timeline);
	ent_log_at(timeline, lsn);
}

static int
hand_down(RelFileLocator rlocator, ForkNumber forknum, BlockNumber blkno, const char *page, XLogRecPtr lsn,
		  int flags)
{
	static PGIOAlignedBlock copy;
	instr_time	began = begin();
	int			code;

	/* Hint bits may be set in a buffer meanwhile, of transactions whose commit is not durable yet now. */
	if ((flags & FLASH_STAGE_DIRTY) != 0 && !DataChecksumsEnabled())
	{
		memcpy(copy.data, page, BLCKSZ);
		page = copy.data;
	}
	do
	{
		/* A cache that is never newer than the files takes no dirty page. */
		if (!door_is_there() || (ent_is_through() && (flags & FLASH_STAGE_DIRTY) != 0))
			return ENT_CHANGED;
		tell_log();
		begin_wait(wait_for_room);
		code = ent_stage(door_fork_of(rlocator, forknum), blkno, page, lsn, flags);
	} while (unlikely(end_wait(code)));
	check(code);
	end(ENT_TOOK_STAGE, began);
	return code;
}

/*
 * A dirty page in write-through mode. The server's own write brings it to disk, and makes it durable with the
 * next checkpoint; that write forgets the older copy first. If the page leaves shared buffers, a copy of what
 * was written enters the cache then, as a clean page. It does so after the write, so that it is never newer
 * than disk while the server runs.
 *
 * 1. Power fails when the cache has the copy durably, and before the file is synced. 2. The file has an older
 * version. 3. Redo reads the copy in the cache, finds it up to date, and leaves it clean. 4. The copy is
 * dropped one day, and the older version is read. So pages that entered since the last complete checkpoint are
 * written to their files when the cache is opened: see ent_checkpoint().
 *
 * False: it is not written. If the cache is changed meanwhile, the copy does not enter.
 */
static bool
write_through(RelFileLocator rlocator, ForkNumber forknum, BlockNumber blkno, const char *page, XLogRecPtr lsn,
			  int flags)
{
	static PGIOAlignedBlock copy;
	SMgrRelation reln;

	/* What stays in shared buffers is offered as a clean page when it leaves them. */
	if ((flags & FLASH_STAGE_EVICT) == 0 || (flags & FLASH_STAGE_PULL) != 0 ||
		door_kept(rlocator) != KEPT_NOT)
		return false;
	/* Hint bits may change the page meanwhile: both get the same bytes. */
	memcpy(copy.data, page, BLCKSZ);
	/* The caller has opened it: nothing is allocated. */
	reln = smgropen(rlocator, INVALID_PROC_NUMBER);
	smgrwrite(reln, forknum, blkno, copy.data, false);
	(void) hand_down(rlocator, forknum, blkno, copy.data, lsn, (flags & ~FLASH_STAGE_DIRTY) | ENT_THROUGH);
	return true;
}

/*
 * A dirty page goes to its file past the cache, and without full-page images nothing mends what a crash may leave
 * there. (A new page is all zeros, on disk, too.)
 */
static void
tell_of_torn_pages(const char *page)
{
	static bool told;

	if (told || PageIsNew((Page) page))
		return;
	told = true;
	ereport(LOG,
			(errmsg("a page is written past the flash cache while \"full_page_writes\" is off"),
			 errdetail("A crash of the system may tear it."),
			 errhint("Raise \"entresol.objects\", or set \"full_page_writes\" to on.")));
}

static bool
stage(RelFileLocator rlocator, ForkNumber forknum, BlockNumber blkno, const char *page, XLogRecPtr lsn, int flags)
{
	bool		is_dirty = (flags & FLASH_STAGE_DIRTY) != 0;
	int			given = flags;
	Kept		kept;
	int			code;

	if (is_dirty)
		pg_atomic_fetch_add_u64(&door->handed_down, 1);
again:
	if (!door_is_there())
		return false;
	flags = given;
	if (is_dirty && ent_is_through())
		return write_through(rlocator, forknum, blkno, page, lsn, flags);
	/*
	 * A destage may be torn, as the cache keeps its copy until it is durable. So without full-page images every
	 * dirty page goes through the cache, also those that its owner would keep out.
	 */
	kept = door_kept(rlocator);
	if (is_dirty && !fullPageWrites)
		flags |= ENT_ATOMIC;
	else if (kept == KEPT_OUT || (kept == KEPT_CLEAN && !is_dirty))
		flags |= ENT_KEPT_OUT;
	code = hand_down(rlocator, forknum, blkno, page, lsn, flags);
	if (unlikely(code == ENT_CHANGED))
		goto again;
	if (unlikely(code == ENT_DISK_ONLY && (flags & ENT_ATOMIC) != 0))
		tell_of_torn_pages(page);
	return code == ENT_DONE;
}

/*
 * As with_cache(), if "work" may wait for "event". Nothing ends the wait, which is at most for the destage of a group:
 * what was forgotten is gone, and the caller must write, truncate or unlink next.
 */
static inline int
forgets(int code)
{
	pgstat_report_wait_end();
	return code;
}

#define with_cache_waiting(event, work) \
	with_cache((tell_log(), pgstat_report_wait_start(event), forgets(work)), return)

static void
forget(RelFileLocator rlocator, ForkNumber forknum, BlockNumber blkno, BlockNumber nblocks)
{
	with_cache_waiting(wait_for_forget, ent_forget(door_fork_of(rlocator, forknum), blkno, nblocks));
}

static void
forget_relation(RelFileLocator rlocator)
{
	door_file_is_gone(rlocator);
	with_cache_waiting(wait_for_forget, ent_forget_relation(door_fork_of(rlocator, MAIN_FORKNUM)));
}

static void
forget_database(Oid dbid, Oid spcid)
{
	door_database_is_gone(dbid, spcid);
	with_cache_waiting(wait_for_forget, ent_forget_database(dbid, spcid));
}

static void
sync_relation(RelFileLocator rlocator, ForkNumber forknum)
{
	int			code;

	do
	{
		if (!door_is_there())
			return;
		begin_wait(wait_for_checkpoint);
		code = ent_flush(door_fork_of(rlocator, forknum));
	} while (end_wait(code));
	check(code);
}

/*
 * Does "work", which may take minutes. Callers are not in critical sections, and no page is locked: interrupts
 * are looked at, and then the rest is done.
 */
int
door_wait(int (*work) (void *), void *with)
{
	int			code;

	CHECK_FOR_INTERRUPTS();
	do
	{
		if (!door_is_there())
			return ENT_ABSENT;
		begin_wait(wait_for_destage);
		code = work(with);
	} while (end_wait(code));
	check(code);
	return code;
}

static int
work_destage(void *database)
{
	return database ? ent_destage_database(*(Oid *) database) : ent_destage_all();
}

static void
destage_database(Oid dbid)
{
	(void) door_wait(work_destage, &dbid);
}

static void
destage_all(void)
{
	(void) door_wait(work_destage, NULL);
}

/*
 * What the worker has noted of durable pages is of these files only if they need their flash, and are no copy
 * that was made page by page.
 */
static void
redo_begins(const FlashCacheStartup *at)
{
	uint64		known;

	with_cache(ent_redo_begins(at->redo, at->in_use && !at->backup, &known), return);
	if (known > 0)
		ereport(LOG,
				(errmsg("the flash cache has noted %llu pages as durable in their files",
						(unsigned long long) known)));
}

/*
 * In binary upgrade mode the cluster is a stock one before redo begins, and nothing is cached: files are about to
 * be replaced by name.
 */
static void
drain_for_upgrade(void)
{
	door_set_state(DOOR_DRAINING);
	while (door_state() == DOOR_DRAINING)
	{
		process_startup_interrupts();
		pg_usleep(POLL_US);
	}
	if (door_state() == DOOR_NOT_DRAINED)
		ereport(FATAL,
				(errcode(ERRCODE_IO_ERROR),
				 errmsg("the flash cache could not be drained: %s", door->message),
				 errhint("The cluster still needs its flash.")));
	SetControlFileCacheBit(false, true);
	strlcpy(door->message, "binary upgrade mode", sizeof(door->message));
	door_set_state(DOOR_OFF);
	ereport(LOG, (errmsg("the flash cache was drained, and is not used in binary upgrade mode")));
}

/*
 * A single-user server has no worker: it opens the cache itself, which it needs, and drains it at its end. Nothing
 * pulls victims out of its shared buffers, and no notes are taken.
 */
static void
open_alone(void)
{
	int			code = door_open_cache();

	door_show_messages();
	if (code == ENT_DONE)
		ereport(LOG, (errmsg("the flash cache is drained when this server ends")));
	door_set_state(code == ENT_DONE ? DOOR_SERVING : code == ENT_FAILED ? DOOR_OFF : DOOR_REFUSED);
}

static void
startup(const FlashCacheStartup *at)
{
	door_redo_begins(at->redo);
	door->cluster = (EntCluster) {
		.system_identifier = at->system_identifier,
		.redo = at->redo,
		.checkpoint = at->checkpoint,
		.timeline = at->tli,
		.segment_bytes = wal_segment_size,
		.backup = at->backup,
		.in_use = at->in_use,
		.target = ArchiveRecoveryRequested && recoveryTarget != RECOVERY_TARGET_UNSET,
		.alone = !IsUnderPostmaster,
	};
	if (at->lost)
	{
		/* Changes of now are older than they would count in a cache. */
		strlcpy(door->message, "the flash was lost, and WAL is replayed in its place", sizeof(door->message));
		door_set_state(DOOR_OFF);
		return;
	}
	if (!at->in_use && ent_lost_end(DataDir) < 0)
		ereport(FATAL, (errmsg("%s", door_error())));
	if (!door_names_flash())
	{
		strlcpy(door->message, "\"entresol.flash\" is not set", sizeof(door->message));
		door_set_state(DOOR_OFF);
		return;
	}
	if (IsUnderPostmaster)
		door_set_state(DOOR_ASKED);
	else
		open_alone();
	for (int waited = 0; door_state() == DOOR_ASKED; waited += POLL_US)
	{
		process_startup_interrupts();
		if (waited >= WORKER_PATIENCE_US && pg_atomic_read_u32(&door->worker) == 0)
			ereport(FATAL,
					(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
					 errmsg("the worker of the flash cache has not begun"),
					 errhint("Raise \"max_worker_processes\".")));
		pg_usleep(POLL_US);
	}
	if (door_state() == DOOR_REFUSED)
	{
		const char *lost = at->in_use ? door_hint_of_loss() : NULL;

		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the flash cache \"%s\" cannot be used by this cluster", door_wanted().flash),
				 errdetail("%s.", door->message),
				 at->in_use ?
				 errhint("The cluster needs the pages on its own flash. Nothing was changed.%s%s", lost ? " " : "", lost ? lost : "") :
				 errhint("The cluster is complete without a flash cache: set \"entresol.flash\" to another file or device, or to nothing. Nothing was changed.")));
	}

	if (door_state() == DOOR_OFF)
	{
		ereport(WARNING,
				(errcode(ERRCODE_IO_ERROR),
				 errmsg("the flash cache is switched off: %s", door->message),
				 errdetail("The files of the cluster are complete without it."),
				 errhint("Replace the flash device, or name another one in \"entresol.flash\", and restart the server.")));
		return;
	}

	if (IsBinaryUpgrade)
	{
		drain_for_upgrade();
		return;
	}

	/* Notes of a cluster that did not need its flash are gone before it does. */
	redo_begins(at);
	/* In write-back mode the files alone are not the database from now on. */
	if (at->in_use || !door_is_through)
		SetControlFileCacheBit(!door_is_through, true);
}

/* Tells the log up to the REDO pointer, of which the flash records a digest, and then the checkpoint. */
static int
tell_checkpoint(XLogRecPtr redo)
{
	XLogRecPtr	done = door_redo(NULL);
	int			code;

	/* (At the end of a recovery the log is written again, though the recovery is still in progress.) */
	if (XLogInsertAllowed())
	{
		XLogRecPtr	upto = Min(redo, GetXLogInsertEndRecPtr());

		XLogFlush(upto);
		ent_log_at(GetWALInsertionTimeLineIfSet(), upto);
	}
	else
		tell_log();
	pgstat_report_wait_start(wait_for_checkpoint);
	code = ent_checkpoint(done, redo);
	pgstat_report_wait_end();
	return code;
}

static void
checkpoint(XLogRecPtr redo, int flags)
{
	/* A cache that is begun from now on knows this checkpoint, or is told of it here. */
	pg_atomic_write_u64(&door->redo_asked, redo);
	pg_memory_barrier();
	door_mark_log();
	door_kept_at_checkpoint(redo, flags);
	with_cache(tell_checkpoint(redo), return);
}

static void
shutdown_hook(void)
{
	/*
	 * The postmaster does not look at its configuration again once it shuts down. Who asks for a drain and
	 * stops the server at once means what the file says.
	 */
	if (IsUnderPostmaster)
		ProcessConfigFile(PGC_SIGHUP);
	/* A cache that is being added is drained, too. */
	while (!door_take_change(DOOR_STAYS))
	{
		if (!door_has_postmaster())
			end_without_postmaster();
		pg_usleep(POLL_US);
	}
	if (door_state() == DOOR_OFF)
		return;
	if (!IsUnderPostmaster)
	{
		ent_detach();
		door_drain();
	}
	else if (drain_at_shutdown && !door_is_through)
	{
		door_set_state(DOOR_DRAINING);
		wait_for_state(DOOR_DRAINED);
	}
	else
		return;
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
	.is_newer = is_newer,
	.durable_lsn = durable_lsn,
	.redo_changes = redo_changes,
	.overwrites = overwrites,
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
	.redo_from = door_redo_from,
	.checkpoint_complete = door_checkpoint_complete,
	.keep_wal_from = door_keep_wal_from,
	.no_replay_before = door_no_replay_before,
	.shutdown = shutdown_hook,
	.new_file = door_new_file,
	.redo_note = door_redo_note,
	ASYNC_HOOKS
};
