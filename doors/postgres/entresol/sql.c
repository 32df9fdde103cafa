/*
 * The SQL functions.
 */
#include "door.h"

#include "access/htup_details.h"
#include "common/relpath.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(entresol_stat);
PG_FUNCTION_INFO_V1(entresol_stat_relation);
PG_FUNCTION_INFO_V1(entresol_drain);

static void
check_loaded(void)
{
	if (door == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("there is no flash cache"),
				 errhint("Put \"entresol\" into \"shared_preload_libraries\", and set \"entresol.flash\".")));
}

Datum
entresol_stat(PG_FUNCTION_ARGS)
{
	TupleDesc	description;
	Datum		values[ENT_STATS];
	bool		nulls[ENT_STATS] = {0};
	EntStat		stat;

	check_loaded();
	if (get_call_result_type(fcinfo, NULL, &description) != TYPEFUNC_COMPOSITE || description->natts != ENT_STATS)
		elog(ERROR, "entresol_stat() has other columns than the library; update the extension");
	if (ent_stat(&stat) != ENT_DONE)
		ereport(ERROR, (errmsg("the flash cache did not answer: %s", door_error())));
	for (int i = 0; i < ENT_STATS; i++)
		values[i] = Int64GetDatum((int64) stat.values[i]);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(description), values, nulls)));
}

Datum
entresol_stat_relation(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	EntRelation *rows;
	uint32		n;

	check_loaded();
	InitMaterializedSRF(fcinfo, 0);
	rows = palloc_extended(sizeof(EntRelation) * door_options.objects, MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	if (ent_relations(rows, door_options.objects, &n) != ENT_DONE)
		ereport(ERROR, (errmsg("the flash cache did not answer: %s", door_error())));
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
	check_loaded();
	flash_cache->destage_all();
	PG_RETURN_VOID();
}
