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
PG_FUNCTION_INFO_V1(entresol_stat_io);
PG_FUNCTION_INFO_V1(entresol_benefit);

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
bool
door_has_answered(int code)
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
	int			code;

	door_check_loaded();
	if (get_call_result_type(fcinfo, NULL, &description) != TYPEFUNC_COMPOSITE || description->natts != ENT_STATS)
		elog(ERROR, "entresol_stat() has other columns than the library; update the extension");
	door_ask(code, ent_stat(&stat));
	is_there = door_has_answered(code);
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
		[ENT_TOOK_FLASH_SYNC] = "flash sync",
	};
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	EntLatency	rows[ENT_LATENCIES];
	int			code;

	door_check_loaded();
	InitMaterializedSRF(fcinfo, 0);
	door_ask(code, ent_latencies(rows));
	if (!door_has_answered(code))
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
	int			code;

	StaticAssertStmt(BACKEND_NUM_TYPES <= ENT_BACKEND_KINDS, "each type of backend has a row");
	door_check_loaded();
	InitMaterializedSRF(fcinfo, 0);
	door_ask(code, ent_backends(rows));
	if (!door_has_answered(code))
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

/* Columns of entresol_stat_io: those of pg_stat_io. */
#define IO_COLUMNS 20

typedef struct IoRow
{
	const char *who;
	EntIo		io;
	bool		reads;			/* this is no NULL */
	bool		writes;
} IoRow;

static void
put_io(ReturnSetInfo *result, const IoRow *row)
{
	const EntIo *io = &row->io;
	Datum		values[IO_COLUMNS];
	bool		nulls[IO_COLUMNS];
	int			at = 0;
	struct
	{
		bool		is_there;
		uint64		count;
		int			unit;		/* 0: pages; 1: their bytes; 2: milliseconds of microseconds */
	}			columns[] = {
		{row->reads, io->reads, 0}, {row->reads, io->reads, 1}, {row->reads, io->read_us, 2},
		{row->writes, io->writes, 0}, {row->writes, io->writes, 1}, {row->writes, io->write_us, 2},
		/* Writebacks, and extends with their bytes. */
		{false, 0, 0}, {false, 0, 2}, {false, 0, 0}, {false, 0, 1}, {false, 0, 2},
		{!row->writes, io->hits, 0}, {row->writes, io->evictions, 0}, {row->writes, io->reuses, 0},
		{row->writes, io->syncs, 0}, {row->writes, io->sync_us, 2},
	};

	StaticAssertStmt(lengthof(columns) + 4 == IO_COLUMNS, "each column has a value");
	memset(nulls, 0, sizeof(nulls));
	values[at++] = CStringGetTextDatum(row->who);
	values[at++] = CStringGetTextDatum("relation");
	values[at++] = CStringGetTextDatum("normal");
	for (int i = 0; i < lengthof(columns); i++, at++)
	{
		nulls[at] = !columns[i].is_there;
		values[at] = columns[i].unit == 2 ? Float8GetDatum(columns[i].count / 1000.0) :
			Int64GetDatum((int64) columns[i].count * (columns[i].unit == 1 ? BLCKSZ : 1));
	}
	nulls[at] = door->reset == 0;
	values[at] = TimestampTzGetDatum(door->reset);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* Processes read the flash; the cache's own threads write it, and read what they write to the files. */
Datum
entresol_stat_io(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	EntIo		rows[ENT_BACKEND_KINDS + 1];
	IoRow		row = {.reads = true};
	int			code;

	door_check_loaded();
	InitMaterializedSRF(fcinfo, 0);
	if (result->setDesc->natts != IO_COLUMNS)
		elog(ERROR, "entresol_stat_io() has other columns than the library; update the extension");
	door_ask(code, ent_io(rows));
	if (!door_has_answered(code))
		return (Datum) 0;
	for (int i = 0; i < BACKEND_NUM_TYPES; i++)
	{
		row.who = GetBackendTypeDesc((BackendType) i);
		row.io = rows[i];
		if (row.io.reads + row.io.hits > 0)
			put_io(result, &row);
	}
	row = (IoRow) {.who = "entresol worker", .io = rows[ENT_BACKEND_KINDS], .reads = true, .writes = true};
	put_io(result, &row);
	return (Datum) 0;
}

Datum
entresol_benefit(PG_FUNCTION_ARGS)
{
	TupleDesc	description;
	EntBenefit	benefit;
	Datum		values[12];
	bool		nulls[lengthof(values)];
	double		saved_s;
	int			at = 0;
	int			code;

	door_check_loaded();
	if (get_call_result_type(fcinfo, NULL, &description) != TYPEFUNC_COMPOSITE ||
		description->natts != lengthof(values))
		elog(ERROR, "entresol_benefit() has other columns than the library; update the extension");
	door_ask(code, ent_benefit(&benefit));
	if (!door_has_answered(code))
		PG_RETURN_NULL();
	memset(nulls, 0, sizeof(nulls));
	values[at++] = TimestampTzGetDatum(time_t_to_timestamptz((pg_time_t) benefit.since_s));
	values[at++] = Int64GetDatum((int64) benefit.seconds);
	values[at++] = Int64GetDatum((int64) benefit.disk_reads_saved);
	values[at++] = Int64GetDatum(benefit.disk_writes_saved);
	/* Milliseconds of a page. */
	nulls[at] = benefit.disk_read_ns == 0;
	values[at++] = Float8GetDatum(benefit.disk_read_ns / 1e6);
	nulls[at] = benefit.disk_write_ns == 0;
	values[at++] = Float8GetDatum(benefit.disk_write_ns / 1e6);
	/* What was not measured, is not known to be saved. */
	saved_s = (benefit.disk_reads_saved * (double) benefit.disk_read_ns +
			   benefit.disk_writes_saved * (double) benefit.disk_write_ns) / 1e9;
	values[at++] = Float8GetDatum(saved_s);
	values[at++] = Int64GetDatum((int64) benefit.flash_write_bytes);
	for (int i = 0; i < lengthof(benefit.hit_permille); i++)
	{
		nulls[at] = benefit.hit_permille[i] < 0;
		values[at++] = Float8GetDatum(benefit.hit_permille[i] / 10.0);
	}
	values[at++] = CStringGetTextDatum(benefit.forecast);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(description), values, nulls)));
}

Datum
entresol_stat_reset(PG_FUNCTION_ARGS)
{
	int			code;

	door_check_loaded();
	door_ask(code, ent_stat_reset());
	if (door_has_answered(code))
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
	int			code;

	door_check_loaded();
	InitMaterializedSRF(fcinfo, 0);
	rows = palloc_extended(sizeof(EntRelation) * door_options.objects, MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	door_ask(code, ent_relations(rows, door_options.objects, &n));
	if (!door_has_answered(code))
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
Relation
door_open_relation(Oid relid)
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
	relation = door_open_relation(PG_GETARG_OID(0));
	evicted.fork.tablespace = relation->rd_locator.spcOid;
	evicted.fork.database = relation->rd_locator.dbOid;
	evicted.fork.relation = relation->rd_locator.relNumber;
	(void) door_wait(work_evict, &evicted);
	relation_close(relation, AccessShareLock);
	PG_RETURN_INT64((int64) evicted.all);
}
