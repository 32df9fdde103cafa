/*
 * The module: its shared memory, and its counters.
 */
#include "hooktrace.h"

#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/builtins.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(hooktrace_stat);

void		_PG_init(void);

Shared	   *shared;

static shmem_request_hook_type previous_request;
static shmem_startup_hook_type previous_startup;

static const char *const counter_names[COUNTERS] = {
	"attached", "shadows checked", "clean compared",
};

static void
request(void)
{
	if (previous_request)
		previous_request();
	RequestAddinShmemSpace(MAXALIGN(sizeof(Shared)));
	RequestAddinShmemSpace(shadow_bytes());
	RequestNamedLWLockTranche("hooktrace", 1);
}

static void
attach(void)
{
	bool		found;

	/* The module with the cache puts its hooks in here. */
	if (previous_startup)
		previous_startup();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	shared = ShmemInitStruct("hooktrace", sizeof(Shared), &found);
	if (!found)
	{
		memset(shared, 0, sizeof(Shared));
		shared->lock = &GetNamedLWLockTranche("hooktrace")->lock;
		pg_atomic_init_u32(&shared->pause_us, 0);
		for (int i = 0; i < COUNTERS; i++)
			pg_atomic_init_u64(&shared->counters[i], 0);
	}
	shadow_init();
	LWLockRelease(AddinShmemInitLock);

	if (flash_cache)
		oracle_install();
}

void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress || !IsPostmasterEnvironment)
		return;

	previous_request = shmem_request_hook;
	shmem_request_hook = request;
	previous_startup = shmem_startup_hook;
	shmem_startup_hook = attach;
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
