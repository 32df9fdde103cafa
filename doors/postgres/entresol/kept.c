/*
 * Relations that are kept out of the cache.
 *
 * The hooks know relations by their files. So the list has both: the relation's OID in its database, and the
 * names of its files. It lies in shared memory, and in a file beside the label; a line of it is
 *
 *     <relation's OID> <database> <tablespace> <relation's file number>
 *
 * A rewrite (TRUNCATE, VACUUM FULL, CLUSTER, REINDEX, some ALTER TABLE) gives a relation new files. Before a
 * transaction that has changed anything commits, it compares the relations of its database on the list with
 * the catalog, and adds new files; the old ones leave the list when it has committed. After a crash in between
 * both are there. Nothing but speed depends on the list.
 */
#include "door.h"

#include <fcntl.h>
#include <unistd.h>

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "common/file_perm.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/fd.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#define KEPT_FILE "entresol/kept_out"

PG_FUNCTION_INFO_V1(entresol_keep_out);
PG_FUNCTION_INFO_V1(entresol_kept_out);

/* The transaction under way has added files of a relation, or has dropped one. */
static bool has_changed;

/* In the postmaster, for new shared memory. */
void
door_load_kept(void)
{
	FILE	   *file = AllocateFile(KEPT_FILE, "r");
	uint32		n = 0;
	KeptRelation kept;

	if (file == NULL)
	{
		if (errno != ENOENT)
			ereport(WARNING,
					(errcode_for_file_access(),
					 errmsg("could not open file \"%s\": %m", KEPT_FILE),
					 errdetail("No relation is kept out of the flash cache.")));
		return;
	}
	while (n < KEPT_MAX && fscanf(file, "%u %u %u %u", &kept.relid, &kept.locator.dbOid, &kept.locator.spcOid,
								  &kept.locator.relNumber) == 4)
		door->kept[n++] = kept;
	FreeFile(file);
	pg_atomic_write_u32(&door->kept_count, n);
}

/* Writes the list. Raises no error, since it may be called when a transaction has committed. */
static void
save(void)
{
	static const char temporary[] = KEPT_FILE ".new";
	char		text[KEPT_MAX * 48];
	int			length = 0;
	int			fd;
	bool		written;

	for (uint32 i = 0; i < pg_atomic_read_u32(&door->kept_count); i++)
		length += snprintf(text + length, sizeof(text) - length, "%u %u %u %u\n", door->kept[i].relid,
						   door->kept[i].locator.dbOid, door->kept[i].locator.spcOid,
						   door->kept[i].locator.relNumber);
	fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC, pg_file_create_mode);
	written = fd >= 0 && write(fd, text, length) == length;
	if (fd >= 0 && close(fd) != 0)
		written = false;
	if (!written)
		ereport(LOG, (errcode_for_file_access(), errmsg("could not write file \"%s\": %m", temporary)));
	else
		(void) durable_rename(temporary, KEPT_FILE, LOG);
}

bool
door_is_kept_slow(RelFileLocator rlocator)
{
	uint32		n = pg_atomic_read_u32(&door->kept_count);

	for (uint32 i = 0; i < n; i++)
	{
		if (RelFileLocatorEquals(door->kept[i].locator, rlocator))
			return true;
	}
	return false;
}

/* The caller has the lock. */
static void
drop(uint32 at)
{
	uint32		last = pg_atomic_read_u32(&door->kept_count) - 1;

	door->kept[at] = door->kept[last];
	pg_atomic_write_u32(&door->kept_count, last);
}

/* The caller has the lock. False: there is no room. */
static bool
add(Oid relid, RelFileLocator locator)
{
	uint32		n = pg_atomic_read_u32(&door->kept_count);

	if (door_is_kept_slow(locator))
		return true;
	if (n == KEPT_MAX)
		return false;
	door->kept[n] = (KeptRelation) {.relid = relid, .locator = locator};
	pg_write_barrier();
	pg_atomic_write_u32(&door->kept_count, n + 1);
	return true;
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
	return true;
}

/* Looks at the relations of this database. Before a commit new files are added, after it old ones leave. */
static void
before_commit(void)
{
	KeptRelation kept[KEPT_MAX];
	uint32		n;

	LWLockAcquire(door->kept_lock, LW_SHARED);
	n = pg_atomic_read_u32(&door->kept_count);
	memcpy(kept, door->kept, n * sizeof(KeptRelation));
	LWLockRelease(door->kept_lock);
	for (uint32 i = 0; i < n; i++)
	{
		RelFileLocator now;

		if (kept[i].locator.dbOid != MyDatabaseId)
			continue;
		if (!find_files(kept[i].relid, &now))
		{
			has_changed = true;
			continue;
		}
		if (RelFileLocatorEquals(now, kept[i].locator) || door_is_kept_slow(now))
			continue;
		has_changed = true;
		LWLockAcquire(door->kept_lock, LW_EXCLUSIVE);
		(void) add(kept[i].relid, now);
		save();
		LWLockRelease(door->kept_lock);
	}
}

/* Files that the catalog does not name leave the list. */
static void
tidy(void)
{
	bool		dropped = false;
	KeptRelation kept[KEPT_MAX];
	uint32		n;

	LWLockAcquire(door->kept_lock, LW_SHARED);
	n = pg_atomic_read_u32(&door->kept_count);
	memcpy(kept, door->kept, n * sizeof(KeptRelation));
	LWLockRelease(door->kept_lock);
	for (uint32 i = 0; i < n; i++)
	{
		RelFileLocator now;
		bool		is_present = kept[i].locator.dbOid != MyDatabaseId ||
			(find_files(kept[i].relid, &now) && RelFileLocatorEquals(now, kept[i].locator));

		if (is_present)
			continue;
		LWLockAcquire(door->kept_lock, LW_EXCLUSIVE);
		for (uint32 at = 0; at < pg_atomic_read_u32(&door->kept_count); at++)
		{
			if (RelFileLocatorEquals(door->kept[at].locator, kept[i].locator))
			{
				drop(at);
				dropped = true;
				break;
			}
		}
		LWLockRelease(door->kept_lock);
	}
	if (dropped)
	{
		LWLockAcquire(door->kept_lock, LW_EXCLUSIVE);
		save();
		LWLockRelease(door->kept_lock);
	}
}

static void
on_transaction(XactEvent event, void *arg)
{
	static bool is_tidying;

	if (door == NULL || event != XACT_EVENT_PRE_COMMIT || is_tidying ||
		pg_atomic_read_u32(&door->kept_count) == 0 || !OidIsValid(MyDatabaseId))
		return;
	if (has_changed)
	{
		/* Of an earlier transaction: what it has left over can be told now. */
		has_changed = false;
		is_tidying = true;
		tidy();
		is_tidying = false;
	}
	if (TransactionIdIsValid(GetTopTransactionIdIfAny()))
		before_commit();
}

void
door_watch_kept(void)
{
	RegisterXactCallback(on_transaction, NULL);
}

static int
work_evict(void *with)
{
	uint64		removed;

	return ent_evict(*(EntFork *) with, &removed);
}

/*
 * Makes all pages of a relation durable in its files, before it enters the cache again. The caller's lock keeps
 * everybody from changing one meanwhile.
 *
 * 1. A dirty page is written past the cache. 2. The relation may enter again. 3. The page is evicted as clean, and
 * enters. 4. Power fails before the file is synced. 5. Redo finds the page up to date in the cache, and leaves it
 * clean; the file has the older version for good. See crates/pg/src/budget.rs.
 */
static void
make_durable(Relation relation)
{
	SMgrRelation files = RelationGetSmgr(relation);

	FlushRelationBuffers(relation);
	for (ForkNumber fork = MAIN_FORKNUM; fork <= MAX_FORKNUM; fork++)
	{
		if (smgrexists(files, fork))
			smgrimmedsync(files, fork);
	}
}

Datum
entresol_keep_out(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	bool		keep = PG_GETARG_BOOL(1);
	LOCKMODE	lock = keep ? ShareUpdateExclusiveLock : AccessExclusiveLock;
	Relation	relation;
	RelFileLocator locator;
	bool		has_room = true;
	EntFork		fork;

	if (door == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("there is no flash cache"),
				 errhint("Put \"entresol\" into \"shared_preload_libraries\", and set \"entresol.flash\".")));
	/* Nobody rewrites it meanwhile. */
	relation = relation_open(relid, lock);
	if (!RELKIND_HAS_STORAGE(relation->rd_rel->relkind) || relation->rd_rel->relfilenode == 0)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" cannot be kept out of the flash cache", RelationGetRelationName(relation)),
				 errhint("Name a table, an index, a materialized view or a sequence that is no system catalog of the first hour; of a partitioned table its partitions.")));
	locator = relation->rd_locator;
	fork = (EntFork) {.tablespace = locator.spcOid, .database = locator.dbOid, .relation = locator.relNumber};
	if (!keep)
		make_durable(relation);
	LWLockAcquire(door->kept_lock, LW_EXCLUSIVE);
	if (keep)
		has_room = add(relid, locator);
	else
	{
		for (uint32 at = pg_atomic_read_u32(&door->kept_count); at-- > 0;)
		{
			if (door->kept[at].relid == relid && door->kept[at].locator.dbOid == locator.dbOid)
				drop(at);
		}
	}
	save();
	LWLockRelease(door->kept_lock);
	if (!has_room)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("no more than %d relations can be kept out of the flash cache", KEPT_MAX)));
	if (keep)
		(void) door_wait(work_evict, &fork);
	relation_close(relation, lock);
	PG_RETURN_VOID();
}

Datum
entresol_kept_out(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	uint32		n;

	InitMaterializedSRF(fcinfo, 0);
	if (door == NULL)
		return (Datum) 0;
	LWLockAcquire(door->kept_lock, LW_SHARED);
	n = pg_atomic_read_u32(&door->kept_count);
	for (uint32 i = 0; i < n; i++)
	{
		Datum		values[] = {
			ObjectIdGetDatum(door->kept[i].locator.dbOid), ObjectIdGetDatum(door->kept[i].relid),
			ObjectIdGetDatum(door->kept[i].locator.spcOid), ObjectIdGetDatum(door->kept[i].locator.relNumber),
		};
		bool		nulls[lengthof(values)] = {0};

		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	LWLockRelease(door->kept_lock);
	return (Datum) 0;
}
