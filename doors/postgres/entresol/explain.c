/*
 * EXPLAIN (ANALYZE, FLASH): what each node of a plan, and the whole of it, has had of the cache. Of PostgreSQL 18
 * and later: before, EXPLAIN had no options of extensions.
 *
 * 1. The option makes ExecutorStart() put count_node() around the function of each node. As with BUFFERS, a node's
 *    counts have those of the nodes below it.
 * 2. Nodes that return no rows (Hash, bitmaps) are not called in this way. Neither is a parallel hash join, which
 *    changes its function when it begins. They have the sum of the nodes below them; what a bitmap index scan
 *    reads is in the bitmap heap scan's counts.
 * 3. Parallel workers execute the nodes below a Gather. They add their counts to a segment that the leader makes
 *    and publishes in shared memory. The workers of another query, which this one calls, find it, too. They know by
 *    the query's text that it is not theirs.
 * 4. Instrumentation and BufferUsage stay as they are: other extensions are compiled with their layout.
 */
#include "door.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "commands/defrem.h"
#include "commands/explain.h"
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "storage/dsm.h"
#include "storage/proc.h"

/* What leader and workers share. */
typedef struct Workers
{
	uint32		text;			/* hash of the query's text */
	int			nodes;
	DoorCounts	all;
	DoorCounts	of[FLEXIBLE_ARRAY_MEMBER];	/* by plan_node_id */
} Workers;

typedef struct CountedNode
{
	ExecProcNodeMtd function;	/* NULL: it is not counted */
	EntOwn		own;
} CountedNode;

/* A query whose nodes are counted, in its own memory. */
typedef struct Counted
{
	struct Counted *outer;		/* the query that has called it */
	EState	   *state;
	PlannedStmt *plan;
	EntOwn		before;
	dsm_segment *segment;		/* NULL: there are no workers */
	Workers    *workers;
	MemoryContextCallback end;
	int			nodes;
	CountedNode of[FLEXIBLE_ARRAY_MEMBER];	/* by plan_node_id */
} Counted;

static Counted *innermost;
/* The last EXPLAIN of this transaction has the option. */
static bool is_asked;
static int	extension_id;

static ExecutorStart_hook_type previous_start;
static ExecutorEnd_hook_type previous_end;
static explain_validate_options_hook_type previous_validate;
static explain_per_node_hook_type previous_node;
static explain_per_plan_hook_type previous_plan;

static Counted *
find(const EState *state)
{
	Counted    *found = innermost;

	while (found != NULL && found->state != state)
		found = found->outer;
	return found;
}

/* In place of a node's function. */
static TupleTableSlot *
count_node(PlanState *planstate)
{
	CountedNode *node = &find(planstate->state)->of[planstate->plan->plan_node_id];
	EntOwn		before,
				own;
	TupleTableSlot *slot;

	ent_own(&before);
	slot = node->function(planstate);
	own = door_own_since(&before);
	door_add_own(&node->own, &own);
	return slot;
}

static bool
find_last_node(PlanState *planstate, void *last)
{
	*(int *) last = Max(*(int *) last, planstate->plan->plan_node_id);
	return planstate_tree_walker(planstate, find_last_node, last);
}

static bool
wrap_node(PlanState *planstate, void *with)
{
	Counted    *counted = with;

	/* A subplan may be met more than once. */
	if (planstate->ExecProcNodeReal != count_node)
	{
		counted->of[planstate->plan->plan_node_id].function = planstate->ExecProcNodeReal;
		planstate->ExecProcNodeReal = count_node;
	}
	return planstate_tree_walker(planstate, wrap_node, counted);
}

static uint32
hash_of_text(const char *text)
{
	return hash_bytes((const unsigned char *) text, strlen(text));
}

/* Publishes the segment of the innermost query that has one. */
static void
publish(void)
{
	const Counted *counted = innermost;

	while (counted != NULL && counted->segment == NULL)
		counted = counted->outer;
	door_leaders[MyProcNumber].explained = counted ? dsm_segment_handle(counted->segment) : DSM_HANDLE_INVALID;
}

/* The query's memory is freed. After an error the queries that have called it may have ended before. */
static void
end_counted(void *with)
{
	Counted    *counted = with;
	Counted   **link = &innermost;

	while (*link != counted)
		link = &(*link)->outer;
	*link = counted->outer;
	if (counted->segment == NULL)
		return;
	if (!IsParallelWorker())
		publish();
	dsm_detach(counted->segment);
}

/* For the workers that the query may have. */
static void
make_segment(Counted *counted, const char *text)
{
	Size		bytes = offsetof(Workers, of) + mul_size(sizeof(DoorCounts), counted->nodes);

	counted->segment = dsm_create(bytes, DSM_CREATE_NULL_IF_MAXSEGMENTS);
	if (counted->segment == NULL)
		return;
	/* It lives as long as the query's memory. */
	dsm_pin_mapping(counted->segment);
	counted->workers = dsm_segment_address(counted->segment);
	/* Zeros are atomics of zero. */
	memset(counted->workers, 0, bytes);
	counted->workers->text = hash_of_text(text);
	counted->workers->nodes = counted->nodes;
}

/* In a worker: what its leader has published, if that is for this query. */
static dsm_segment *
find_segment(const char *text, int nodes)
{
	dsm_handle	handle = door_leaders[ParallelLeaderProcNumber].explained;
	dsm_segment *segment = handle != DSM_HANDLE_INVALID ? dsm_attach(handle) : NULL;
	Workers    *workers;

	if (segment == NULL)
		return NULL;
	workers = dsm_segment_address(segment);
	if (workers->text == hash_of_text(text) && workers->nodes >= nodes)
	{
		dsm_pin_mapping(segment);
		return segment;
	}
	dsm_detach(segment);
	return NULL;
}

static void
count_query(QueryDesc *query)
{
	dsm_segment *segment = NULL;
	int			last = -1;
	Counted    *counted;

	(void) find_last_node(query->planstate, &last);
	if (IsParallelWorker())
	{
		/* A worker has one query; what that calls may be measured by others, and is part of it here. */
		if (innermost == NULL)
			segment = find_segment(query->sourceText, last + 1);
		if (segment == NULL)
			return;
	}
	counted = MemoryContextAllocZero(query->estate->es_query_cxt,
									 offsetof(Counted, of) + mul_size(sizeof(CountedNode), last + 1));
	counted->state = query->estate;
	counted->plan = query->plannedstmt;
	counted->nodes = last + 1;
	if (segment != NULL)
	{
		counted->segment = segment;
		counted->workers = dsm_segment_address(segment);
	}
	else if (query->plannedstmt->parallelModeNeeded)
		make_segment(counted, query->sourceText);
	counted->outer = innermost;
	counted->end = (MemoryContextCallback) {.func = end_counted, .arg = counted};
	MemoryContextRegisterResetCallback(query->estate->es_query_cxt, &counted->end);
	innermost = counted;
	if (!IsParallelWorker())
		publish();
	(void) wrap_node(query->planstate, counted);
	ent_own(&counted->before);
}

static void
start(QueryDesc *query, int flags)
{
	if (previous_start)
		previous_start(query, flags);
	else
		standard_ExecutorStart(query, flags);
	if (door != NULL && query->instrument_options != 0 && query->planstate != NULL &&
		(is_asked || IsParallelWorker()))
		count_query(query);
}

static void
end(QueryDesc *query)
{
	Counted    *counted = IsParallelWorker() ? find(query->estate) : NULL;

	if (counted != NULL)
	{
		EntOwn		own = door_own_since(&counted->before);

		door_count(&counted->workers->all, &own);
		for (int i = 0; i < counted->nodes; i++)
			door_count(&counted->workers->of[i], &counted->of[i].own);
	}
	if (previous_end)
		previous_end(query);
	else
		standard_ExecutorEnd(query);
}

static void
show(const EntOwn *own, ExplainState *es)
{
	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		if (own->hits + own->misses + own->staged_dirty + own->staged_clean == 0)
			return;
		ExplainIndentText(es);
		appendStringInfoString(es->str, "Flash:");
		if (own->hits > 0)
			appendStringInfo(es->str, " hits=%" PRIu64, own->hits);
		if (own->async_hits > 0)
			appendStringInfo(es->str, " async=%" PRIu64, own->async_hits);
		if (own->misses > 0)
			appendStringInfo(es->str, " misses=%" PRIu64, own->misses);
		if (own->staged_dirty > 0)
			appendStringInfo(es->str, " dirty=%" PRIu64, own->staged_dirty);
		if (own->staged_clean > 0)
			appendStringInfo(es->str, " clean=%" PRIu64, own->staged_clean);
		appendStringInfoChar(es->str, '\n');
		return;
	}
	ExplainOpenGroup("Flash", "Flash", true, es);
	ExplainPropertyUInteger("Hits", NULL, own->hits, es);
	ExplainPropertyUInteger("Async Hits", NULL, own->async_hits, es);
	ExplainPropertyUInteger("Misses", NULL, own->misses, es);
	ExplainPropertyUInteger("Staged Dirty", NULL, own->staged_dirty, es);
	ExplainPropertyUInteger("Staged Clean", NULL, own->staged_clean, es);
	ExplainCloseGroup("Flash", "Flash", true, es);
}

typedef struct Sum
{
	Counted    *counted;
	EntOwn		own;
} Sum;

static bool
is_called(const PlanState *planstate)
{
	return planstate->ExecProcNodeReal == count_node && !IsA(planstate, HashState) &&
		!IsA(planstate, BitmapIndexScanState) && !IsA(planstate, BitmapAndState) &&
		!IsA(planstate, BitmapOrState);
}

/* What workers have had in a node and below. */
static bool
add_workers(PlanState *planstate, void *with)
{
	Sum		   *sum = with;
	EntOwn		more;

	if (!is_called(planstate))
		return planstate_tree_walker(planstate, add_workers, sum);
	more = door_counted(&sum->counted->workers->of[planstate->plan->plan_node_id]);
	door_add_own(&sum->own, &more);
	return false;
}

/* What workers have had below the Gather nodes of a tree, which the nodes above these do not count. */
static bool
add_gathered(PlanState *planstate, void *sum)
{
	if (IsA(planstate, GatherState) || IsA(planstate, GatherMergeState))
		return add_workers(outerPlanState(planstate), sum);
	return planstate_tree_walker(planstate, add_gathered, sum);
}

static bool
add_node(PlanState *planstate, void *with)
{
	Sum		   *sum = with;

	if (!is_called(planstate))
		return planstate_tree_walker(planstate, add_node, sum);
	door_add_own(&sum->own, &sum->counted->of[planstate->plan->plan_node_id].own);
	if (sum->counted->workers == NULL)
		return false;
	(void) add_workers(planstate, sum);
	return add_gathered(planstate, sum);
}

static bool
is_shown(ExplainState *es)
{
	bool	   *option = GetExplainExtensionState(es, extension_id);

	return option != NULL && *option && es->analyze;
}

static void
show_node(PlanState *planstate, List *ancestors, const char *relationship, const char *plan_name, ExplainState *es)
{
	Sum			sum = {.counted = find(planstate->state)};

	if (previous_node)
		previous_node(planstate, ancestors, relationship, plan_name, es);
	if (!is_shown(es) || sum.counted == NULL)
		return;
	(void) add_node(planstate, &sum);
	show(&sum.own, es);
}

static void
show_query(PlannedStmt *plan, IntoClause *into, ExplainState *es, const char *text, ParamListInfo parameters,
		   QueryEnvironment *environment)
{
	EntOwn		own;

	if (previous_plan)
		previous_plan(plan, into, es, text, parameters, environment);
	if (!is_shown(es) || innermost == NULL || innermost->plan != plan)
		return;
	own = door_own_since(&innermost->before);
	if (innermost->workers != NULL)
	{
		EntOwn		more = door_counted(&innermost->workers->all);

		door_add_own(&own, &more);
	}
	show(&own, es);
}

static void
take_option(ExplainState *es, DefElem *option, ParseState *pstate)
{
	bool	   *is_on = palloc(sizeof(bool));

	*is_on = defGetBoolean(option);
	SetExplainExtensionState(es, extension_id, is_on);
}

static void
validate(ExplainState *es, List *options, ParseState *pstate)
{
	bool	   *option = GetExplainExtensionState(es, extension_id);

	if (previous_validate)
		previous_validate(es, options, pstate);
	if (option != NULL && *option && !es->analyze)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("EXPLAIN option %s requires ANALYZE", "FLASH")));
	is_asked = is_shown(es);
}

static void
end_of_transaction(XactEvent event, void *with)
{
	is_asked = false;
}

void
door_explain(void)
{
	extension_id = GetExplainExtensionId("entresol");
	RegisterExtensionExplainOption("flash", take_option);
	RegisterXactCallback(end_of_transaction, NULL);
	previous_start = ExecutorStart_hook;
	ExecutorStart_hook = start;
	previous_end = ExecutorEnd_hook;
	ExecutorEnd_hook = end;
	previous_validate = explain_validate_options_hook;
	explain_validate_options_hook = validate;
	previous_node = explain_per_node_hook;
	explain_per_node_hook = show_node;
	previous_plan = explain_per_plan_hook;
	explain_per_plan_hook = show_query;
}
