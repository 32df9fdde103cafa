/*
 * Leaves out a step of the cache, for one relation and in this process alone.
 *
 * The process gets a table of hooks of its own, which calls the oracles'. Other processes stage and destage
 * the relation's pages as ever; all that is written past DRAM, truncated and removed is this process's work.
 */
#include "hooktrace.h"

static const FlashCacheRoutine *inner;
static FlashCacheRoutine outer;
static RelFileLocator of;
static Fault left_out;

static bool
is_left_out(Fault fault, RelFileLocator rlocator)
{
	return left_out == fault && RelFileLocatorEquals(rlocator, of);
}

static void
forget(RelFileLocator rlocator, ForkNumber fork, BlockNumber block, BlockNumber n)
{
	if (!is_left_out(n == InvalidBlockNumber ? FAULT_CUT : FAULT_FORGET, rlocator))
		inner->forget(rlocator, fork, block, n);
}

static void
forget_relation(RelFileLocator rlocator)
{
	if (!is_left_out(FAULT_DROP, rlocator))
		inner->forget_relation(rlocator);
}

static bool
stage(RelFileLocator rlocator, ForkNumber fork, BlockNumber block, const char *page, XLogRecPtr lsn, int flags)
{
	bool		cached = false;

	if (is_left_out(FAULT_CLEAN, rlocator))
		flags &= ~FLASH_STAGE_DIRTY;
	if (is_left_out(FAULT_STALE, rlocator) && (flags & FLASH_STAGE_DIRTY) != 0)
	{
		inner->residency(rlocator, fork, block, 1, &cached);
		if (cached)
			return true;
	}
	return inner->stage(rlocator, fork, block, page, lsn, flags);
}

/* From now on, until the next call with FAULT_NONE. */
void
leave_out(Fault fault, RelFileLocator rlocator)
{
	if (!inner)
	{
		inner = flash_cache;
		outer = *inner;
		outer.stage = stage;
		outer.forget = forget;
		outer.forget_relation = forget_relation;
	}
	of = rlocator;
	left_out = fault;
	flash_cache = fault == FAULT_NONE ? inner : &outer;
}
