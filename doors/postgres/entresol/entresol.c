/*
 * The extension: its settings and its shared memory.
 */
#include "door.h"

#include <sys/stat.h>
#include <unistd.h>

#include "access/xlog.h"
#include "catalog/catalog.h"
#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "common/relpath.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/guc.h"
#include "utils/guc_tables.h"
#include "utils/memutils.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

DoorShared *door;
volatile DoorLeader *door_leaders;
EntOptions	door_options;
void	   *door_memory;
Size		door_memory_bytes;
bool		drain_at_shutdown;
bool		door_is_worker;
int			door_statements;
char	   *door_writes_per_day;

static char *flash;
static int	size_mb;
static int	max_size_mb;
static int	policy = 2;
static int	mode;
static int	objects;
static int	workers = 32;
static int	flash_loss;

static shmem_request_hook_type previous_request;
static shmem_startup_hook_type previous_startup;

/* Places in the table of processes that are not a backend's or an auxiliary process's: prepared for growth. */
#define SPARE_PROCESSES 8

static const struct config_enum_entry policies[] = {
	{"face", 0, false},
	{"face-gr", 1, false},
	{"face-gsc", 2, false},
	{"reuse", 3, false},
	{NULL, 0, false},
};

static const struct config_enum_entry losses[] = {
	{"fatal", 0, false},
	{"survive", 1, false},
	{NULL, 0, false},
};

static const struct config_enum_entry modes[] = {
	{"write-back", 0, false},
	{"write-through", 1, false},
	{NULL, 0, false},
};

/*
 * Whether this process decides what the server's settings are: a value that it refuses is not used by a server that is
 * started anew after a crash. (Others only show them.)
 */
static bool
decides(void)
{
	return door != NULL && (!IsUnderPostmaster || door_is_worker);
}

/*
 * Whether a reload may change the path. If that of a cache is changed, the note of an exchange must be there first: a
 * server that is started in between finds the present flash by it.
 */
static bool
flash_may_be(const char *path)
{
	if (!decides() || !IsPostmasterEnvironment || door_state() != DOOR_SERVING ||
		strcmp(door_now().flash, path) == 0 || (path[0] != '\0' && ent_is_moving(&door_options, path)))
		return true;
	GUC_check_errdetail("The flash cache is on \"%s\".", door_now().flash);
	GUC_check_errhint("Exchange the flash of a running server by \"SELECT entresol_move_flash('PATH')\". To be without a cache, set \"entresol.drain_at_shutdown\" to on, and restart the server.");
	return false;
}

static bool
check_flash(char **new, void **extra, GucSource source)
{
	struct stat about;

	if (**new == '\0')
		return flash_may_be(*new);
	if (!is_absolute_path(*new))
	{
		GUC_check_errdetail("\"%s\" is not an absolute path.", *new);
		GUC_check_errhint("Name a file or a block device, as in \"/var/lib/postgresql/flash\" or \"/dev/nvme0n1p3\".");
		return false;
	}
	if (stat(*new, &about) == 0 && !S_ISREG(about.st_mode) && !S_ISBLK(about.st_mode))
	{
		GUC_check_errdetail("\"%s\" is neither a file nor a block device.", *new);
		GUC_check_errhint("Name a file or a block device; a file that does not exist is made, with the size of \"entresol.size\".");
		return false;
	}
	return flash_may_be(*new);
}

/* It names the flash that has pages of these files: crates/pg/src/worker.rs makes it. */
#define LABEL_FILE "entresol/label"

/* How many forks of relations may have pages. */
#define OBJECTS_MIN 256
#define OBJECTS_USUAL 65536
/* Less has no room for a cache of any kind: with the fewest forks, and with the usual number. */
#define SIZE_MIN_MB 15
#define SIZE_MIN_USUAL_MB 31

#define MB ((uint64) 1024 * 1024)

static bool
check_size(int *new, void **extra, GucSource source)
{
	if (decides() && (uint64) *new * MB > door_options.max_bytes)
	{
		GUC_check_errdetail("The server has reserved memory for a cache of %llu MB.",
							(unsigned long long) (door_options.max_bytes / MB));
		GUC_check_errhint("Set \"entresol.max_size\" to %d MB or more, and restart the server.", *new);
		return false;
	}
	if (*new == 0 || *new >= SIZE_MIN_MB)
		return true;
	GUC_check_errdetail("%d MB are too small for a cache.", *new);
	GUC_check_errhint("Choose %d MB or more, with \"entresol.objects\" lowered to %d; with the usual %d forks of relations it is %d MB. 0 is all of a file or block device that exists.",
					  SIZE_MIN_MB, OBJECTS_MIN, OBJECTS_USUAL, SIZE_MIN_USUAL_MB);
	return false;
}

static bool
check_writes_per_day(char **new, void **extra, GucSource source)
{
	if (ent_check_writes_per_day(*new) == ENT_DONE)
		return true;
	GUC_check_errdetail("%s.", door_error());
	return false;
}

static void
define_settings(void)
{
	DefineCustomStringVariable("entresol.flash",
							   "File or block device of the flash cache.",
							   "Empty: there is no cache. A file is made if it does not exist.",
							   &flash, "", PGC_SIGHUP, 0, check_flash, NULL, NULL);
	DefineCustomIntVariable("entresol.size",
							"Size of the flash cache.",
							"0: all of the file or block device, which must exist then.",
							&size_mb, 0, 0, INT_MAX, PGC_SIGHUP, GUC_UNIT_MB, check_size, NULL, NULL);
	DefineCustomIntVariable("entresol.max_size",
							"Size that the flash cache may have until the next start.",
							"Memory for it is reserved at the start. 0: the size at the start.",
							&max_size_mb, 0, 0, INT_MAX, PGC_POSTMASTER, GUC_UNIT_MB, NULL, NULL, NULL);
	DefineCustomEnumVariable("entresol.policy",
							 "Policy of the flash cache.",
							 "\"face\": first in, first out; \"face-gr\": by groups; \"face-gsc\": with second chances; \"reuse\": changed pages, and those that are likely to be read again.",
							 &policy, 2, policies, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("entresol.mode",
							 "Whether the cache may be newer than the files of the cluster.",
							 "\"write-back\": it may, and the cluster needs its flash; \"write-through\": it is not, and a loss of the flash loses nothing.",
							 &mode, 0, modes, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("entresol.flash_loss",
							 "What a loss of the flash means in write-back mode.",
							 "\"fatal\": the cluster is lost; \"survive\": so much WAL is kept that it replaces the flash.",
							 &flash_loss, 1, losses, PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("entresol.wal_keep_size",
							"How much WAL is kept for the loss of the flash.",
							"Pages whose changes are older are written to their files. The less, the more often.",
							&door_wal_keep_mb, 16 * 1024, 64, INT_MAX, PGC_SIGHUP, GUC_UNIT_MB, NULL, NULL, NULL);
	DefineCustomIntVariable("entresol.objects",
							"Forks of relations that may have pages in the cache at a time.",
							"A table has three, an index one or two. Each takes about 60 bytes of memory.",
							&objects, OBJECTS_USUAL, OBJECTS_MIN, 1 << 22, PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("entresol.workers",
							"Threads that write pages from the cache to the files of the cluster.",
							NULL,
							&workers, 32, 1, 64, PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomStringVariable("entresol.writes_per_day",
							   "How much may be written to the flash in a day.",
							   "\"unlimited\", device writes such as \"0.5x\", or bytes such as \"200G\".",
							   &door_writes_per_day, "unlimited", PGC_SIGHUP, 0, check_writes_per_day, NULL, NULL);
	DefineCustomBoolVariable("entresol.drain_at_shutdown",
							 "Writes all dirty pages of the cache to their files at shutdown.",
							 "The cluster does not need its flash then, until it is started again.",
							 &drain_at_shutdown, false, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("entresol.manifest_every",
							"Time between two manifests of the pages in the cache.",
							"Pages that the last one names are read into the cache at the start, as it has room. 0: none are written.",
							&door_manifest_every, 0, 0, INT_MAX / 1000, PGC_POSTMASTER, GUC_UNIT_S, NULL, NULL, NULL);
	DefineCustomIntVariable("entresol.statements",
							"Statements in entresol_stat_statements.",
							"0: there are none. They are told apart by their query identifiers (compute_query_id).",
							&door_statements, 1000, 0, 1 << 20, PGC_POSTMASTER, 0, NULL, NULL, NULL);
	MarkGUCPrefixReserved("entresol");
}

/* Whether the settings name a flash. */
bool
door_names_flash(void)
{
	return flash[0] != '\0';
}

/* The settings as they were read last. The strings stay until they are read again. */
EntOptions
door_wanted(void)
{
	EntOptions	wanted = door_options;

	wanted.flash = flash;
	wanted.policy = policies[policy].name;
	wanted.mode = modes[mode].name;
	wanted.writes_per_day = door_writes_per_day;
	wanted.flash_bytes = (uint64) size_mb * MB;
	return wanted;
}

/* The cache as it is. */
EntNow
door_now(void)
{
	EntNow		now = {0};

	(void) ent_now(&door_options, door_memory, door_memory_bytes, &now);
	return now;
}

/*
 * How much memory a cache needs. If the flash is lost, its size may not be known: then of the smallest cache. A larger
 * one may be named after the next restart.
 */
static bool
plan_memory(void)
{
	if (ent_plan(&door_options, &door_memory_bytes) == ENT_DONE)
		return true;
	if (door_options.flash_bytes != 0 || access(DOOR_LOST_SIGNAL, F_OK) != 0)
		return false;
	for (uint64 bytes = SIZE_MIN_MB * MB; bytes < (uint64) 1 << 40; bytes *= 2)
	{
		door_options.flash_bytes = bytes;
		if (ent_plan(&door_options, &door_memory_bytes) == ENT_DONE)
			return true;
	}
	return false;
}

static void
request_memory(void)
{
	if (previous_request)
		previous_request();

	door_survives = flash_loss == 1;
	/* Without a flash, memory is reserved for one that is named later. */
	door_options = (EntOptions) {
		.flash = door_names_flash() ? MemoryContextStrdup(TopMemoryContext, flash) : "none",
		.data = DataDir,
		.version_folder = TABLESPACE_VERSION_DIRECTORY,
		.policy = policies[policy].name,
		.mode = modes[mode].name,
		.writes_per_day = MemoryContextStrdup(TopMemoryContext, door_writes_per_day),
		.flash_bytes = (uint64) (door_names_flash() ? size_mb : max_size_mb) * MB,
		.max_bytes = (uint64) max_size_mb * MB,
		.objects = objects,
		.processes = MaxBackends + NUM_AUXILIARY_PROCS + SPARE_PROCESSES,
		.workers = workers,
		.checksums = DataChecksumsEnabled(),
		.survives = door_survives,
	};
	if (!plan_memory())
		ereport(FATAL,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("the flash cache \"%s\" cannot be used", flash),
				 errdetail("%s.", door_error()),
				 errhint("Check the settings \"entresol.flash\", \"entresol.size\" and \"entresol.objects\".")));
	door_options.max_bytes = Max(door_options.max_bytes, door_options.flash_bytes);
	RequestNamedLWLockTranche("entresol", 2);
	RequestAddinShmemSpace(sizeof(DoorShared));
	RequestAddinShmemSpace(door_memory_bytes);
	RequestAddinShmemSpace(mul_size(sizeof(DoorLeader), door_options.processes));
	RequestAddinShmemSpace(door_statements_bytes());
}

static void
set_up_memory(void)
{
	bool		found;
	Size		bytes;

	if (previous_startup)
		previous_startup();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	door = ShmemInitStruct("entresol", sizeof(DoorShared), &found);
	if (!found)
	{
		memset(door, 0, sizeof(DoorShared));
		pg_atomic_init_u32(&door->state, DOOR_NEW);
		pg_atomic_init_u32(&door->worker, 0);
		pg_atomic_init_u32(&door->through, mode == 1);
		pg_atomic_init_u32(&door->change, DOOR_RESTS);
		pg_atomic_init_u64(&door->redo_asked, 0);
		pg_atomic_init_u64(&door->settled, 0);
		pg_atomic_init_u32(&door->kept_count, 0);
		pg_atomic_init_u32(&door->kept_places, 0);
		door->kept_lock = &GetNamedLWLockTranche("entresol")[0].lock;
		door->statements_lock = &GetNamedLWLockTranche("entresol")[1].lock;
		pg_atomic_init_u64(&door->statements_clock, 0);
		SpinLockInit(&door->log_lock);
		pg_atomic_init_u64(&door->log_answered, 0);
		pg_atomic_init_u64(&door->log_safe, 0);
		pg_atomic_init_u64(&door->log_kept_from, 0);
		pg_atomic_init_u64(&door->log_horizon, 0);
		pg_atomic_init_u64(&door->log_pages, 0);
		pg_atomic_init_u64(&door->handed_down, 0);
		door_load_kept();
	}
	/* New memory is zeros. What the cache does not need is not touched: more may be reserved. */
	door_memory = ShmemInitStruct("entresol cache", door_memory_bytes, &found);
	bytes = mul_size(sizeof(DoorLeader), door_options.processes);
	door_leaders = ShmemInitStruct("entresol leaders", bytes, &found);
	/* Zeros are DSM_HANDLE_INVALID. */
	if (!found)
		memset((void *) door_leaders, 0, bytes);
	door_make_statements();
	LWLockRelease(AddinShmemInitLock);

	flash_cache = &door_routine;
}

static const char *const settings[] = {
	"entresol.flash", "entresol.size", "entresol.policy", "entresol.mode", "entresol.objects",
	"entresol.workers", "entresol.writes_per_day", "entresol.drain_at_shutdown", "entresol.statements",
	"entresol.manifest_every", "entresol.max_size", "entresol.flash_loss", "entresol.wal_keep_size",
};

/* Whether pg_control says that the cache may have pages that are newer than the files. */
static bool
is_needed(void)
{
	bool		crc_ok;
	ControlFileData *control = get_controlfile(DataDir, &crc_ok);
	bool		needed = crc_ok && (control->pg_control_version & PG_CONTROL_CACHE_BIT) != 0;

	pfree(control);
	return needed;
}

/*
 * Whether there is to be a cache.
 *
 * pg_upgrade starts the new server in binary upgrade mode, replaces its files by name, and calls pg_resetwal. So
 * nothing is cached then. A cache that the cluster needs is opened, to be drained before anything else: see
 * startup(). What another flash knows of the files is void.
 *
 * A single-user server opens the cache itself if the cluster needs it, and drains it at its end. Without a flash
 * the cluster is refused if it needs its cache.
 */
static bool
is_wanted(void)
{
	bool		needed = is_needed();
	bool		is_lost = needed && access(DOOR_LOST_SIGNAL, F_OK) == 0;
	bool		has_flash = door_names_flash();
	bool		is_possible = (has_flash || max_size_mb > 0 || is_lost) && (IsPostmasterEnvironment || needed);
	const char *lost = needed && !has_flash ? door_hint_of_loss() : NULL;

	if (needed && !has_flash && !is_lost)
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("database cluster needs its flash cache"),
				 errdetail("The cache may have pages that are newer than the files of the cluster."),
				 errhint("Set \"entresol.flash\" to the flash that the cluster had before. To be without it, set \"entresol.drain_at_shutdown\" to on, start the server with its flash, and stop it.%s%s",
						 lost ? " " : "", lost ? lost : "")));
	if (!is_possible || !IsBinaryUpgrade || needed)
		return is_possible;
	if (unlink(LABEL_FILE) != 0 && errno != ENOENT)
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not remove file \"%s\": %m", LABEL_FILE)));
	return false;
}

void
_PG_init(void)
{
	bool		given[lengthof(settings)];

	StaticAssertStmt(BLCKSZ == ENT_PAGE_BYTES, "pages have 8 KiB");

	if (!process_shared_preload_libraries_in_progress)
		return;
	/* The magic block does not tell. */
	if (strtol(GetConfigOption("block_size", false, false), NULL, 10) != ENT_PAGE_BYTES)
		ereport(FATAL,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the flash cache is for pages of %d bytes, this server has pages of %s bytes",
						ENT_PAGE_BYTES, GetConfigOption("block_size", false, false)),
				 errhint("Remove \"entresol\" from \"shared_preload_libraries\", or use a server that was configured with a block size of 8 kB.")));
	if (&flash_cache == NULL || SetControlFileCacheBit == NULL || FlashCachePullVictims == NULL)
		ereport(FATAL,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("this server has no hooks for a flash cache"),
				 errhint("Remove \"entresol\" from \"shared_preload_libraries\", or start a server that was built with the patches of Entresol.")));
	for (int i = 0; i < lengthof(settings); i++)
		given[i] = find_option(settings[i], false, true, DEBUG5) != NULL;
	define_settings();
	/* The server itself only warns, and goes on with the default: not with somebody's data. */
	for (int i = 0; i < lengthof(settings); i++)
	{
		if (given[i] && find_option(settings[i], false, true, DEBUG5)->source == PGC_S_DEFAULT)
			ereport(FATAL,
					(errcode(ERRCODE_CONFIG_FILE_ERROR),
					 errmsg("the value of \"%s\" is not possible", settings[i]),
					 errhint("The warning before this says why.")));
	}

	door_watch_marks();
	explain_flash();

	if (!is_wanted())
		return;
	previous_request = shmem_request_hook;
	shmem_request_hook = request_memory;
	previous_startup = shmem_startup_hook;
	shmem_startup_hook = set_up_memory;
	door_watch_statements();
	door_register_worker();
	door_register_warmer();
}
