/*
 * The SQL functions.
 */
#include "door.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "common/relpath.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(entresol_stat);
PG_FUNCTION_INFO_V1(entresol_state);
PG_FUNCTION_INFO_V1(entresol_stat_latency);
PG_FUNCTION_INFO_V1(entresol_stat_backend);
PG_FUNCTION_INFO_V1(entresol_stat_relation);
PG_FUNCTION_INFO_V1(entresol_stat_reset);
PG_FUNCTION_INFO_V1(entresol_drain);
PG_FUNCTION_INFO_V1(entresol_evict);
PG_FUNCTION_INFO_V1(entresol_prewarm);

/* Between two tries to hand a page to a cache without room. */
#define RETRY_US 1000

void
door_check_loaded(void)
{
	if (door == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("there is no flash cache"),
				 errhint("Put \"entresol\" into \"shared_preload_libraries\", and set \"entresol.flash\".")));
}

/* Whether there are counters to be read. */
static bool
has_answered(int code)
{
	if (code == ENT_DONE)
		return true;
	/* It has been off since the start. */
	if (code == ENT_GONE && door_state() == DOOR_OFF)
		return false;
	ereport(ERROR, (errmsg("the flash cache did not answer: %s", door_error())));
}

Datum
entresol_stat(PG_FUNCTION_ARGS)
{
	TupleDesc	description;
	Datum		values[ENT_STATS];
	bool		nulls[ENT_STATS];
	EntStat		stat;
	bool		is_there;

	door_check_loaded();
	if (get_call_result_type(fcinfo, NULL, &description) != TYPEFUNC_COMPOSITE || description->natts != ENT_STATS)
		elog(ERROR, "entresol_stat() has other columns than the library; update the extension");
	is_there = has_answered(ent_stat(&stat));
	for (int i = 0; i < ENT_STATS; i++)
	{
		nulls[i] = !is_there;
		values[i] = is_there ? Int64GetDatum((int64) stat.values[i]) : (Datum) 0;
	}
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(description), values, nulls)));
}

Datum
entresol_state(PG_FUNCTION_ARGS)
{
	static const char *const names[] = {
		[DOOR_NEW] = "starting",[DOOR_ASKED] = "starting",[DOOR_SERVING] = "serving",[DOOR_OFF] = "off",
		[DOOR_REFUSED] = "refused",[DOOR_DRAINING] = "draining",[DOOR_DRAINED] = "drained",
		[DOOR_NOT_DRAINED] = "not drained",
	};
	TupleDesc	description;
	DoorState	state;
	bool		nulls[4];
	Datum		values[4];

	door_check_loaded();
	if (get_call_result_type(fcinfo, NULL, &description) != TYPEFUNC_COMPOSITE ||
		description->natts != lengthof(values))
		elog(ERROR, "entresol_state() has other columns than the library; update the extension");
	state = door_state();
	nulls[0] = nulls[1] = false;
	values[0] = CStringGetTextDatum(names[state]);
	values[1] = CStringGetTextDatum(door_is_through ? "write-through" : "write-back");
	nulls[2] = state != DOOR_OFF;
	values[2] = nulls[2] ? (Datum) 0 : CStringGetTextDatum(door->message);
	nulls[3] = door->reset == 0;
	values[3] = TimestampTzGetDatum(door->reset);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(description), values, nulls)));
}

Datum
entresol_stat_latency(PG_FUNCTION_ARGS)
{
	static const char *const names[ENT_LATENCIES] = {
		[ENT_TOOK_READ] = "read",[ENT_TOOK_STAGE] = "stage",[ENT_TOOK_FLASH_WRITE] = "flash write",
		[ENT_TOOK_BACKGROUND] = "dequeue",[ENT_TOOK_CHECKPOINT] = "checkpoint",
	};
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	EntLatency	rows[ENT_LATENCIES];

	door_check_loaded();
	InitMaterializedSRF(fcinfo, 0);
	if (!has_answered(ent_latencies(rows)))
		return (Datum) 0;
	for (int i = 0; i < ENT_LATENCIES; i++)
	{
		bool		nulls[6] = {0};
		Datum		values[6] = {
			CStringGetTextDatum(names[i]), Int64GetDatum((int64) rows[i].count),
			Int64GetDatum((int64) rows[i].total_us), Int64GetDatum((int64) rows[i].p50_us),
			Int64GetDatum((int64) rows[i].p95_us), Int64GetDatum((int64) rows[i].p99_us),
		};

		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

Datum
entresol_stat_backend(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	EntBackend	rows[ENT_BACKEND_KINDS];

	StaticAssertStmt(BACKEND_NUM_TYPES <= ENT_BACKEND_KINDS, "each type of backend has a row");
	door_check_loaded();
	InitMaterializedSRF(fcinfo, 0);
	if (!has_answered(ent_backends(rows)))
		return (Datum) 0;
	for (int i = 0; i < BACKEND_NUM_TYPES; i++)
	{
		bool		nulls[6] = {0};
		Datum		values[6] = {
			CStringGetTextDatum(GetBackendTypeDesc((BackendType) i)), Int64GetDatum((int64) rows[i].hits),
			Int64GetDatum((int64) rows[i].misses), Int64GetDatum((int64) rows[i].staged_dirty),
			Int64GetDatum((int64) rows[i].staged_clean), Int64GetDatum((int64) rows[i].refused),
		};

		if (rows[i].hits + rows[i].misses + rows[i].staged_dirty + rows[i].staged_clean + rows[i].refused > 0)
			tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

Datum
entresol_stat_reset(PG_FUNCTION_ARGS)
{
	door_check_loaded();
	if (has_answered(ent_stat_reset()))
	{
		LWLockAcquire(door->kept_lock, LW_EXCLUSIVE);
		door->reset = GetCurrentTimestamp();
		LWLockRelease(door->kept_lock);
		door_forget_statements();
	}
	PG_RETURN_VOID();
}

Datum
entresol_stat_relation(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	EntRelation *rows;
	uint32		n;

	door_check_loaded();
	InitMaterializedSRF(fcinfo, 0);
	rows = palloc_extended(sizeof(EntRelation) * door_options.objects, MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	if (!has_answered(ent_relations(rows, door_options.objects, &n)))
		return (Datum) 0;
	for (uint32 i = 0; i < n; i++)
	{
		const EntRelation *row = &rows[i];
		Datum		values[] = {
			ObjectIdGetDatum(row->fork.tablespace), ObjectIdGetDatum(row->fork.database),
			ObjectIdGetDatum(row->fork.relation),
			CStringGetTextDatum(forkNames[Min(row->fork.fork, MAX_FORKNUM)]),
			Int64GetDatum((int64) row->cached), Int64GetDatum((int64) row->dirty),
			Int64GetDatum((int64) row->hits), Int64GetDatum((int64) row->misses),
			Int64GetDatum((int64) row->staged_dirty), Int64GetDatum((int64) row->staged_clean),
		};
		bool		nulls[lengthof(values)] = {0};

		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	pfree(rows);
	return (Datum) 0;
}

Datum
entresol_drain(PG_FUNCTION_ARGS)
{
	door_check_loaded();
	flash_cache->destage_all();
	PG_RETURN_VOID();
}

/* A relation with files that the cache may have pages of. */
static Relation
open_relation(Oid relid)
{
	Relation	relation = relation_open(relid, AccessShareLock);

	if (!RELKIND_HAS_STORAGE(relation->rd_rel->relkind))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" has no pages", RelationGetRelationName(relation)),
				 errhint("Name a table, an index, a materialized view or a sequence; of a partitioned table its partitions.")));
	return relation;
}

typedef struct Evicted
{
	EntFork		fork;
	uint64		all;
} Evicted;

static int
work_evict(void *with)
{
	Evicted    *evicted = with;
	uint64		removed;
	int			code = ent_evict(evicted->fork, &removed);

	evicted->all += removed;
	return code;
}

Datum
entresol_evict(PG_FUNCTION_ARGS)
{
	Relation	relation;
	Evicted		evicted = {0};

	door_check_loaded();
	relation = open_relation(PG_GETARG_OID(0));
	evicted.fork.tablespace = relation->rd_locator.spcOid;
	evicted.fork.database = relation->rd_locator.dbOid;
	evicted.fork.relation = relation->rd_locator.relNumber;
	(void) door_wait(work_evict, &evicted);
	relation_close(relation, AccessShareLock);
	PG_RETURN_INT64((int64) evicted.all);
}

/*
 * Copies a block out of shared buffers if it is clean there. As in GetVictimBuffer(): the copy is made before
 * the last look at the buffer, so that it has no change that is not on disk.
 */
static bool
copy_clean(Buffer buffer, BlockNumber block, char *copy)
{
	BufferDesc *header = GetBufferDescriptor(buffer - 1);
	uint32		state;

	memcpy(copy, BufferGetPage(buffer), BLCKSZ);
	state = LockBufHdr(header);
	UnlockBufHdr(header, state);
	if ((state & (BM_VALID | BM_DIRTY | BM_PERMANENT)) != (BM_VALID | BM_PERMANENT) || PageIsNew((Page) copy))
		return false;
	PageSetChecksumInplace((Page) copy, block);
	return true;
}

/* Hands one block to the cache, waiting for room. True: it was taken. */
static bool
warm_block(Relation relation, EntFork fork, BlockNumber block, BufferAccessStrategy strategy)
{
	static PGIOAlignedBlock copy;

	for (;;)
	{
		Buffer		buffer = ReadBufferExtended(relation, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
		int			code = ENT_DISK_ONLY;

		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		if (copy_clean(buffer, block, copy.data))
			code = ent_stage(fork, block, copy.data, PageGetLSN((Page) copy.data), 0);
		UnlockReleaseBuffer(buffer);
		door_check(code);
		if (code != ENT_FULL)
			return code == ENT_DONE;
		CHECK_FOR_INTERRUPTS();
		pg_usleep(RETRY_US);
	}
}

/*
 * Brings the blocks of a relation into the cache that are not there. Those that are dirty in shared buffers
 * enter when they leave them. Returns how many entered.
 */
Datum
entresol_prewarm(PG_FUNCTION_ARGS)
{
	Relation	relation;
	BlockNumber blocks;
	BufferAccessStrategy strategy;
	EntFork		fork = {0};
	int64		warmed = 0;

	door_check_loaded();
	relation = open_relation(PG_GETARG_OID(0));
	if (!RelationIsPermanent(relation) || door_kept(relation->rd_locator) != KEPT_NOT)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not for the flash cache", RelationGetRelationName(relation)),
				 errdetail("It is temporary or unlogged, or is kept out.")));
	fork.tablespace = relation->rd_locator.spcOid;
	fork.database = relation->rd_locator.dbOid;
	fork.relation = relation->rd_locator.relNumber;
	strategy = GetAccessStrategy(BAS_BULKREAD);
	blocks = RelationGetNumberOfBlocks(relation);
	for (BlockNumber block = 0; block < blocks; block++)
	{
		bool		is_here = false;

		CHECK_FOR_INTERRUPTS();
		(void) flash_cache->residency(relation->rd_locator, MAIN_FORKNUM, block, 1, &is_here);
		if (door_state() == DOOR_OFF)
			break;
		if (!is_here && warm_block(relation, fork, block, strategy))
			warmed++;
	}
	FreeAccessStrategy(strategy);
	relation_close(relation, AccessShareLock);
	PG_RETURN_INT64(warmed);
}
