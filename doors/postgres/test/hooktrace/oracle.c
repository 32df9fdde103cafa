/*
 * Rules between PostgreSQL and a cache, checked at the hooks. A broken one is a PANIC.
 *
 * 1. A process is attached before it calls anything else.
 * 2. WAL is flushed up to the LSN of a dirty page that enters the cache.
 * 3. A page that enters the cache is not older than when it last left DRAM (shadow.c).
 * 4. A clean page of which the cache has no version is the page on disk.
 *
 * This may run in a critical section, except for rule 4: pages that are clean are not staged in one.
 */
#include "hooktrace.h"

#include <fcntl.h>
#include <unistd.h>

#include "access/xlog.h"
#include "storage/bufpage.h"
#include "storage/fd.h"

static const FlashCacheRoutine *inner;
static FlashCacheRoutine outer;
static bool attached;

static void
attach(void)
{
	attached = true;
	count(ATTACHED);
	inner->attach();
}

static void
check_attached(void)
{
	if (!attached)
		elog(PANIC, "hooktrace: a process that was not attached calls");
}

static uint32
residency(RelFileLocator rlocator, ForkNumber fork, BlockNumber block, uint32 n, bool *cached)
{
	check_attached();
	return inner->residency(rlocator, fork, block, n, cached);
}

static bool
is_newer(RelFileLocator rlocator, ForkNumber fork, BlockNumber block)
{
	check_attached();
	return inner->is_newer(rlocator, fork, block);
}

static XLogRecPtr
durable_lsn(RelFileLocator rlocator, ForkNumber fork, BlockNumber block)
{
	check_attached();
	return inner->durable_lsn(rlocator, fork, block);
}

static uint32
read_blocks(RelFileLocator rlocator, ForkNumber fork, BlockNumber block, void **buffers, uint32 n)
{
	check_attached();
	return inner->read(rlocator, fork, block, buffers, n);
}

/* The LSN of the page on disk. */
static XLogRecPtr
disk_lsn(const PageKey *key)
{
	char	   *path = path_of_fork(key->rlocator, key->fork);
	BlockNumber segment = key->block / RELSEG_SIZE;
	char	   *name = segment ? psprintf("%s.%u", path, segment) : path;
	int			file = OpenTransientFile(name, O_RDONLY | PG_BINARY);
	PageHeaderData header;

	if (file < 0)
		elog(PANIC, "hooktrace: could not open \"%s\" of a clean page: %m", name);
	if (pg_pread(file, &header, sizeof(header), (off_t) BLCKSZ * (key->block % RELSEG_SIZE)) != sizeof(header))
		elog(PANIC, "hooktrace: a clean page is not in its file");
	CloseTransientFile(file);
	return PageXLogRecPtrGet(header.pd_lsn);
}

/* The buffer is pinned and clean, so nobody writes the page while we look. */
static void
check_clean(const PageKey *key, XLogRecPtr lsn)
{
	XLogRecPtr	on_disk;
	bool		cached;

	inner->residency(key->rlocator, key->fork, key->block, 1, &cached);
	if (cached)
		return;
	on_disk = disk_lsn(key);
	if (on_disk != lsn)
		elog(PANIC, "hooktrace: block %u of relation %u, fork %d, is clean with LSN %X/%X, but the disk has %X/%X",
			 key->block, key->rlocator.relNumber, key->fork, LSN_FORMAT_ARGS(lsn), LSN_FORMAT_ARGS(on_disk));
	count(CLEAN_COMPARED);
}

static bool
stage(RelFileLocator rlocator, ForkNumber fork, BlockNumber block, const char *page, XLogRecPtr lsn, int flags)
{
	PageKey		key = page_key(rlocator, fork, block);
	bool		dirty = (flags & FLASH_STAGE_DIRTY) != 0;
	bool		taken;

	check_attached();
	/*
	 * Clean pages are compared with the disk instead. Bulk writers fill new relations on disk without waiting
	 * for WAL.
	 */
	if (dirty && !RecoveryInProgress() && XLogNeedsFlush(lsn))
		elog(PANIC, "hooktrace: block %u of relation %u, fork %d, came with LSN %X/%X, which is not flushed",
			 block, rlocator.relNumber, fork, LSN_FORMAT_ARGS(lsn));
	if (!RelFileLocatorEquals(shared->unchecked, rlocator))
	{
		LWLockAcquire(shared->lock, LW_SHARED);
		shadow_check(&key, lsn);
		LWLockRelease(shared->lock);
		if (!dirty)
			check_clean(&key, lsn);
	}

	if ((flags & FLASH_STAGE_PULL) != 0 && pg_atomic_read_u32(&shared->pause_us) > 0)
		pg_usleep(pg_atomic_read_u32(&shared->pause_us));
	taken = inner->stage(rlocator, fork, block, page, lsn, flags);
	if (taken && dirty)
	{
		LWLockAcquire(shared->lock, LW_EXCLUSIVE);
		shadow_staged(&key, lsn);
		LWLockRelease(shared->lock);
	}
	return taken;
}

/* Blocks of the pattern's fork from its block on. */
static bool
is_cut(const PageKey *key, const PageKey *pattern)
{
	return RelFileLocatorEquals(key->rlocator, pattern->rlocator) && key->fork == pattern->fork &&
		key->block >= pattern->block;
}

static bool
is_of_relation(const PageKey *key, const PageKey *pattern)
{
	return RelFileLocatorEquals(key->rlocator, pattern->rlocator);
}

static bool
is_of_database(const PageKey *key, const PageKey *pattern)
{
	return key->rlocator.dbOid == pattern->rlocator.dbOid &&
		(!OidIsValid(pattern->rlocator.spcOid) || key->rlocator.spcOid == pattern->rlocator.spcOid);
}

static void
forget_shadows(KeyMatch match, PageKey pattern)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	shadow_forget(match, &pattern);
	LWLockRelease(shared->lock);
}

static void
forget(RelFileLocator rlocator, ForkNumber fork, BlockNumber block, BlockNumber n)
{
	check_attached();
	inner->forget(rlocator, fork, block, n);
	if (n == InvalidBlockNumber)
	{
		forget_shadows(is_cut, page_key(rlocator, fork, block));
		return;
	}
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (BlockNumber i = 0; i < n; i++)
	{
		PageKey		key = page_key(rlocator, fork, block + i);

		shadow_forget_page(&key);
	}
	LWLockRelease(shared->lock);
}

static void
forget_relation(RelFileLocator rlocator)
{
	check_attached();
	inner->forget_relation(rlocator);
	forget_shadows(is_of_relation, page_key(rlocator, MAIN_FORKNUM, 0));
}

static void
forget_database(Oid dbid, Oid spcid)
{
	check_attached();
	inner->forget_database(dbid, spcid);
	forget_shadows(is_of_database, page_key((RelFileLocator) {.dbOid = dbid, .spcOid = spcid}, MAIN_FORKNUM, 0));
}

/* Puts the oracles over the hooks that are there. In the postmaster, whose children inherit them. */
void
oracle_install(void)
{
	inner = flash_cache;
	outer = *inner;
	outer.attach = attach;
	outer.residency = residency;
	outer.is_newer = is_newer;
	outer.durable_lsn = durable_lsn;
	outer.read = read_blocks;
	outer.stage = stage;
	outer.forget = forget;
	outer.forget_relation = forget_relation;
	outer.forget_database = forget_database;
	flash_cache = &outer;
}
