/*
 * Reads of the flash that the server has started (18).
 */
#include "door.h"

#include "storage/aio_internal.h"

/*
 * Waits for the reads of the flash that are under way: their device may be taken away afterwards. No process starts one
 * meanwhile. Those that are prepared and were not submitted yet find another cache in their place, and are repeated.
 */
void
door_wait_for_reads(void)
{
	for (uint32 i = 0; i < pgaio_ctl->io_handle_count; i++)
	{
		PgAioHandle *handle = &pgaio_ctl->io_handles[i];
		uint64		generation = handle->generation;
		PgAioWaitRef read;

		pg_read_barrier();
		if (handle->target != PGAIO_TID_FLASH || handle->state != PGAIO_HS_SUBMITTED)
			continue;
		read.aio_index = i;
		read.generation_upper = (uint32) (generation >> 32);
		read.generation_lower = (uint32) generation;
		pgaio_wref_wait(&read);
	}
}
