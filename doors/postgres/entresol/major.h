/*
 * What differs between the major versions of PostgreSQL, for the sources of the modules: no other file asks for
 * the version. What the server itself lacks is in the patches.
 */
#ifndef MAJOR_H
#define MAJOR_H

#include "common/relpath.h"
#include "postmaster/startup.h"

#if PG_VERSION_NUM >= 180000

/* Of the startup process. */
#define process_startup_interrupts() ProcessStartupProcInterrupts()
/* The path of a fork's first file, in memory of the caller's context. */
#define path_of_fork(rlocator, fork) pstrdup(relpathperm(rlocator, fork).str)
/* smgr.h: forks of these lengths are cut. */
#define truncate_forks(reln, forks, n, old, new) smgrtruncate(reln, forks, n, old, new)
/* bufmgr.h */
#define evict_buffer(buffer) EvictUnpinnedBuffer(buffer, &(bool) {false})

#else

#define process_startup_interrupts() HandleStartupProcInterrupts()
#define path_of_fork(rlocator, fork) relpathperm(rlocator, fork)
#define truncate_forks(reln, forks, n, old, new) smgrtruncate2(reln, forks, n, old, new)
#define evict_buffer(buffer) EvictUnpinnedBuffer(buffer)

#endif

#endif							/* MAJOR_H */
