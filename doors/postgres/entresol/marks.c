/*
 * Marks of relations that are kept out of the cache.
 *
 * A mark is a security label in the catalogs:
 *
 *	   SECURITY LABEL FOR entresol ON TABLE t IS 'keep-out';
 *
 * So it belongs to the relation, not to its files. It changes with its transaction, and is replicated, dumped and
 * restored as the relation itself. entresol_keep_out() sets it, of indexes and TOAST tables, too, for which the
 * statement has no words.
 *
 * The hooks need the files of marked relations: kept.c has the set. It follows the marks:
 *
 * 1. A transaction that has changed marks looks at them again just before it commits.
 * 2. A marked relation that gets a new file puts it into the set, or is refused.
 * 3. The set and the marks of a database are compared now and then: by the first transaction after each
 *	  checkpoint, and after the start. What a crash has left over is removed then. What a server without this
 *	  module has changed, or a database that was copied from a template, is found.
 */
#include "door.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/parallel.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/catalog.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "catalog/pg_seclabel.h"
#include "commands/seclabel.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/relfilenumbermap.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#define PROVIDER "entresol"
#define MARK "keep-out"

PG_FUNCTION_INFO_V1(entresol_keep_out);
PG_FUNCTION_INFO_V1(entresol_kept_out);

/* Relations whose marks the transaction under way has changed: a list of OIDs in its memory. */
static List *changed;
/* It has looked at them. */
static bool is_applied;

static ProcessUtility_hook_type previous_utility;

static bool
is_marked(Oid relid)
{
	ObjectAddress object = {.classId = RelationRelationId, .objectId = relid};
	char	   *label = GetSecurityLabel(&object, PROVIDER);

	return label != NULL && strcmp(label, MARK) == 0;
}

/* The files of a relation of this database, as the catalog has them for this transaction. */
static bool
find_files(Oid relid, RelFileLocator *locator)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Form_pg_class form;

	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_class) GETSTRUCT(tuple);
	locator->spcOid = OidIsValid(form->reltablespace) ? form->reltablespace : MyDatabaseTableSpace;
	locator->dbOid = MyDatabaseId;
	locator->relNumber = form->relfilenode;
	ReleaseSysCache(tuple);
	return RelFileNumberIsValid(locator->relNumber);
}

static void
say_full(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("no more than %d relations can be kept out of the flash cache", KEPT_MARKS_MAX),
			 errdetail("The limit is of relations of all databases, and of %d files with those of rewrites that have not committed.",
					   KEPT_MAX),
			 errhint("Let another relation in with entresol_keep_out(relation, false), or try again when rewrites have committed.")));
}

/* The mark of a relation was, or is about to be, changed. */
static void
note_change(Oid relid, bool keep)
{
	MemoryContext before;
	RelFileLocator files;

	/* Without a cache there is no set. */
	if (door == NULL)
		return;
	if (keep && pg_atomic_read_u32(&door->kept_count) >= KEPT_MARKS_MAX && find_files(relid, &files) &&
		door_kept(files) == KEPT_NOT)
		say_full();
	before = MemoryContextSwitchTo(TopTransactionContext);
	changed = list_append_unique_oid(changed, relid);
	MemoryContextSwitchTo(before);
	is_applied = false;
}

static void
check_can_be_kept(Relation relation)
{
	if (!RELKIND_HAS_STORAGE(relation->rd_rel->relkind) || IsCatalogRelation(relation))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" cannot be kept out of the flash cache", RelationGetRelationName(relation)),
				 errhint("Name a table, an index, a materialized view or a sequence that is no system catalog; of a partitioned table its partitions.")));
}

/* Before a label is set by SECURITY LABEL; NULL removes it. The relation is locked. */
static void
check_label(const ObjectAddress *object, const char *label)
{
	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("only superusers may keep relations out of the flash cache")));
	if (object->classId != RelationRelationId || object->objectSubId != 0)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("only relations can be kept out of the flash cache")));
	if (label != NULL && strcmp(label, MARK) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" is no label of the flash cache", label),
				 errhint("The label is \"" MARK "\"; NULL removes it.")));
	if (label != NULL)
	{
		Relation	relation = relation_open(object->objectId, NoLock);

		check_can_be_kept(relation);
		relation_close(relation, NoLock);
	}
	note_change(object->objectId, label != NULL);
}

/*
 * Registers the provider of labels when a statement names it, and not before: SECURITY LABEL without FOR is for
 * the only provider there is, which is another one, or none.
 */
static void
on_utility(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree, ProcessUtilityContext context,
		   ParamListInfo params, QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	static bool is_registered;
	const SecLabelStmt *statement = (const SecLabelStmt *) pstmt->utilityStmt;

	if (!is_registered && IsA(pstmt->utilityStmt, SecLabelStmt) && statement->provider != NULL &&
		strcmp(statement->provider, PROVIDER) == 0)
	{
		register_label_provider(PROVIDER, check_label);
		is_registered = true;
	}
	if (previous_utility)
		previous_utility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
	else
		standard_ProcessUtility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
}

/*
 * A relation has a new file; or "relid" is a new relation that is to take the place of "replaces". That one's
 * mark is given on: the transient TOAST table of a rewrite stays, under its own OID, and so does the new index of
 * REINDEX CONCURRENTLY.
 */
void
door_new_file(Oid relid, Oid replaces, RelFileLocator rlocator)
{
	if (relid < FirstNormalObjectId || !is_marked(OidIsValid(replaces) ? replaces : relid))
		return;
	if (OidIsValid(replaces))
	{
		ObjectAddress object = {.classId = RelationRelationId, .objectId = relid};

		SetSecurityLabel(&object, PROVIDER, MARK);
		/* The new index is full of pages that have entered. */
		if (get_rel_relkind(relid) == RELKIND_INDEX)
		{
			note_change(relid, false);
			return;
		}
	}
	if (!door_keep(rlocator, relid, GetTopTransactionId(), false))
		say_full();
}

static int
work_evict(void *with)
{
	uint64		removed;

	return ent_evict(*(EntFork *) with, &removed);
}

/* Before a commit: the set follows the marks that the transaction has changed. */
static void
apply(void)
{
	ListCell   *cell;

	is_applied = true;
	/* The last statement may have set a mark. */
	CommandCounterIncrement();
	foreach(cell, changed)
	{
		Oid			relid = lfirst_oid(cell);
		RelFileLocator files;
		EntFork		fork;

		if (!find_files(relid, &files))
			continue;
		if (!is_marked(relid))
		{
			door_let_in(files, GetTopTransactionIdIfAny());
			continue;
		}
		if (!door_keep(files, relid, GetTopTransactionIdIfAny(), true))
			say_full();
		fork = (EntFork) {.tablespace = files.spcOid, .database = files.dbOid, .relation = files.relNumber};
		(void) door_wait(work_evict, &fork);
	}
	door_save_kept();
}

/* The marked relations of this database. */
static List *
find_marked(void)
{
	List	   *marked = NIL;
	Relation	labels = table_open(SecLabelRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(labels, InvalidOid, false, NULL, 0, NULL);
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		const FormData_pg_seclabel *form = (const FormData_pg_seclabel *) GETSTRUCT(tuple);
		bool		is_null;
		Datum		provider = heap_getattr(tuple, Anum_pg_seclabel_provider, RelationGetDescr(labels), &is_null);

		if (form->classoid == RelationRelationId && form->objsubid == 0 &&
			strcmp(TextDatumGetCString(provider), PROVIDER) == 0)
			marked = lappend_oid(marked, form->objoid);
	}
	systable_endscan(scan);
	table_close(labels, AccessShareLock);
	return marked;
}

/* Whether how a transaction ends is still open. */
static bool
is_open(TransactionId xid)
{
	return TransactionIdIsValid(xid) &&
		(TransactionIdIsCurrentTransactionId(xid) || TransactionIdIsInProgress(xid));
}

/*
 * A marked relation whose file is not in the set enters it. While the relation is locked for a rewrite, its file
 * is about to be another one. False: it is to be tried again.
 */
static bool
complete(Oid relid)
{
	RelFileLocator files;
	uint32		at = 0;
	KeptFile	file;

	if (!find_files(relid, &files) || door_kept(files) == KEPT_OUT)
		return true;
	if (!ConditionalLockRelationOid(relid, AccessShareLock))
		return false;
	while (door_read_kept(&at, &file))
	{
		/* Somebody has removed the mark, and will commit that. */
		if (RelFileLocatorEquals(file.locator, files) && is_open(file.xid))
			return false;
	}
	if (find_files(relid, &files) && is_marked(relid) && !door_keep(files, relid, InvalidTransactionId, false))
		ereport(LOG,
				(errmsg("no more than %d files can be kept out of the flash cache", KEPT_MAX),
				 errdetail("Relation %u is marked, and enters it.", relid)));
	return true;
}

/*
 * Files that no relation has, or one without a mark, leave the set. First it is asked whether the transaction
 * that has put a file there has ended, and then the catalog: it knows of the file then, or nobody ever will.
 */
static void
tidy(void)
{
	List	   *files = NIL;
	ListCell   *cell;
	uint32		at = 0;
	KeptFile	file;

	while (door_read_kept(&at, &file))
	{
		if (file.locator.dbOid == MyDatabaseId && !is_open(file.xid))
		{
			KeptFile   *copy = palloc(sizeof(KeptFile));

			*copy = file;
			files = lappend(files, copy);
		}
	}
	AcceptInvalidationMessages();
	InvalidateCatalogSnapshot();
	foreach(cell, files)
	{
		const KeptFile *found = lfirst(cell);
		Oid			relid = RelidByRelfilenumber(found->locator.spcOid, found->locator.relNumber);

		if (!OidIsValid(relid))
			door_settle_kept(found, KEPT_NOT);
		else
			door_settle_kept(found, is_marked(relid) ? KEPT_OUT : KEPT_CLEAN);
	}
	list_free_deep(files);
}

/* See rule 3. */
static void
compare(void)
{
	Oid		   *place = &door->compared[MyDatabaseId % KEPT_COMPARED];
	bool		is_complete = true;
	List	   *marked;
	ListCell   *cell;

	if (*place == MyDatabaseId)
		return;
	*place = MyDatabaseId;
	marked = find_marked();
	foreach(cell, marked)
		is_complete = complete(lfirst_oid(cell)) && is_complete;
	list_free(marked);
	if (pg_atomic_read_u32(&door->kept_count) > 0)
		tidy();
	if (!is_complete)
		*place = InvalidOid;
}

static void
on_transaction(XactEvent event, void *arg)
{
	if (door == NULL || !OidIsValid(MyDatabaseId) || IsParallelWorker())
		return;
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			if (changed != NIL)
				apply();
			compare();
			break;
		case XACT_EVENT_PRE_PREPARE:
			if (changed != NIL)
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot PREPARE a transaction that has changed which relations are kept out of the flash cache")));
			break;
		case XACT_EVENT_ABORT:
			/* What was applied is compared with the marks that are there. */
			if (is_applied)
				door->compared[MyDatabaseId % KEPT_COMPARED] = InvalidOid;
			/* FALLTHROUGH */
		case XACT_EVENT_COMMIT:
			changed = NIL;
			is_applied = false;
			break;
		default:
			break;
	}
}

/* In the postmaster, also without a cache: what was dumped with marks is restored with them. */
void
door_watch_marks(void)
{
	RegisterXactCallback(on_transaction, NULL);
	previous_utility = ProcessUtility_hook;
	ProcessUtility_hook = on_utility;
}

Datum
entresol_keep_out(PG_FUNCTION_ARGS)
{
	ObjectAddress object = {.classId = RelationRelationId, .objectId = PG_GETARG_OID(0)};
	bool		keep = PG_GETARG_BOOL(1);
	Relation	relation;

	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("cannot execute %s during recovery", "entresol_keep_out()"),
				 errdetail("A standby keeps out what its primary does.")));
	PreventCommandIfReadOnly("entresol_keep_out()");
	if (door == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("there is no flash cache"),
				 errhint("Put \"entresol\" into \"shared_preload_libraries\", and set \"entresol.flash\".")));
	/* Nobody rewrites it meanwhile. */
	relation = relation_open(object.objectId, ShareUpdateExclusiveLock);
	check_can_be_kept(relation);
	note_change(object.objectId, keep);
	SetSecurityLabel(&object, PROVIDER, keep ? MARK : NULL);
	relation_close(relation, NoLock);
	PG_RETURN_VOID();
}

/* The set. */
Datum
entresol_kept_out(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	uint32		at = 0;
	KeptFile	file;

	InitMaterializedSRF(fcinfo, 0);
	while (door != NULL && door_read_kept(&at, &file))
	{
		Datum		values[] = {
			ObjectIdGetDatum(file.locator.dbOid), ObjectIdGetDatum(file.relid),
			ObjectIdGetDatum(file.locator.spcOid), ObjectIdGetDatum(file.locator.relNumber),
			BoolGetDatum(file.leaving != KEPT_STAYS),
		};
		bool		nulls[lengthof(values)] = {0};

		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}
