/*
 * Manifests: files that name the pages in the cache, those of most use first (crates/pg/src/manifest.rs). A new
 * flash, a standby or a restored backup reads the pages that one names before they are needed.
 *
 * Pages are read by a background worker for each database, which is connected to it: it finds the relation of a
 * file, and locks it, so that it is not dropped meanwhile. Files that have no relation any more are passed over.
 * With "entresol.manifest_every" another worker writes a manifest every now and then, and loads the last one at the
 * start.
 */
#include "door.h"

#include <unistd.h>

#include "access/relation.h"
#include "access/xact.h"
#include "commands/dbcommands.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/dsm.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/procsignal.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/rel.h"
#include "utils/relfilenumbermap.h"
#include "utils/wait_event.h"

PG_FUNCTION_INFO_V1(entresol_dump_manifest);
PG_FUNCTION_INFO_V1(entresol_load_manifest);

/* In the cluster's folder: base backups have it. */
#define USUAL_PATH "entresol.manifest"
#define HEAD "entresol manifest 1\n"
#define LINE_MAX_BYTES 128

int			door_manifest_every;

/* What a worker that reads pages is told, and tells. */
typedef struct Load
{
	char		path[MAXPGPATH];
	Oid			database;
	bool		with_shared;	/* shared relations, too */
	uint64		room;
	pg_atomic_uint64 warmed;
} Load;

/* A line. */
typedef struct Line
{
	RelFileLocator locator;
	ForkNumber	forknum;
	BlockNumber first;
	BlockNumber blocks;
} Line;

static FILE *
open_manifest(const char *path)
{
	FILE	   *file = AllocateFile(path, "r");
	char		line[LINE_MAX_BYTES];

	if (file == NULL)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not open manifest \"%s\": %m", path)));
	if (fgets(line, sizeof(line), file) == NULL || strcmp(line, HEAD) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is no manifest of a flash cache", path),
				 errhint("entresol_dump_manifest() writes one.")));
	return file;
}

/* The next line. False: there is none. */
static bool
read_line(FILE *file, const char *path, Line *line)
{
	char		text[LINE_MAX_BYTES];
	unsigned	database,
				tablespace,
				relation,
				forknum,
				first,
				blocks;
	int			end = 0;

	if (fgets(text, sizeof(text), file) == NULL)
		return false;
	if (sscanf(text, "%u,%u,%u,%u,%u,%u\n%n", &database, &tablespace, &relation, &forknum, &first, &blocks,
			   &end) != 6 || text[end] != '\0' || forknum > MAX_FORKNUM)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("manifest \"%s\" has a line that names no blocks: %s", path, text)));
	line->locator = (RelFileLocator) {.spcOid = tablespace, .dbOid = database, .relNumber = relation};
	line->forknum = (ForkNumber) forknum;
	line->first = first;
	line->blocks = blocks;
	return true;
}

/* The databases that a manifest names, without shared relations. */
static List *
read_databases(const char *path)
{
	FILE	   *file = open_manifest(path);
	List	   *databases = NIL;
	Line		line;

	while (read_line(file, path, &line))
	{
		if (OidIsValid(line.locator.dbOid))
			databases = list_append_unique_oid(databases, line.locator.dbOid);
	}
	FreeFile(file);
	return databases;
}

/* The relation that has this file, locked, if its pages may enter. */
static Relation
open_by_file(RelFileLocator locator)
{
	Oid			relid = RelidByRelfilenumber(locator.spcOid, locator.relNumber);
	Relation	relation = OidIsValid(relid) ? try_relation_open(relid, AccessShareLock) : NULL;

	if (relation == NULL)
		return NULL;
	if (RelFileLocatorEquals(relation->rd_locator, locator) && door_may_enter(relation))
		return relation;
	relation_close(relation, AccessShareLock);
	return NULL;
}

/* Reads the pages of one database, in the manifest's order, as many as there is room for. */
static void
load_database(Load *load)
{
	FILE	   *file = open_manifest(load->path);
	RelFileLocator looked = {0};
	Relation	relation = NULL;
	Line		line;

	while (pg_atomic_read_u64(&load->warmed) < load->room && read_line(file, load->path, &line))
	{
		Oid			database = line.locator.dbOid;
		int64		warmed;

		CHECK_FOR_INTERRUPTS();
		if (database != load->database && (OidIsValid(database) || !load->with_shared))
			continue;
		if (!RelFileLocatorEquals(looked, line.locator))
		{
			if (relation != NULL)
				relation_close(relation, AccessShareLock);
			relation = open_by_file(line.locator);
			looked = line.locator;
		}
		if (relation == NULL)
			continue;
		warmed = door_warm_blocks(relation, line.forknum, line.first, line.blocks);
		pg_atomic_fetch_add_u64(&load->warmed, (uint64) warmed);
	}
	if (relation != NULL)
		relation_close(relation, AccessShareLock);
	FreeFile(file);
}

/* A worker that reads the pages of a database. */
void
entresol_warm_database(Datum arg)
{
	dsm_segment *segment;
	Load	   *load;

	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	segment = dsm_attach(DatumGetUInt32(arg));
	if (segment == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the process that loads the manifest has ended")));
	load = dsm_segment_address(segment);
	BackgroundWorkerInitializeConnectionByOid(load->database, InvalidOid, BGWORKER_BYPASS_ALLOWCONN);
	StartTransactionCommand();
	load_database(load);
	CommitTransactionCommand();
	dsm_detach(segment);
}

/* Runs a worker for one database to its end. */
static void
run_worker(dsm_segment *segment)
{
	BackgroundWorker worker = {
		.bgw_name = "entresol warmer of a database",
		.bgw_type = "entresol warmer",
		.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION,
		.bgw_start_time = BgWorkerStart_ConsistentState,
		.bgw_restart_time = BGW_NEVER_RESTART,
		.bgw_library_name = "entresol",
		.bgw_function_name = "entresol_warm_database",
		.bgw_main_arg = UInt32GetDatum(dsm_segment_handle(segment)),
		.bgw_notify_pid = MyProcPid,
	};
	BackgroundWorkerHandle *handle;

	if (!RegisterDynamicBackgroundWorker(&worker, &handle))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("no process can be started that reads the pages of the manifest"),
				 errhint("Raise \"max_worker_processes\".")));
	PG_TRY();
	{
		(void) WaitForBackgroundWorkerShutdown(handle);
	}
	PG_CATCH();
	{
		TerminateBackgroundWorker(handle);
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/* In a transaction: reads the pages that a manifest names. Returns how many entered. */
static int64
load_manifest(const char *path)
{
	List	   *databases = read_databases(path);
	dsm_segment *segment = dsm_create(sizeof(Load), 0);
	Load	   *load = dsm_segment_address(segment);
	ListCell   *cell;
	int64		warmed;

	strlcpy(load->path, path, sizeof(load->path));
	load->room = door_room();
	load->with_shared = true;
	pg_atomic_init_u64(&load->warmed, 0);
	foreach(cell, databases)
	{
		load->database = lfirst_oid(cell);
		/* It was dropped. */
		if (get_database_name(load->database) == NULL)
			continue;
		run_worker(segment);
		load->with_shared = false;
	}
	warmed = (int64) pg_atomic_read_u64(&load->warmed);
	dsm_detach(segment);
	return warmed;
}

static int64
dump_manifest(const char *path)
{
	uint64		pages = 0;
	int			code;

	if (!door_is_there())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the flash cache is switched off, and has no pages")));
	door_ask(code, ent_dump_manifest(path, &pages));
	if (code == ENT_REFUSED)
		ereport(ERROR, (errmsg("the manifest could not be written: %s", door_error())));
	door_check(code);
	return (int64) pages;
}

static char *
path_of(FunctionCallInfo fcinfo)
{
	char	   *path = PG_ARGISNULL(0) ? pstrdup(USUAL_PATH) : text_to_cstring(PG_GETARG_TEXT_PP(0));

	if (strlen(path) >= MAXPGPATH || path[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("the path of a manifest has 1 to %d bytes", MAXPGPATH - 1)));
	return path;
}

Datum
entresol_dump_manifest(PG_FUNCTION_ARGS)
{
	door_check_loaded();
	PG_RETURN_INT64(dump_manifest(path_of(fcinfo)));
}

Datum
entresol_load_manifest(PG_FUNCTION_ARGS)
{
	door_check_loaded();
	PG_RETURN_INT64(load_manifest(path_of(fcinfo)));
}

/* The worker of "entresol.manifest_every". */
void
entresol_warmer(Datum arg)
{
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	/* Shared catalogs are enough. */
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	if (!door_is_there())
		proc_exit(0);
	if (access(USUAL_PATH, R_OK) == 0)
	{
		int64		warmed;

		StartTransactionCommand();
		warmed = load_manifest(USUAL_PATH);
		CommitTransactionCommand();
		ereport(LOG, (errmsg("the flash cache has read %lld pages that the manifest names", (long long) warmed)));
	}
	while (!ShutdownRequestPending)
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, door_manifest_every * 1000L,
						 PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
			continue;
		}
		if (door_state() != DOOR_SERVING)
			break;
		(void) dump_manifest(USUAL_PATH);
	}
	proc_exit(0);
}

void
door_register_warmer(void)
{
	BackgroundWorker worker = {
		.bgw_name = "entresol warmer",
		.bgw_type = "entresol warmer",
		.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION,
		.bgw_start_time = BgWorkerStart_ConsistentState,
		.bgw_restart_time = 60,
		.bgw_library_name = "entresol",
		.bgw_function_name = "entresol_warmer",
	};

	if (door_manifest_every > 0)
		RegisterBackgroundWorker(&worker);
}
