/*
 * The hooks of asynchronous reads (storage/flashcache.h): the server reads the flash by itself, and asks what it
 * has read.
 *
 * Servers that do not call them have these types, too: see major.h.
 */
#include "door.h"

#include "access/xlog.h"
#include "storage/relfilelocator.h"

uint32
door_locate(RelFileLocator rlocator, ForkNumber forknum, BlockNumber blkno, uint32 nblocks, bool reads,
			FlashCachePlace *place)
{
	EntPlace	found;

	int			code;

	place->where = FLASH_CACHE_NOT;
	do
	{
		if (!door_is_there())
			return nblocks;
		code = ent_locate(door_fork_of(rlocator, forknum), blkno, nblocks, reads, &found);
	} while (door_has_changed(code));
	door_check(code);
	if (reads && found.at == ENT_ON_DISK)
		door_time_disk();
	if (found.at == ENT_AT_HAND)
		place->where = FLASH_CACHE_AT_HAND;
	else if (found.at == ENT_ON_FLASH)
		*place = (FlashCachePlace) {
			.where = FLASH_CACHE_ON_DEVICE,
			.fd = found.descriptor,
			.buffered = !found.is_direct,
			.offset = found.offset,
			.proof = {.stamp = found.stamp, .object = found.object},
		};
	return found.blocks;
}

/*
 * Also in processes that only execute the server's reads, and may not have attached yet. None of them waits for a
 * change, which waits for their reads: until it is made they read the device of before. A read at a place of another
 * cache is not proved, and is repeated.
 */
int
door_device(void)
{
	if (ent_is_stale())
		ent_detach();
	if (!ent_is_attached() && (door_state() != DOOR_SERVING || door_try_attach() != ENT_DONE))
		return -1;
	return ent_descriptor();
}

bool
door_prove(const FlashCacheProof *proof, BlockNumber first, uint32 at, char *page)
{
	return ent_prove(proof->object, first + at, proof->stamp + at, DataChecksumsEnabled(), page);
}

void
door_reject(RelFileLocator rlocator, ForkNumber forknum, BlockNumber blkno)
{
	int			code;

	do
	{
		if (!door_is_there())
			return;
		code = ent_reject(door_fork_of(rlocator, forknum), blkno);
	} while (door_has_changed(code));
	door_check(code);
}
