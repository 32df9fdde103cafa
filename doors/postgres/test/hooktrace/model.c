/*
 * hooktrace_model: random work on one relation, against a model.
 *
 * The model is an array with the version of every page. A page in the relation says which block and which
 * version it is. What is read, through DRAM or below it, must say what the model says. Now and then all is
 * destaged, and the file itself is compared.
 *
 * The work: read, scan, write, extend, truncate, drop and recreate under the same number, evict, write and extend
 * past DRAM as bulk writers do, read past DRAM in runs that are partly cached, prefetch. The worker destages
 * meanwhile. Nothing is logged: a crash is not part of this test.
 *
 * With a fault, leave_out.c leaves one step of the cache out for this relation. The test must then fail.
 */
#include "hooktrace.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/relation.h"
#include "common/pg_prng.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "storage/fd.h"
#include "storage/procsignal.h"
#include "storage/read_stream.h"
#include "storage/smgr.h"
#include "utils/builtins.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(hooktrace_model);

/* Most pages that the relation gets. */
#define PAGES_MAX 700

/* Between two tries to evict a page that another process holds. */
#define EVICT_AGAIN_US 200

#define MAGIC 0x656e7472

typedef struct Stamp
{
	uint32		magic;
	BlockNumber block;
	uint64		version;
} Stamp;

typedef struct Model
{
	Relation	relation;
	pg_prng_state random;
	uint64		version;		/* the last one given */
	BlockNumber n;
	uint64		versions[PAGES_MAX];
	int			step;
	const char *doing;
	uint64		checked;
} Model;

static const char *const fault_names[] = {
	"none", "forget", "cut", "drop", "clean", "stale",
};

static uint32
below(Model *model, uint32 n)
{
	return pg_prng_uint64_range(&model->random, 0, n - 1);
}

static void
stamp(Page page, BlockNumber block, uint64 version)
{
	Stamp	   *said;

	PageInit(page, BLCKSZ, 0);
	((PageHeader) page)->pd_lower = SizeOfPageHeaderData + sizeof(Stamp);
	said = (Stamp *) PageGetContents(page);
	*said = (Stamp) {.magic = MAGIC, .block = block, .version = version};
}

static void
check(Model *model, const char *page, BlockNumber block, const char *where)
{
	const Stamp *said = (const Stamp *) PageGetContents((Page) page);

	model->checked++;
	if (said->magic != MAGIC || said->block != block || said->version != model->versions[block])
		elog(ERROR, "step %d (%s): block %u from %s has version %llu of block %u, expected version %llu",
			 model->step, model->doing, block, where, (unsigned long long) said->version, said->block,
			 (unsigned long long) model->versions[block]);
}

static void
check_length(Model *model)
{
	BlockNumber n = smgrnblocks(RelationGetSmgr(model->relation), MAIN_FORKNUM);

	if (n != model->n)
		elog(ERROR, "step %d (%s): the relation has %u blocks, expected %u", model->step, model->doing, n,
			 model->n);
}

static void
read_page(Model *model, BlockNumber block)
{
	BufferAccessStrategy ring = below(model, 4) == 0 ? GetAccessStrategy(BAS_BULKREAD) : NULL;
	Buffer		buffer = ReadBufferExtended(model->relation, MAIN_FORKNUM, block, RBM_NORMAL, ring);

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	check(model, BufferGetPage(buffer), block, "DRAM");
	UnlockReleaseBuffer(buffer);
}

static void
write_page(Model *model, BlockNumber block)
{
	Buffer		buffer = ReadBuffer(model->relation, block);

	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	check(model, BufferGetPage(buffer), block, "DRAM");
	START_CRIT_SECTION();
	stamp(BufferGetPage(buffer), block, ++model->version);
	model->versions[block] = model->version;
	MarkBufferDirty(buffer);
	END_CRIT_SECTION();
	UnlockReleaseBuffer(buffer);
}

/* What is left of a scan. */
typedef struct Scan
{
	Model	   *model;
	BlockNumber next;
} Scan;

static BlockNumber
next_of_scan(ReadStream *stream, void *with, void *per_buffer)
{
	Scan	   *scan = with;
	BlockNumber block = scan->next;

	if (block >= scan->model->n)
		return InvalidBlockNumber;
	/* Runs, and gaps. */
	scan->next += below(scan->model, 3) == 0 ? 1 + below(scan->model, 8) : 1;
	return block;
}

/* Reads ahead, as many pages as the server likes, while others are written. */
static void
scan_from(Model *model, BlockNumber first)
{
	Scan		scan = {.model = model, .next = first};
	ReadStream *stream = read_stream_begin_relation(READ_STREAM_DEFAULT, NULL, model->relation, MAIN_FORKNUM,
													next_of_scan, &scan, 0);
	Buffer		buffer;

	while ((buffer = read_stream_next_buffer(stream, NULL)) != InvalidBuffer)
	{
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		check(model, BufferGetPage(buffer), BufferGetBlockNumber(buffer), "a scan");
		UnlockReleaseBuffer(buffer);
		if (below(model, 4) == 0)
			write_page(model, below(model, model->n));
	}
	read_stream_end(stream);
}

/* Through DRAM, as a heap grows. */
static void
extend(Model *model, uint32 n)
{
	Buffer		buffers[8];
	uint32		got;
	BlockNumber first = ExtendBufferedRelBy(BMR_REL(model->relation), MAIN_FORKNUM, NULL, 0, n, buffers,
											&got);

	if (first != model->n)
		elog(ERROR, "step %d: extended at block %u, expected %u", model->step, first, model->n);
	for (uint32 i = 0; i < got; i++)
	{
		LockBuffer(buffers[i], BUFFER_LOCK_EXCLUSIVE);
		stamp(BufferGetPage(buffers[i]), first + i, ++model->version);
		model->versions[model->n++] = model->version;
		MarkBufferDirty(buffers[i]);
		UnlockReleaseBuffer(buffers[i]);
	}
}

/* Blocks that the relation has lost are not in the cache. */
static void
check_absent(Model *model, BlockNumber from, BlockNumber end)
{
	bool		cached = false;

	for (BlockNumber block = from; block < end && !cached;)
	{
		block += flash_cache->residency(model->relation->rd_locator, MAIN_FORKNUM, block, end - block, &cached);
		if (cached)
			elog(ERROR, "step %d (%s): a block before %u is in the cache, expected none from %u on", model->step,
				 model->doing, block, from);
	}
}

static void
truncate_to(Model *model, BlockNumber n)
{
	SMgrRelation file = RelationGetSmgr(model->relation);
	ForkNumber	fork = MAIN_FORKNUM;
	BlockNumber old_n = smgrnblocks(file, fork);

	START_CRIT_SECTION();
	truncate_forks(file, &fork, 1, &old_n, &n);
	END_CRIT_SECTION();
	model->n = n;
	check_absent(model, n, old_n);
}

/*
 * In turn as a transaction does it, and as recovery. The server uses a number again after a checkpoint only; until
 * then the old file would be read by processes that have it open.
 */
static void
recreate(Model *model)
{
	SMgrRelation file = RelationGetSmgr(model->relation);

	smgrdounlinkall(&file, 1, true);
	check_absent(model, 0, model->n);
	WaitForProcSignalBarrier(EmitProcSignalBarrier(PROCSIGNAL_BARRIER_SMGRRELEASE));
	smgrcreate(RelationGetSmgr(model->relation), MAIN_FORKNUM, below(model, 2) == 0);
	model->n = 0;
}

/* Afterwards no buffer has the page. Another process may hold it for a while, as the worker does when it pulls. */
static void
evict(Model *model, BlockNumber block)
{
	for (;;)
	{
		Buffer		buffer = ReadBuffer(model->relation, block);

		ReleaseBuffer(buffer);
		if (evict_buffer(buffer))
			return;
		CHECK_FOR_INTERRUPTS();
		pg_usleep(EVICT_AGAIN_US);
	}
}

/* Without DRAM, as bulk writers do it. No buffer may have the page: see smgrwritev(). */
static void
write_past(Model *model, BlockNumber block)
{
	PGIOAlignedBlock page;

	evict(model, block);
	stamp((Page) page.data, block, ++model->version);
	PageSetChecksumInplace((Page) page.data, block);
	smgrwrite(RelationGetSmgr(model->relation), MAIN_FORKNUM, block, page.data, false);
	model->versions[block] = model->version;
}

static void
extend_past(Model *model)
{
	PGIOAlignedBlock page;

	stamp((Page) page.data, model->n, ++model->version);
	PageSetChecksumInplace((Page) page.data, model->n);
	smgrextend(RelationGetSmgr(model->relation), MAIN_FORKNUM, model->n, page.data, false);
	model->versions[model->n++] = model->version;
}

/* A run of pages, some of them in the cache and some not. */
static void
read_past(Model *model, BlockNumber first, uint32 n)
{
	PGIOAlignedBlock read[16];
	void	   *buffers[16];

	FlushRelationBuffers(model->relation);
	for (uint32 i = 0; i < n; i++)
		buffers[i] = read[i].data;
	smgrreadv(RelationGetSmgr(model->relation), MAIN_FORKNUM, first, buffers, n);
	for (uint32 i = 0; i < n; i++)
		check(model, read[i].data, first + i, "below DRAM");
}

/* What the disk has when the cache has nothing that is newer. */
static void
check_file(Model *model)
{
	char	   *path = path_of_fork(model->relation->rd_locator, MAIN_FORKNUM);
	PGIOAlignedBlock page;
	struct stat status;
	int			file;

	FlushRelationBuffers(model->relation);
	flash_cache->destage_all();
	file = OpenTransientFile(path, O_RDONLY | PG_BINARY);
	if (file < 0 || fstat(file, &status) != 0)
		elog(ERROR, "could not open \"%s\": %m", path);
	if (status.st_size != (off_t) model->n * BLCKSZ)
		elog(ERROR, "step %d: the file has %lld bytes, expected %u pages", model->step,
			 (long long) status.st_size, model->n);
	for (BlockNumber block = 0; block < model->n; block++)
	{
		if (pg_pread(file, page.data, BLCKSZ, (off_t) block * BLCKSZ) != BLCKSZ)
			elog(ERROR, "could not read \"%s\": %m", path);
		check(model, page.data, block, "its file");
	}
	CloseTransientFile(file);
	pfree(path);
}

static void
step(Model *model)
{
	uint32		what = below(model, 1000);
	BlockNumber block = model->n > 0 ? below(model, model->n) : 0;

	/* After each step that changes the file's length, and now and then. */
	if (what < 40 && model->n + 8 <= PAGES_MAX)
	{
		model->doing = "extend";
		extend(model, 1 + below(model, 8));
		check_length(model);
	}
	else if (what < 80 && model->n < PAGES_MAX)
	{
		model->doing = "extend past DRAM";
		extend_past(model);
		check_length(model);
	}
	else if (model->n == 0)
		return;
	else if (what < 82)
	{
		model->doing = "truncate";
		truncate_to(model, Max(block, model->n / 2));
		check_length(model);
	}
	else if (what < 83 && below(model, 3) == 0)
	{
		model->doing = "drop and create";
		recreate(model);
		check_length(model);
	}
	else if (what < 85)
	{
		model->doing = "compare the file";
		check_file(model);
	}
	else if (what < 100)
	{
		uint32		run_n = 1 + below(model, 16);

		model->doing = "read past DRAM";
		read_past(model, block, Min(run_n, model->n - block));
	}
	else if (what < 102)
	{
		model->doing = "scan";
		scan_from(model, block);
	}
	else if (what < 180)
	{
		model->doing = "write past DRAM";
		write_past(model, block);
	}
	else if (what < 280)
	{
		model->doing = "evict";
		evict(model, block);
	}
	else if (what < 300)
		smgrprefetch(RelationGetSmgr(model->relation), MAIN_FORKNUM, block, Min(8, model->n - block));
	else if (what < 600)
	{
		model->doing = "write";
		write_page(model, block);
	}
	else
	{
		model->doing = "read";
		read_page(model, block);
	}
}

static void
run(Model *model, int steps)
{
	for (model->step = 0; model->step < steps; model->step++)
	{
		CHECK_FOR_INTERRUPTS();
		step(model);
	}
	model->doing = "at the end";
	for (BlockNumber block = 0; block < model->n; block++)
		read_page(model, block);
	check_file(model);
}

static Fault
fault_named(const char *name)
{
	for (int i = 0; i < lengthof(fault_names); i++)
	{
		if (strcmp(fault_names[i], name) == 0)
			return (Fault) i;
	}
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("there is no fault \"%s\"", name)));
}

Datum
hooktrace_model(PG_FUNCTION_ARGS)
{
	Model	   *model = palloc0(sizeof(Model));
	int			steps = PG_GETARG_INT32(1);
	Fault		fault = fault_named(text_to_cstring(PG_GETARG_TEXT_PP(3)));

	if (!shared || !flash_cache)
		ereport(ERROR, (errmsg("there is no cache, or hooktrace was not preloaded after it")));
	model->relation = relation_open(PG_GETARG_OID(0), AccessExclusiveLock);
	if (model->relation->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT ||
		RelationGetNumberOfBlocks(model->relation) != 0)
		ereport(ERROR, (errmsg("the model needs an empty permanent table")));
	pg_prng_seed(&model->random, PG_GETARG_INT64(2));

	shared->unchecked = fault == FAULT_NONE ? (RelFileLocator) {0} : model->relation->rd_locator;
	leave_out(fault, model->relation->rd_locator);
	pg_atomic_write_u32(&shared->pause_us, PG_GETARG_INT32(4));
	PG_TRY();
	{
		run(model, steps);
	}
	PG_FINALLY();
	{
		pg_atomic_write_u32(&shared->pause_us, 0);
		/* What a fault has left in the cache does not fit the file. */
		leave_out(FAULT_NONE, model->relation->rd_locator);
		flash_cache->forget_relation(model->relation->rd_locator);
	}
	PG_END_TRY();
	truncate_to(model, 0);
	relation_close(model->relation, NoLock);
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("%d steps, %llu pages compared", steps,
											  (unsigned long long) model->checked)));
}
