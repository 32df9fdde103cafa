/*
 * What the files of the extension share.
 */
#ifndef DOOR_H
#define DOOR_H

#include "postgres.h"

#include "entresol.h"
#include "port/atomics.h"
#include "storage/flashcache.h"

/* How far the cache is, in the life of one shared memory. */
typedef enum DoorState
{
	DOOR_NEW,					/* the startup process has not said which cluster it is */
	DOOR_ASKED,					/* the worker opens the flash */
	DOOR_SERVING,
	DOOR_REFUSED,				/* "message" says why */
	DOOR_DRAINING,				/* at shutdown: the worker writes all dirty pages to disk */
	DOOR_DRAINED,				/* the files are complete */
	DOOR_NOT_DRAINED,			/* "message" says why */
} DoorState;

/* What processes of the server share beside the engine's memory. */
typedef struct DoorShared
{
	pg_atomic_uint32 state;		/* a DoorState */
	pg_atomic_uint32 worker;	/* its process; 0: it has not begun */
	/* Written before the state is changed, and not after. */
	EntCluster	cluster;
	char		message[1024];
} DoorShared;

/* entresol.c */
extern DoorShared *door;
extern EntOptions door_options;
extern void *door_memory;
extern Size door_memory_bytes;
extern bool drain_at_shutdown;

static inline DoorState
door_state(void)
{
	DoorState	state = (DoorState) pg_atomic_read_u32(&door->state);

	pg_read_barrier();
	return state;
}

static inline void
door_set_state(DoorState state)
{
	pg_write_barrier();
	pg_atomic_write_u32(&door->state, state);
}

/* hooks.c */
extern const FlashCacheRoutine door_routine;
extern void door_attach(void);
extern const char *door_error(void);

/* worker.c */
extern void door_register_worker(void);
extern PGDLLEXPORT void entresol_worker(Datum arg);

#endif							/* DOOR_H */
