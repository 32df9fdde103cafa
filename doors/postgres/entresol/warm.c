/*
 * Pages that enter the cache before they are needed.
 *
 * They are read through shared buffers, in a ring of their own, and by a read stream, which has several reads
 * under way. Clean ones are handed to the cache; dirty ones enter when they are evicted from shared buffers.
 */
#include "door.h"

#include "access/heapam.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_class.h"
#include "common/relpath.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "storage/read_stream.h"
#include "storage/smgr.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(entresol_prewarm);
PG_FUNCTION_INFO_V1(entresol_prewarm_database);

/* Between two tries to hand a page to a cache without room. */
#define RETRY_US 1000

/* The blocks of a fork that the cache lacks, in their order. */
typedef struct Missing
{
	RelFileLocator locator;
	ForkNumber	forknum;
	BlockNumber next;
	BlockNumber end;
} Missing;

static BlockNumber
next_missing(ReadStream *stream, void *with, void *per_buffer)
{
	Missing    *missing = with;

	while (missing->next < missing->end)
	{
		BlockNumber block = missing->next++;
		bool		is_here = false;

		(void) flash_cache->residency(missing->locator, missing->forknum, block, 1, &is_here);
		if (!is_here)
			return block;
	}
	return InvalidBlockNumber;
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

/* Hands a block to the cache, waiting for room. True: it was taken. */
static bool
warm_buffer(EntFork fork, Buffer buffer)
{
	static PGIOAlignedBlock copy;
	BlockNumber block = BufferGetBlockNumber(buffer);

	for (;;)
	{
		int			code = ENT_DISK_ONLY;

		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		if (copy_clean(buffer, block, copy.data))
		{
			do
				code = door_is_there() ? ent_stage(fork, block, copy.data, PageGetLSN((Page) copy.data), 0) :
					ENT_DISK_ONLY;
			while (door_has_changed(code));
		}
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
		door_check(code);
		if (code != ENT_FULL)
			return code == ENT_DONE;
		CHECK_FOR_INTERRUPTS();
		pg_usleep(RETRY_US);
	}
}

/* Brings blocks that the cache lacks into it. Returns how many entered. */
int64
door_warm_blocks(Relation relation, ForkNumber forknum, BlockNumber first, BlockNumber blocks)
{
	Missing		missing = {.locator = relation->rd_locator, .forknum = forknum, .next = first};
	EntFork		fork = door_fork_of(relation->rd_locator, forknum);
	BufferAccessStrategy strategy;
	ReadStream *stream;
	Buffer		buffer;
	BlockNumber there;
	int64		warmed = 0;

	if (!smgrexists(RelationGetSmgr(relation), forknum))
		return 0;
	there = RelationGetNumberOfBlocksInFork(relation, forknum);
	if (first >= there)
		return 0;
	missing.end = first + Min(blocks, there - first);
	strategy = GetAccessStrategy(BAS_BULKREAD);
	stream = read_stream_begin_relation(READ_STREAM_MAINTENANCE, strategy, relation, forknum, next_missing,
										&missing, 0);
	while (BufferIsValid(buffer = read_stream_next_buffer(stream, NULL)))
	{
		CHECK_FOR_INTERRUPTS();
		if (door_is_there() && warm_buffer(fork, buffer))
			warmed++;
		ReleaseBuffer(buffer);
	}
	read_stream_end(stream);
	FreeAccessStrategy(strategy);
	return warmed;
}

/* Whether pages of a relation may enter the cache. */
bool
door_may_enter(Relation relation)
{
	return RELKIND_HAS_STORAGE(relation->rd_rel->relkind) && RelationIsPermanent(relation) &&
		door_kept(relation->rd_locator) == KEPT_NOT;
}

/* Pages that the cache has room for before it dequeues others. */
uint64
door_room(void)
{
	EntStat		stat;
	uint64		used;
	int			code;

	do
	{
		if (!door_is_there())
			return 0;
		code = ent_stat(&stat);
	} while (door_has_changed(code));
	door_check(code);
	used = stat.values[ENT_STAT_SLOTS_VALID] + stat.values[ENT_STAT_SLOTS_SUPERSEDED];
	return stat.values[ENT_STAT_SLOTS] - Min(used, stat.values[ENT_STAT_SLOTS]);
}

/* One relation, whatever room there is. */
Datum
entresol_prewarm(PG_FUNCTION_ARGS)
{
	Relation	relation;
	int64		warmed;

	door_check_loaded();
	relation = door_open_relation(PG_GETARG_OID(0));
	if (!door_may_enter(relation))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not for the flash cache", RelationGetRelationName(relation)),
				 errdetail("It is temporary or unlogged, or is kept out.")));
	warmed = door_is_there() ? door_warm_blocks(relation, MAIN_FORKNUM, 0, MaxBlockNumber) : 0;
	relation_close(relation, AccessShareLock);
	PG_RETURN_INT64(warmed);
}

/* A relation of the database. */
typedef struct Sized
{
	Oid			relid;
	int32		pages;			/* as pg_class has it */
} Sized;

static int
compare_sized(const ListCell *one, const ListCell *other)
{
	const Sized *a = lfirst(one);
	const Sized *b = lfirst(other);

	return a->pages < b->pages ? -1 : a->pages > b->pages;
}

/* The relations with files of this database, and the shared ones: the smallest first. */
static List *
find_relations(void)
{
	Relation	classes = table_open(RelationRelationId, AccessShareLock);
	TableScanDesc scan = table_beginscan_catalog(classes, 0, NULL);
	List	   *found = NIL;
	HeapTuple	tuple;

	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);
		Sized	   *sized;

		if (!RELKIND_HAS_STORAGE(form->relkind) || form->relpersistence != RELPERSISTENCE_PERMANENT)
			continue;
		sized = palloc(sizeof(Sized));
		sized->relid = form->oid;
		sized->pages = form->relpages;
		found = lappend(found, sized);
	}
	table_endscan(scan);
	table_close(classes, AccessShareLock);
	list_sort(found, compare_sized);
	return found;
}

/*
 * The relations of a database, as many as there is room for: small ones first, so that as many as possible are
 * there as a whole.
 */
Datum
entresol_prewarm_database(PG_FUNCTION_ARGS)
{
	int64		warmed = 0;
	int64		room;
	ListCell   *cell;

	door_check_loaded();
	room = (int64) door_room();
	foreach(cell, find_relations())
	{
		Sized	   *sized = lfirst(cell);
		Relation	relation = try_relation_open(sized->relid, AccessShareLock);

		/* It was dropped. */
		if (relation == NULL)
			continue;
		for (ForkNumber forknum = 0; forknum < INIT_FORKNUM && door_may_enter(relation); forknum++)
		{
			if (warmed < room)
				warmed += door_warm_blocks(relation, forknum, 0, (BlockNumber) Min(room - warmed, MaxBlockNumber));
		}
		relation_close(relation, AccessShareLock);
		if (warmed >= room)
			break;
	}
	PG_RETURN_INT64(warmed);
}
