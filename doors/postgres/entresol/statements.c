/*
 * entresol_stat_statements: what statements have had of the cache, by queryid.
 *
 * As in pg_stat_statements only statements of clients are told apart: what they call is part of them. A leader
 * tells its parallel workers the queryid, and they add to the same entry. (That of pg_stat_activity is EXECUTE's, if
 * the statement was prepared.) A statement whose pages were all in shared buffers takes no lock here. If the table
 * is full, the entry makes room that was used least recently.
 */
#include "door.h"

#include "access/parallel.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "tcop/utility.h"
#include "utils/hsearch.h"

PG_FUNCTION_INFO_V1(entresol_stat_statements);

typedef struct Key
{
	Oid			userid;
	Oid			dbid;
	uint64		queryid;
} Key;

/* Made and removed under the exclusive lock, changed under the shared one. */
typedef struct Statement
{
	Key			key;
	pg_atomic_uint64 used;		/* the table's clock at the last use */
	pg_atomic_uint64 calls;
	DoorCounts	counts;
} Statement;

static HTAB *table;
/* In statements of clients 0, in what they call more. */
static int	depth;

static ExecutorRun_hook_type previous_run;
static ExecutorFinish_hook_type previous_finish;
static ProcessUtility_hook_type previous_utility;

Size
door_statements_bytes(void)
{
	return hash_estimate_size(door_statements, sizeof(Statement));
}

void
door_make_statements(void)
{
	HASHCTL		about = {.keysize = sizeof(Key), .entrysize = sizeof(Statement)};

	if (door_statements > 0)
		table = ShmemInitHash("entresol statements", door_statements, door_statements, &about,
							  HASH_ELEM | HASH_BLOBS);
}

static void
remove_oldest(void)
{
	HASH_SEQ_STATUS all;
	Statement  *statement;
	Key			oldest;
	uint64		least = PG_UINT64_MAX;

	hash_seq_init(&all, table);
	while ((statement = hash_seq_search(&all)) != NULL)
	{
		uint64		used = pg_atomic_read_u64(&statement->used);

		if (used < least)
		{
			least = used;
			oldest = statement->key;
		}
	}
	if (least < PG_UINT64_MAX)
		(void) hash_search(table, &oldest, HASH_REMOVE, NULL);
}

/* The statement's entry, made if it is not there, with the lock held. */
static Statement *
find_statement(const Key *key)
{
	Statement  *statement;
	bool		found;

	LWLockAcquire(door->statements_lock, LW_SHARED);
	statement = hash_search(table, key, HASH_FIND, NULL);
	if (statement != NULL)
		return statement;
	LWLockRelease(door->statements_lock);

	LWLockAcquire(door->statements_lock, LW_EXCLUSIVE);
	if (hash_get_num_entries(table) >= door_statements && hash_search(table, key, HASH_FIND, NULL) == NULL)
		remove_oldest();
	statement = hash_search(table, key, HASH_ENTER, &found);
	if (!found)
	{
		pg_atomic_init_u64(&statement->used, 0);
		pg_atomic_init_u64(&statement->calls, 0);
		memset(&statement->counts, 0, sizeof(DoorCounts));
	}
	return statement;
}

/* What a part of a statement has had since it had "before". */
static void
record(uint64 queryid, const EntOwn *before, uint64 calls)
{
	EntOwn		own = door_own_since(before);
	Key			key;
	Statement  *statement;

	if (queryid == 0 || own.hits + own.misses + own.staged_dirty + own.staged_clean == 0)
		return;
	/* It is compared as bytes. */
	memset(&key, 0, sizeof(key));
	key.userid = GetUserId();
	key.dbid = MyDatabaseId;
	key.queryid = queryid;
	statement = find_statement(&key);
	pg_atomic_write_u64(&statement->used, pg_atomic_fetch_add_u64(&door->statements_clock, 1));
	pg_atomic_fetch_add_u64(&statement->calls, calls);
	door_count(&statement->counts, &own);
	LWLockRelease(door->statements_lock);
}

/* Begins a part of a statement. Returns the queryid that it is recorded by, or 0. */
static uint64
begin(uint64 queryid)
{
	if (table == NULL || depth > 0)
		return 0;
	if (IsParallelWorker())
		return door_leaders[ParallelLeaderProcNumber].queryid;
	door_leaders[MyProcNumber].queryid = queryid;
	return queryid;
}

static void
run(RUN_PARAMETERS)
{
	const volatile uint64 queryid = begin(query->plannedstmt->queryId);
	EntOwn		before;

	ent_own(&before);
	depth++;
	PG_TRY();
	{
		if (previous_run)
			previous_run(RUN_ARGUMENTS);
		else
			standard_ExecutorRun(RUN_ARGUMENTS);
	}
	PG_FINALLY();
	{
		depth--;
	}
	PG_END_TRY();
	record(queryid, &before, IsParallelWorker() ? 0 : 1);
}

/* Triggers that were deferred to the end of the statement. */
static void
finish(QueryDesc *query)
{
	const volatile uint64 queryid = begin(query->plannedstmt->queryId);
	EntOwn		before;

	ent_own(&before);
	depth++;
	PG_TRY();
	{
		if (previous_finish)
			previous_finish(query);
		else
			standard_ExecutorFinish(query);
	}
	PG_FINALLY();
	{
		depth--;
	}
	PG_END_TRY();
	record(queryid, &before, 0);
}

/* EXECUTE is no statement of its own: the one that was prepared is. */
static void
utility(PlannedStmt *plan, const char *text, bool is_read_only, ProcessUtilityContext context,
		ParamListInfo parameters, QueryEnvironment *environment, DestReceiver *to, QueryCompletion *completion)
{
	int			more = IsA(plan->utilityStmt, ExecuteStmt) ? 0 : 1;
	/* A statement that ends the transaction frees the plan. */
	const volatile uint64 queryid = more > 0 ? begin(plan->queryId) : 0;
	EntOwn		before;

	ent_own(&before);
	depth += more;
	PG_TRY();
	{
		if (previous_utility)
			previous_utility(plan, text, is_read_only, context, parameters, environment, to, completion);
		else
			standard_ProcessUtility(plan, text, is_read_only, context, parameters, environment, to, completion);
	}
	PG_FINALLY();
	{
		depth -= more;
	}
	PG_END_TRY();
	record(queryid, &before, 1);
}

void
door_watch_statements(void)
{
	previous_run = ExecutorRun_hook;
	ExecutorRun_hook = run;
	previous_finish = ExecutorFinish_hook;
	ExecutorFinish_hook = finish;
	previous_utility = ProcessUtility_hook;
	ProcessUtility_hook = utility;
}

/* All begin at zero again. */
void
door_forget_statements(void)
{
	HASH_SEQ_STATUS all;
	Statement  *statement;

	if (table == NULL)
		return;
	LWLockAcquire(door->statements_lock, LW_EXCLUSIVE);
	hash_seq_init(&all, table);
	while ((statement = hash_seq_search(&all)) != NULL)
		(void) hash_search(table, &statement->key, HASH_REMOVE, NULL);
	LWLockRelease(door->statements_lock);
}

Datum
entresol_stat_statements(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	HASH_SEQ_STATUS all;
	Statement  *statement;

	door_check_loaded();
	InitMaterializedSRF(fcinfo, 0);
	if (table == NULL)
		return (Datum) 0;
	LWLockAcquire(door->statements_lock, LW_SHARED);
	hash_seq_init(&all, table);
	while ((statement = hash_seq_search(&all)) != NULL)
	{
		EntOwn		own = door_counted(&statement->counts);
		Datum		values[] = {
			ObjectIdGetDatum(statement->key.userid), ObjectIdGetDatum(statement->key.dbid),
			Int64GetDatum((int64) statement->key.queryid),
			Int64GetDatum((int64) pg_atomic_read_u64(&statement->calls)),
			Int64GetDatum((int64) own.hits), Int64GetDatum((int64) own.async_hits),
			Int64GetDatum((int64) own.misses), Int64GetDatum((int64) own.staged_dirty),
			Int64GetDatum((int64) own.staged_clean),
		};
		bool		nulls[lengthof(values)] = {0};

		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	LWLockRelease(door->statements_lock);
	return (Datum) 0;
}
