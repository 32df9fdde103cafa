/*
 * The module: its settings, its shared memory, and the table of hooks.
 */
#include "hooktrace.h"

#include "access/xlog.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/builtins.h"
#include "utils/guc.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(hooktrace_stat);
PG_FUNCTION_INFO_V1(hooktrace_drain);

void		_PG_init(void);

Shared	   *shared;
Frame	   *frames;
char	   *pages;
HTAB	   *page_index;

int			frames_n;
int			destage_delay_us;
int			pull_pages;
bool		keep_dirty;
bool		attached;

static shmem_request_hook_type previous_request;
static shmem_startup_hook_type previous_startup;

static const char *const counter_names[COUNTERS] = {
	"attached", "hits", "misses", "staged dirty", "staged clean", "refused clean", "waits for room", "pulled",
	"destaged", "superseded in flight", "forgotten", "forgotten dirty", "waits for destage",
	"relations dropped", "databases forgotten", "syncs", "drains", "checkpoints", "shadows checked",
	"clean compared",
};

/* Every process comes by here before it calls anything else. */
static void
attach_process(void)
{
	attached = true;
	count(ATTACHED);
}

static void
startup(const FlashCacheStartup *at)
{
	for (int tries = 0; shared->worker == 0; tries++)
	{
		if (tries == 3000)
			ereport(FATAL, (errmsg("hooktrace: the worker has not started within 30 s")));
		pg_usleep(10000);
	}
	ereport(LOG,
			(errmsg("hooktrace: redo from %X/%X, timeline %u, crashed %d, backup %d, in use %d",
					LSN_FORMAT_ARGS(at->redo), at->tli, at->crashed, at->backup, at->in_use)));
	SetControlFileCacheBit(true, true);
}

static void
checkpoint(XLogRecPtr redo, int flags)
{
	count(CHECKPOINTS);
	if (!keep_dirty)
		ring_drain();
}

static void
shutdown_hook(void)
{
	ring_drain();
	SetControlFileCacheBit(false, true);
}

static void
destage_database(Oid dbid)
{
	ring_drain();
}

/* The model knows nothing of the versions on disk. */
static void
redo_changes(RelFileLocator rlocator, ForkNumber forknum, BlockNumber blkno)
{
}

static void
overwrites(RelFileLocator rlocator, ForkNumber forknum)
{
}

/* Nothing is kept out. */
static void
new_file(Oid relid, Oid replaces, RelFileLocator rlocator)
{
}

static void
redo_note(const char *data, Size length)
{
}

static const FlashCacheRoutine routine = {
	.version = FLASH_CACHE_VERSION,
	.attach = attach_process,
	.residency = ring_residency,
	.is_newer = ring_is_newer,
	.durable_lsn = ring_durable_lsn,
	.redo_changes = redo_changes,
	.overwrites = overwrites,
	.read = ring_read,
	.stage = ring_stage,
	.forget = ring_forget,
	.forget_relation = ring_forget_relation,
	.forget_database = ring_forget_database,
	.sync_relation = ring_sync_relation,
	.destage_database = destage_database,
	.destage_all = ring_drain,
	.startup = startup,
	.checkpoint = checkpoint,
	.shutdown = shutdown_hook,
	.new_file = new_file,
	.redo_note = redo_note,
};

static void
request(void)
{
	if (previous_request)
		previous_request();
	RequestAddinShmemSpace(MAXALIGN(sizeof(Shared)) + frames_n * (sizeof(Frame) + BLCKSZ) + BLCKSZ);
	RequestAddinShmemSpace(hash_estimate_size(frames_n, sizeof(IndexEntry)));
	RequestAddinShmemSpace(shadow_bytes());
	RequestNamedLWLockTranche("hooktrace", 1);
}

static void
attach(void)
{
	HASHCTL		control = {.keysize = sizeof(PageKey), .entrysize = sizeof(IndexEntry)};
	bool		found;

	if (previous_startup)
		previous_startup();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	shared = ShmemInitStruct("hooktrace", sizeof(Shared), &found);
	if (!found)
	{
		memset(shared, 0, sizeof(Shared));
		shared->lock = &GetNamedLWLockTranche("hooktrace")->lock;
		for (int i = 0; i < COUNTERS; i++)
			pg_atomic_init_u64(&shared->counters[i], 0);
	}
	frames = ShmemInitStruct("hooktrace frames", frames_n * sizeof(Frame), &found);
	if (!found)
		memset(frames, 0, frames_n * sizeof(Frame));
	pages = ShmemInitStruct("hooktrace pages", frames_n * (Size) BLCKSZ, &found);
	page_index = ShmemInitHash("hooktrace index", frames_n, frames_n, &control,
							   HASH_ELEM | HASH_BLOBS | HASH_FIXED_SIZE);
	shadow_init();
	LWLockRelease(AddinShmemInitLock);

	flash_cache = &routine;
}

void
_PG_init(void)
{
	/* In a single-user server there is no worker. Then the cluster is refused if it needs one. */
	if (!process_shared_preload_libraries_in_progress || !IsPostmasterEnvironment)
		return;

	DefineCustomIntVariable("hooktrace.frames", "Pages that the cache can hold.", NULL, &frames_n,
							2048, 64, 1 << 20, PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("hooktrace.destage_delay",
							"Time between the choice of pages to destage and their writes.", NULL,
							&destage_delay_us, 0, 0, 1000000, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("hooktrace.pull", "Pages that the worker pulls out of DRAM after a batch.",
							NULL, &pull_pages, 0, 0, 1024, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("hooktrace.keep_dirty",
							 "Checkpoints leave dirty pages in the cache: a crash then loses them.", NULL,
							 &keep_dirty, false, PGC_SIGHUP, 0, NULL, NULL, NULL);
	MarkGUCPrefixReserved("hooktrace");

	previous_request = shmem_request_hook;
	shmem_request_hook = request;
	previous_startup = shmem_startup_hook;
	shmem_startup_hook = attach;
	destage_register();
}

Datum
hooktrace_stat(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; shared && i < COUNTERS; i++)
	{
		Datum		values[2] = {CStringGetTextDatum(counter_names[i]),
		Int64GetDatum(pg_atomic_read_u64(&shared->counters[i]))};
		bool		nulls[2] = {false, false};

		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

Datum
hooktrace_drain(PG_FUNCTION_ARGS)
{
	if (shared)
		ring_drain();
	PG_RETURN_VOID();
}
