/*
 * The worker: it makes room at the front of the ring.
 *
 * It writes relation files by their path, as a thread without PostgreSQL's help must, and never keeps one
 * open: it takes no part in the barriers that make others close files of a dropped relation.
 *
 * It must not die unnoticed. So it ignores SIGTERM, and an error is a crash of the server.
 */
#include "hooktrace.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/relpath.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/bufpage.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/pmsignal.h"
#include "storage/proc.h"
#include "storage/smgr.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/wait_event.h"

static volatile sig_atomic_t leave = false;
static PGIOAlignedBlock batch[BATCH_PAGES];

void
destage_wake(void)
{
	Latch	   *latch = shared->worker_latch;

	if (latch)
		SetLatch(latch);
}

static void
on_usr2(SIGNAL_ARGS)
{
	leave = true;
	SetLatch(MyLatch);
}

/* An exit that is not asked for must bring the server down: backends would wait for us for ever. */
static void
on_exit_of_worker(int code, Datum arg)
{
	if (!leave && PostmasterIsAliveInternal())
		abort();
}

/* The file of a page, opened; -1 if there is none. */
static int
open_file(const PageKey *key)
{
	char	   *path = relpathperm(key->rlocator, key->fork);
	BlockNumber segment = key->block / RELSEG_SIZE;
	char	   *name = segment ? psprintf("%s.%u", path, segment) : path;
	int			file = OpenTransientFile(name, O_RDWR | PG_BINARY);

	if (file < 0 && errno != ENOENT)
		elog(PANIC, "hooktrace: could not open \"%s\": %m", name);
	return file;
}

/*
 * A clean page that the cache does not have must be the page on disk.
 */
void
check_disk(const PageKey *key, XLogRecPtr lsn)
{
	PageHeaderData header;
	XLogRecPtr	on_disk;
	int			file;

	if (faulty(shared->fault, key->rlocator))
		return;
	file = open_file(key);
	if (file < 0)
		elog(PANIC, "hooktrace: a clean page has no file");
	if (pg_pread(file, &header, sizeof(header), (off_t) BLCKSZ * (key->block % RELSEG_SIZE)) != sizeof(header))
		elog(PANIC, "hooktrace: a clean page is not in its file");
	CloseTransientFile(file);
	on_disk = PageXLogRecPtrGet(header.pd_lsn);
	if (on_disk != lsn)
		elog(PANIC, "hooktrace: block %u of relation %u, fork %d, is clean with LSN %X/%X, but the disk has %X/%X",
			 key->block, key->rlocator.relNumber, key->fork, LSN_FORMAT_ARGS(lsn), LSN_FORMAT_ARGS(on_disk));
	count(CLEAN_COMPARED);
}

/*
 * Writes a page and syncs its file. False if there is no file: the relation was dropped meanwhile.
 */
static bool
write_page(const PageKey *key, const char *page)
{
	int			file = open_file(key);
	off_t		at = (off_t) BLCKSZ * (key->block % RELSEG_SIZE);
	struct stat status;

	if (file < 0)
		return false;
	if (fstat(file, &status) != 0)
		elog(PANIC, "hooktrace: could not stat a file: %m");

	/* A write behind the end would make the file longer than PostgreSQL left it. */
	if (status.st_size < at + BLCKSZ && !faulty(shared->fault, key->rlocator))
	{
		CloseTransientFile(file);
		return false;
	}
	if (pg_pwrite(file, page, BLCKSZ, at) != BLCKSZ || pg_fsync(file) != 0)
		elog(PANIC, "hooktrace: could not write a page: %m");
	CloseTransientFile(file);
	return true;
}

/*
 * Takes up to a batch of dirty pages from the front; drops clean and forgotten ones on the way. Returns how
 * many pages are to be written.
 */
static int
choose(uint64 *positions, uint64 up_to)
{
	int			n = 0;
	bool		leading = true;

	for (uint64 position = shared->front; position < up_to && n < BATCH_PAGES; position++)
	{
		Frame	   *frame = frame_at(position);

		if (frame->valid && frame->dirty)
		{
			leading = false;
			memcpy(batch[n].data, page_at(position), BLCKSZ);
			shared->in_flight[n] = frame->key;
			positions[n++] = position;
			if (faulty(FAULT_EARLY, frame->key.rlocator))
				ring_drop(position);
		}
		else if (leading)
		{
			if (frame->valid)
				ring_drop(position);
			shared->front = position + 1;
		}
	}
	shared->in_flight_n = n;
	return n;
}

static void
finish(const uint64 *positions, const bool *written, int n)
{
	for (int i = 0; i < n; i++)
	{
		Frame	   *frame = frame_at(positions[i]);

		if (!frame->valid)
		{
			count(SUPERSEDED_IN_FLIGHT);
			continue;
		}
		if (!written[i])
			elog(PANIC, "hooktrace: block %u of %u/%u/%u, fork %d, is not in its file, and was not forgotten",
				 frame->key.block, frame->key.rlocator.spcOid, frame->key.rlocator.dbOid,
				 frame->key.rlocator.relNumber, frame->key.fork);
		frame->dirty = false;
		count(DESTAGED);
	}
	shared->in_flight_n = 0;
	while (shared->front < shared->rear && !(frame_at(shared->front)->valid && frame_at(shared->front)->dirty)
		   && (shared->front < shared->drain_to || shared->front <= positions[n - 1]))
	{
		if (frame_at(shared->front)->valid)
			ring_drop(shared->front);
		shared->front++;
	}
}

/* Destages one batch. False if there is nothing to do. */
static bool
destage(void)
{
	uint64		positions[BATCH_PAGES];
	bool		written[BATCH_PAGES];
	uint64		filled_to,
				up_to;
	int			n;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	/* A quarter of the ring is kept free. */
	filled_to = shared->rear > frames_n * 3 / 4 ? shared->rear - frames_n * 3 / 4 : 0;
	up_to = Max(filled_to, Min(shared->drain_to, shared->rear));
	if (up_to <= shared->front)
	{
		LWLockRelease(shared->lock);
		return false;
	}
	n = choose(positions, up_to);
	LWLockRelease(shared->lock);
	if (n == 0)
		return true;

	if (destage_delay_us > 0)
		pg_usleep(destage_delay_us);
	for (int i = 0; i < n; i++)
		written[i] = write_page(&shared->in_flight[i], batch[i].data);

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	finish(positions, written, n);
	LWLockRelease(shared->lock);
	return true;
}

void
hooktrace_worker(Datum arg)
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "hooktrace", ALLOCSET_DEFAULT_SIZES);

	before_shmem_exit(on_exit_of_worker, 0);
	pqsignal(SIGTERM, SIG_IGN);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGUSR2, on_usr2);
	BackgroundWorkerUnblockSignals();
	CurrentResourceOwner = ResourceOwnerCreate(NULL, "hooktrace");
	MemoryContextSwitchTo(context);

	shared->worker_latch = MyLatch;
	shared->worker = MyProcPid;
	while (!leave)
	{
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		if (destage())
		{
			if (pull_pages > 0)
				FlashCachePullVictims(pull_pages);
			/* Pulling looks relations up; nobody tells us when they are dropped. */
			AtEOXact_SMgr();
		}
		else
		{
			WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 1000, PG_WAIT_EXTENSION);
			ResetLatch(MyLatch);
		}
		MemoryContextReset(context);
	}
	proc_exit(0);
}

void
destage_register(void)
{
	BackgroundWorker worker = {
		.bgw_name = "hooktrace worker",
		.bgw_type = "hooktrace worker",
		.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_OUTLIVES_BACKENDS,
		.bgw_start_time = BgWorkerStart_PostmasterStart,
		.bgw_restart_time = 0,
		.bgw_library_name = "hooktrace",
		.bgw_function_name = "hooktrace_worker",
	};

	RegisterBackgroundWorker(&worker);
}
