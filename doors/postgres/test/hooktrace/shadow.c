/*
 * A second opinion: the LSN that each page had when it last left DRAM.
 *
 * A page that comes to the cache must not be older than that. If it is, then a stale version was read from
 * the cache or from disk since: the hooks, or the cache, have lost a write.
 */
#include "hooktrace.h"

#include "storage/shmem.h"

/* Pages that are remembered; others are not checked. */
#define SHADOWS 65536

typedef struct Shadow
{
	PageKey		key;			/* first: the key of the hash table */
	XLogRecPtr	lsn;
} Shadow;

static HTAB *shadows;

Size
shadow_bytes(void)
{
	return hash_estimate_size(SHADOWS, sizeof(Shadow));
}

void
shadow_init(void)
{
	HASHCTL		control = {.keysize = sizeof(PageKey), .entrysize = sizeof(Shadow)};

	shadows = ShmemInitHash("hooktrace shadows", SHADOWS, SHADOWS, &control,
							HASH_ELEM | HASH_BLOBS | HASH_FIXED_SIZE);
}

void
shadow_check(const PageKey *key, XLogRecPtr lsn)
{
	Shadow	   *shadow = hash_search(shadows, key, HASH_FIND, NULL);

	if (!shadow)
		return;
	count(SHADOWS_CHECKED);
	if (lsn < shadow->lsn)
		elog(PANIC, "hooktrace: block %u of %u/%u/%u, fork %d, came with LSN %X/%X, but it left with %X/%X",
			 key->block, key->rlocator.spcOid, key->rlocator.dbOid, key->rlocator.relNumber, key->fork,
			 LSN_FORMAT_ARGS(lsn), LSN_FORMAT_ARGS(shadow->lsn));
}

void
shadow_staged(const PageKey *key, XLogRecPtr lsn)
{
	Shadow	   *shadow = hash_search(shadows, key, HASH_ENTER_NULL, NULL);

	if (shadow)
		shadow->lsn = lsn;
}

void
shadow_forget_page(const PageKey *key)
{
	hash_search(shadows, key, HASH_REMOVE, NULL);
}

void
shadow_forget(KeyMatch match, const PageKey *pattern)
{
	HASH_SEQ_STATUS all;
	Shadow	   *shadow;

	hash_seq_init(&all, shadows);
	while ((shadow = hash_seq_search(&all)) != NULL)
	{
		if (match(&shadow->key, pattern))
			hash_search(shadows, &shadow->key, HASH_REMOVE, NULL);
	}
}
