/*
 * The set of files whose pages are kept out of the cache.
 *
 * Which relations are kept out is said by marks in the catalogs (marks.c). The hooks know a relation by its
 * file, and the processes that write most pages read no catalogs. So the files of marked relations are in a
 * set in shared memory:
 *
 * 1. A file enters when its relation is marked, or when it is made for a relation that is marked.
 * 2. It is removed when it is unlinked: by a commit, by an abort, of a prepared transaction, or by redo.
 * 3. When its relation loses the mark, dirty pages may enter the cache at once. Clean ones may when the file is
 *	  durable, see door_kept_at_checkpoint().
 *
 * Rules 1 and 3 are also notes in the log, and each checkpoint logs the whole set, so that redo has the set of
 * the moment: after a crash, on a standby, and in a backup. The notes are XLOG_NOOP records, which a stock server
 * skips. The set is saved in a file beside the label at each checkpoint, for the next start. A line of it is
 *
 *	   <database> <tablespace> <relation's file number> <relation's OID> <transaction> <leaving>
 *
 * What the set lacks, or has without need, is put right when a transaction compares it with the marks. Nothing
 * but speed depends on that, but for rule 3.
 */
#include "door.h"

#include <fcntl.h>
#include <unistd.h>

#include "access/xlog.h"
#include "access/xloginsert.h"
#include "catalog/pg_control.h"
#include "common/file_perm.h"
#include "storage/fd.h"

#define KEPT_FILE "entresol/kept_out"

/* A note in the log: this, and then "n" files. */
#define NOTE_MAGIC "entresol kept 1"

typedef enum NoteKind
{
	NOTE_KEEP = 1,				/* the files are kept out from now on */
	NOTE_LET_IN,				/* they are on their way out of the set */
	NOTE_ALL,					/* this is the set */
} NoteKind;

typedef struct Note
{
	char		magic[sizeof(NOTE_MAGIC)];
	uint32		kind;
	uint32		n;
} Note;

/* Raises no error, and may be called under "kept_lock": what is logged has the order of the changes. */
static void
log_note(NoteKind kind, const KeptFile *files, uint32 n)
{
	Note		note = {.magic = NOTE_MAGIC, .kind = kind, .n = n};

	if (!XLogInsertAllowed())
		return;
	XLogBeginInsert();
	XLogSetRecordFlags(XLOG_MARK_UNIMPORTANT);
	XLogRegisterData((char *) &note, sizeof(note));
	if (n > 0)
		XLogRegisterData((char *) files, n * sizeof(KeptFile));
	(void) XLogInsert(RM_XLOG_ID, XLOG_NOOP);
}

/* The place of a file. Without the lock it may be free the next moment. NULL: it is not in the set. */
static KeptFile *
find(RelFileLocator locator)
{
	uint32		places = pg_atomic_read_u32(&door->kept_places);

	for (uint32 at = 0; at < places; at++)
	{
		if (RelFileLocatorEquals(door->kept[at].locator, locator))
			return &door->kept[at];
	}
	return NULL;
}

Kept
door_find_kept(RelFileLocator rlocator)
{
	const KeptFile *file = find(rlocator);

	if (file == NULL)
		return KEPT_NOT;
	return file->leaving == KEPT_STAYS ? KEPT_OUT : KEPT_CLEAN;
}

/* The caller has the lock, as of the next ones. False: there is no room. */
static bool
add(const KeptFile *new)
{
	uint32		places = pg_atomic_read_u32(&door->kept_places);
	uint32		at = 0;
	KeptFile   *file;

	while (at < places && door->kept[at].locator.relNumber != InvalidRelFileNumber)
		at++;
	if (at == KEPT_MAX)
		return false;
	file = &door->kept[at];
	file->locator.spcOid = new->locator.spcOid;
	file->locator.dbOid = new->locator.dbOid;
	file->relid = new->relid;
	file->xid = new->xid;
	file->leaving = new->leaving;
	file->redo = new->redo;
	pg_write_barrier();
	file->locator.relNumber = new->locator.relNumber;
	if (at == places)
		pg_atomic_write_u32(&door->kept_places, places + 1);
	pg_atomic_fetch_add_u32(&door->kept_count, 1);
	door->kept_changed = true;
	return true;
}

static void
remove_file(KeptFile *file)
{
	uint32		places = pg_atomic_read_u32(&door->kept_places);

	file->locator.relNumber = InvalidRelFileNumber;
	while (places > 0 && door->kept[places - 1].locator.relNumber == InvalidRelFileNumber)
		places--;
	pg_atomic_write_u32(&door->kept_places, places);
	pg_atomic_fetch_sub_u32(&door->kept_count, 1);
	door->kept_changed = true;
}

static void
keep_file(KeptFile *file, TransactionId xid)
{
	file->leaving = KEPT_STAYS;
	file->xid = xid;
	door->kept_changed = true;
}

static void
let_file_in(KeptFile *file, TransactionId xid)
{
	/* Nothing in the cache is newer than the files: see write_through(). */
	if (door_is_through)
	{
		remove_file(file);
		return;
	}
	if (file->leaving == KEPT_STAYS)
		file->leaving = KEPT_LEAVES;
	file->xid = xid;
	door->kept_changed = true;
}

/*
 * Keeps a file out. False: there is no room, of a new mark also if only rewrites have some left. (A transaction
 * that is not done may have taken it: the caller says so.)
 */
bool
door_keep(RelFileLocator rlocator, Oid relid, TransactionId xid, bool is_mark)
{
	KeptFile	new = {.locator = rlocator, .relid = relid, .xid = xid};
	KeptFile   *file;
	bool		has_room = true;

	LWLockAcquire(door->kept_lock, LW_EXCLUSIVE);
	file = find(rlocator);
	if (file)
		keep_file(file, xid);
	else if (is_mark && pg_atomic_read_u32(&door->kept_count) >= KEPT_MARKS_MAX)
		has_room = false;
	else
		has_room = add(&new);
	if (has_room)
		log_note(NOTE_KEEP, &new, 1);
	LWLockRelease(door->kept_lock);
	return has_room;
}

/* The file's relation is not marked any more. */
void
door_let_in(RelFileLocator rlocator, TransactionId xid)
{
	KeptFile	old = {.locator = rlocator, .xid = xid, .leaving = KEPT_LEAVES};
	KeptFile   *file;

	LWLockAcquire(door->kept_lock, LW_EXCLUSIVE);
	file = find(rlocator);
	if (file)
	{
		let_file_in(file, xid);
		log_note(NOTE_LET_IN, &old, 1);
	}
	LWLockRelease(door->kept_lock);
}

/* Reads the files one by one: from place *at on, which is moved. False: there are no more. */
bool
door_read_kept(uint32 *at, KeptFile *file)
{
	bool		found = false;

	LWLockAcquire(door->kept_lock, LW_SHARED);
	while (!found && *at < pg_atomic_read_u32(&door->kept_places))
	{
		*file = door->kept[(*at)++];
		found = file->locator.relNumber != InvalidRelFileNumber;
	}
	LWLockRelease(door->kept_lock);
	return found;
}

/*
 * A file was looked at. KEPT_NOT: no relation has it, and none will. KEPT_CLEAN: its relation is not marked. If
 * it was changed since it was read, nothing is done.
 */
void
door_settle_kept(const KeptFile *as_read, Kept now)
{
	KeptFile   *file;

	LWLockAcquire(door->kept_lock, LW_EXCLUSIVE);
	file = find(as_read->locator);
	if (file && file->xid == as_read->xid && file->leaving == as_read->leaving)
	{
		if (now == KEPT_NOT)
			remove_file(file);
		else if (now == KEPT_CLEAN && file->leaving == KEPT_STAYS)
		{
			let_file_in(file, InvalidTransactionId);
			log_note(NOTE_LET_IN, as_read, 1);
		}
		else
			file->xid = InvalidTransactionId;
	}
	LWLockRelease(door->kept_lock);
}

/* Writes "text" to the file. Raises no error: it may be called when a transaction has committed. */
static void
write_file(const char *text, int length)
{
	static const char temporary[] = KEPT_FILE ".new";
	int			fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC, pg_file_create_mode);
	bool		written = fd >= 0 && write(fd, text, length) == length;

	if (fd >= 0 && close(fd) != 0)
		written = false;
	if (!written)
		ereport(LOG, (errcode_for_file_access(), errmsg("could not write file \"%s\": %m", temporary)));
	else
		(void) durable_rename(temporary, KEPT_FILE, LOG);
}

/* The caller has the lock. */
static void
save(void)
{
	char		text[KEPT_MAX * 64];
	int			length = 0;

	for (uint32 at = 0; at < pg_atomic_read_u32(&door->kept_places); at++)
	{
		const KeptFile *file = &door->kept[at];

		if (file->locator.relNumber != InvalidRelFileNumber)
			length += snprintf(text + length, sizeof(text) - length, "%u %u %u %u %u %u\n", file->locator.dbOid,
							   file->locator.spcOid, file->locator.relNumber, file->relid, file->xid,
							   file->leaving);
	}
	write_file(text, length);
	door->kept_changed = false;
}

void
door_save_kept(void)
{
	LWLockAcquire(door->kept_lock, LW_EXCLUSIVE);
	if (door->kept_changed)
		save();
	LWLockRelease(door->kept_lock);
}

/* In the postmaster, for new shared memory. */
void
door_load_kept(void)
{
	FILE	   *stored = AllocateFile(KEPT_FILE, "r");
	char		line[128];

	if (stored == NULL)
	{
		if (errno != ENOENT)
			ereport(WARNING,
					(errcode_for_file_access(),
					 errmsg("could not open file \"%s\": %m", KEPT_FILE),
					 errdetail("Until a session has looked at its database's marks, all relations enter the flash cache.")));
		return;
	}
	while (fgets(line, sizeof(line), stored))
	{
		KeptFile	file = {0};

		if (sscanf(line, "%u %u %u %u %u %u", &file.locator.dbOid, &file.locator.spcOid, &file.locator.relNumber,
				   &file.relid, &file.xid, &file.leaving) != 6)
			continue;
		/* Which checkpoints were complete is not known. */
		if (file.leaving != KEPT_STAYS)
			file.leaving = KEPT_LEAVES;
		(void) add(&file);
	}
	FreeFile(stored);
	door->kept_changed = false;
}

/* A relation's files are unlinked. May be called when a transaction has committed, or has aborted. */
void
door_file_is_gone(RelFileLocator rlocator)
{
	KeptFile   *file;

	if (door_kept(rlocator) == KEPT_NOT)
		return;
	LWLockAcquire(door->kept_lock, LW_EXCLUSIVE);
	file = find(rlocator);
	if (file)
		remove_file(file);
	LWLockRelease(door->kept_lock);
}

/* A database's files are removed, in one tablespace, or in all with InvalidOid. */
void
door_database_is_gone(Oid dbid, Oid spcid)
{
	LWLockAcquire(door->kept_lock, LW_EXCLUSIVE);
	for (uint32 at = pg_atomic_read_u32(&door->kept_places); at-- > 0;)
	{
		KeptFile   *file = &door->kept[at];

		if (file->locator.relNumber != InvalidRelFileNumber && file->locator.dbOid == dbid &&
			(!OidIsValid(spcid) || file->locator.spcOid == spcid))
			remove_file(file);
	}
	/* It may only have been moved. */
	door->compared[dbid % KEPT_COMPARED] = InvalidOid;
	LWLockRelease(door->kept_lock);
}

/*
 * A checkpoint has written its buffers, and will sync files.
 *
 * A file that leaves the set may have pages that were written past the cache, and are not synced. 1. Such a page
 * is evicted as clean, and enters the cache. 2. Power fails. 3. Redo finds the page up to date in the cache, and
 * leaves it clean; the file has the older version for good. So clean pages stay out until the file is durable.
 * What was written, or was about to be, at one checkpoint is durable when the next one is complete: see
 * crates/pg/src/budget.rs.
 *
 * The checkpoint that a shutdown or the end of recovery makes may log nothing.
 */
void
door_kept_at_checkpoint(XLogRecPtr redo, int flags)
{
	KeptFile	all[KEPT_MAX];
	uint32		n = 0;
	XLogRecPtr	done = pg_atomic_read_u32(&door->kept_count) > 0 ? door_redo(NULL) : InvalidXLogRecPtr;

	LWLockAcquire(door->kept_lock, LW_EXCLUSIVE);
	for (uint32 at = pg_atomic_read_u32(&door->kept_places); at-- > 0;)
	{
		KeptFile   *file = &door->kept[at];

		if (file->locator.relNumber == InvalidRelFileNumber)
			continue;
		if (file->leaving == KEPT_LEAVES_LAST && done >= file->redo)
		{
			remove_file(file);
			continue;
		}
		if (file->leaving != KEPT_STAYS && file->leaving != KEPT_LEAVES_LAST)
			file->leaving++;
		if (file->leaving == KEPT_LEAVES_LAST)
			file->redo = redo;
		all[n++] = *file;
	}
	if (n + door->kept_logged > 0 && (flags & (CHECKPOINT_IS_SHUTDOWN | CHECKPOINT_END_OF_RECOVERY)) == 0)
	{
		log_note(NOTE_ALL, all, n);
		door->kept_logged = n;
	}
	if (door->kept_changed)
		save();
	/* What is not right, a session finds out now and then. */
	memset(door->compared, 0, sizeof(door->compared));
	LWLockRelease(door->kept_lock);
}

/* In redo: a file in a note is kept out, or is on its way out. The caller has the lock. */
static void
redo_file(const KeptFile *noted)
{
	KeptFile   *file = find(noted->locator);
	bool		is_kept = noted->leaving == KEPT_STAYS;

	if (file == NULL)
	{
		KeptFile	new = *noted;

		new.leaving = is_kept ? KEPT_STAYS : KEPT_LEAVES;
		new.redo = InvalidXLogRecPtr;
		if ((is_kept || !door_is_through) && !add(&new))
			ereport(LOG,
					(errmsg("no more than %d files can be kept out of the flash cache", KEPT_MAX),
					 errdetail("Pages of a relation that is marked enter it.")));
	}
	else if (is_kept)
		keep_file(file, noted->xid);
	else if (file->leaving == KEPT_STAYS)
		let_file_in(file, noted->xid);
}

/*
 * In redo: the whole set. A file of it that is gone was unlinked by a transaction that had ended, while its
 * process had yet to say so. A file that is not in it is one of an older log: this server was a primary once.
 */
static void
redo_all(const KeptFile *noted, uint32 n)
{
	for (uint32 at = pg_atomic_read_u32(&door->kept_places); at-- > 0;)
	{
		KeptFile   *file = &door->kept[at];
		bool		is_noted = false;

		for (uint32 i = 0; i < n && !is_noted; i++)
			is_noted = RelFileLocatorEquals(noted[i].locator, file->locator);
		if (!is_noted && file->locator.relNumber != InvalidRelFileNumber && file->leaving == KEPT_STAYS)
			let_file_in(file, InvalidTransactionId);
	}
	for (uint32 i = 0; i < n; i++)
	{
		char	   *path = path_of_fork(noted[i].locator, MAIN_FORKNUM);

		if (find(noted[i].locator) || access(path, F_OK) == 0)
			redo_file(&noted[i]);
		pfree(path);
	}
}

/* In the startup process: an XLOG_NOOP record, which may be a note of ours. */
void
door_redo_note(const char *data, Size length)
{
	KeptFile	files[KEPT_MAX];
	Note		note;

	if (length < sizeof(note))
		return;
	memcpy(&note, data, sizeof(note));
	if (memcmp(note.magic, NOTE_MAGIC, sizeof(note.magic)) != 0 || note.n > KEPT_MAX ||
		length != sizeof(note) + note.n * sizeof(KeptFile))
		return;
	memcpy(files, data + sizeof(note), note.n * sizeof(KeptFile));
	LWLockAcquire(door->kept_lock, LW_EXCLUSIVE);
	if (note.kind == NOTE_ALL)
		redo_all(files, note.n);
	else
	{
		for (uint32 i = 0; i < note.n; i++)
			redo_file(&files[i]);
	}
	LWLockRelease(door->kept_lock);
}
