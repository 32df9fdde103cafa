/*
 * What differs between the major versions of PostgreSQL, for the sources of the modules: no other file asks for
 * the version. What the server itself lacks is in the patches.
 */
#ifndef MAJOR_H
#define MAJOR_H

#include "common/relpath.h"
#include "postmaster/startup.h"

#if PG_VERSION_NUM >= 180000

#include "storage/aio.h"

/* Of the startup process. */
#define process_startup_interrupts() ProcessStartupProcInterrupts()
/* The path of a fork's first file, in memory of the caller's context. */
#define path_of_fork(rlocator, fork) pstrdup(relpathperm(rlocator, fork).str)
/* smgr.h: forks of these lengths are cut. */
#define truncate_forks(reln, forks, n, old, new) smgrtruncate(reln, forks, n, old, new)
/* bufmgr.h */
#define evict_buffer(buffer) EvictUnpinnedBuffer(buffer, &(bool) {false})
/* Of ExecutorRun(). */
#define RUN_PARAMETERS QueryDesc *query, ScanDirection direction, uint64 count
#define RUN_ARGUMENTS query, direction, count
/* Reads that this process has begun, before it closes a descriptor that they may use. */
#define before_close(descriptor) pgaio_closing_fd(descriptor)
/* Reads of the flash that are under way, of all processes: aio.c is compiled. */
#define wait_for_flash_reads() door_wait_for_reads()
/* explain.c is compiled. */
#define explain_flash() door_explain()
/* Of the table of hooks (storage/flashcache.h). */
#define ASYNC_HOOKS \
	.locate = door_locate, .device = door_device, .prove = door_prove, .reject = door_reject,

#else

#define process_startup_interrupts() HandleStartupProcInterrupts()
#define path_of_fork(rlocator, fork) relpathperm(rlocator, fork)
#define truncate_forks(reln, forks, n, old, new) smgrtruncate2(reln, forks, n, old, new)
#define evict_buffer(buffer) EvictUnpinnedBuffer(buffer)
#define RUN_PARAMETERS QueryDesc *query, ScanDirection direction, uint64 count, bool once
#define RUN_ARGUMENTS query, direction, count, once
#define explain_flash() ((void) 0)
#define before_close(descriptor) ((void) (descriptor))
#define wait_for_flash_reads() ((void) 0)
#define ASYNC_HOOKS

/* Without asynchronous reads there are no hooks for them. As in the patches of 18: */
typedef enum FlashCacheWhere
{
	FLASH_CACHE_NOT,
	FLASH_CACHE_AT_HAND,
	FLASH_CACHE_ON_DEVICE,
} FlashCacheWhere;

typedef struct FlashCacheProof
{
	uint64		stamp;
	uint32		object;
} FlashCacheProof;

typedef struct FlashCachePlace
{
	FlashCacheWhere where;
	int			fd;
	bool		buffered;
	uint64		offset;
	FlashCacheProof proof;
} FlashCachePlace;

#endif

#endif							/* MAJOR_H */
