//! Notes of pages that are durable in their files, by which a restart leaves out their changes.
//!
//! Redo restores each full-page image since the last checkpoint, and replays the records after it, since a
//! page in a file may be torn, or not durable. The cache knows better of pages that it wrote to their files:
//! such a page is synced before the cache drops its copy. So the worker notes the page and its LSN in a file
//! of the cluster, and redo leaves out all changes up to this LSN without reading the page.
//!
//! A note says: the file has the block's version with this LSN, durably and whole, or the cache has a newer
//! one.
//!
//! Invariants:
//!
//! 1. A page is noted after a sync that began when its write had completed, from a slot whose copy is
//!    durable. A later destage may tear the page in a crash; but the cache keeps its copy until the next
//!    sync, and after the crash its copy is the newest.
//! 2. Before a process writes a block of a fork with notes past the cache, all notes are durably void
//!    ([`make_void`]): a crash may tear that write, of which there is no other copy. New ones are taken
//!    from the next checkpoint on.
//! 3. Redo may give a page an older version again. So notes are read once and removed durably, before redo
//!    begins, and new ones are taken when it is over ([`Notes::begin`]). Within one redo, a note ends when
//!    a change of its page is not left out, or its block is dropped ([`Known`]).
//! 4. They are used only where the cluster needs its flash, and begins redo at its own checkpoint: not in a
//!    copy of it, whose pages were copied one by one.
//!
//! Two files: `notes` has those since the last checkpoint, `notes.before` those of the time before. The redo
//! pointer of a checkpoint precedes its call here, so both are needed until the next one.

mod known;
mod record;

pub(crate) use known::Known;

use entresol_runtime::sync::{Mutex, Rank, TinyMutex};
use entresol_runtime::{Time, now};
pub(crate) use record::Note;
use record::{RECORD_NOTES, begin, encode};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tracing::warn;

/// Notes that a file may have: beyond that, pages are not noted before the next checkpoint.
const NOTES_MAX: u64 = 1 << 20;
/// A power failure loses the notes of so long a time, and file systems keep them in memory for longer.
const SYNC_EVERY: Duration = Duration::from_secs(5);

/// In shared memory. Zeros: no notes are taken.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct NotesBoard {
    /// Number of the file that takes notes; 0: none does.
    open: AtomicU64,
    /// The REDO pointers of the last checkpoint that was complete when the last one came here, and of that.
    done: AtomicU64,
    begun: AtomicU64,
}

impl NotesBoard {
    /// A checkpoint has written its buffers: see [`crate::front::checkpoint`].
    pub fn checkpoint(&self, done: u64, redo: u64) {
        self.done.store(done, SeqCst);
        self.begun.store(redo, SeqCst);
    }
}

/// Number of the last file with notes of a fork's pages; 0: none. In shared memory, one for each object: if
/// its number becomes another fork's, that one's writes make notes void for nothing, once.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct Noted(AtomicU64);

impl Noted {
    /// Pages of the fork may be noted in this file from now on.
    fn enters(&self, file: u64) {
        if self.0.load(SeqCst) < file {
            // Never back: another task may have seen a later file meanwhile.
            self.0.fetch_max(file, SeqCst);
        }
    }

    /// Whether there may be notes of it while file `open` takes notes: there, or in the file before.
    fn is_in(&self, open: u64) -> bool {
        let noted = self.0.load(SeqCst);
        noted != 0 && noted + 1 >= open
    }
}

/// The files, and the lock by which they are opened and removed.
struct Files {
    folder: PathBuf,
}

impl Files {
    fn now(&self) -> PathBuf {
        self.folder.join("notes")
    }

    fn before(&self) -> PathBuf {
        self.folder.join("notes.before")
    }

    /// Locks out other processes, until the file is closed.
    fn lock(&self) -> io::Result<File> {
        let folder = File::open(&self.folder)?;
        folder.lock()?;
        Ok(folder)
    }

    /// Removes both, durably. `folder`: locked.
    fn remove(&self, folder: &File) -> io::Result<()> {
        let mut removed = false;
        for file in [self.now(), self.before()] {
            match fs::remove_file(file) {
                Ok(()) => removed = true,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        if removed { folder.sync_all() } else { Ok(()) }
    }

    /// Removes both, durably, if another process has not done so.
    fn make_void(&self, board: &NotesBoard) -> io::Result<()> {
        let folder = self.lock()?;
        if board.open.load(SeqCst) != 0 {
            self.remove(&folder)?;
            board.open.store(0, SeqCst);
        }
        Ok(())
    }
}

/// Removes the notes in this folder, durably. No process takes any.
///
/// # Errors
/// The system's.
pub(crate) fn remove(folder: &Path) -> io::Result<()> {
    let files = Files { folder: folder.to_owned() };
    files.remove(&files.lock()?)
}

/// The file that takes notes.
struct Open {
    file: Arc<File>,
    number: u64,
    /// See [`record`].
    salt: u64,
    /// When it was synced.
    synced: Time,
    /// Bytes written.
    end: u64,
    notes: u64,
}

/// A page that was written to its file, and the number of the file that may take its note.
struct Written {
    note: Note,
    number: u64,
}

/// In the worker: what takes notes.
pub(crate) struct Notes {
    files: Files,
    board: &'static NotesBoard,
    written: TinyMutex<Vec<Written>>,
    open: Mutex<Taking>,
}

#[derive(Default)]
struct Taking {
    /// They are taken, or will be from the next checkpoint on.
    is_wanted: bool,
    open: Option<Open>,
    /// The last number given to a file.
    last: u64,
    /// The REDO pointer of the checkpoint at which the file was opened.
    since: u64,
}

impl Notes {
    /// Notes in `folder`.
    pub fn new(folder: PathBuf, board: &'static NotesBoard) -> Self {
        Self {
            files: Files { folder },
            board,
            written: TinyMutex::new(Rank::DurableNotes, Vec::new()),
            open: Mutex::new(Rank::RelationNotes, Taking::default()),
        }
    }

    /// Redo is over: notes are taken from now on.
    pub fn begin(&self) {
        let mut taking = self.open.lock();
        taking.is_wanted = true;
        self.open_next(&mut taking);
    }

    /// No notes are taken any more, and those there are are void.
    pub fn end(&self) {
        let mut taking = self.open.lock();
        (taking.is_wanted, taking.open) = (false, None);
        if let Err(error) = self.files.make_void(self.board) {
            let folder = self.files.folder.display();
            warn!(
                "notes in \"{folder}\" cannot be removed: {error}; remove them before the server is started again"
            );
        }
    }

    /// Begins a new file, if there was a checkpoint.
    pub fn tick(&self) {
        let begun = self.board.begun.load(SeqCst);
        let mut taking = self.open.lock();
        // Notes since an earlier checkpoint are needed as long as no later one is complete.
        if taking.is_wanted && begun > taking.since && self.board.done.load(SeqCst) >= taking.since {
            self.open_next(&mut taking);
        }
    }

    /// A page of `fork` is about to be written to its file. To be asked before that: the number of the file
    /// that may take a note of it, or 0.
    pub fn number(&self, noted: Option<&Noted>) -> u64 {
        let (number, Some(noted)) = (self.board.open.load(SeqCst), noted) else { return 0 };
        if number != 0 {
            noted.enters(number);
        }
        number
    }

    /// Pages were written, and a sync from now on makes them durable.
    pub fn written(&self, notes: Vec<Note>, number: u64) {
        if number == 0 {
            return;
        }
        // Redo begins later than the last checkpoint says. A page without an LSN is not redone.
        let least = self.board.done.load(SeqCst).max(1);
        let notes = notes.into_iter().filter(|note| note.lsn >= least);
        self.written.lock().extend(notes.map(|note| Written { note, number }));
    }

    /// Calls `sync`, and notes the pages written before it. Pages that another task has taken are noted by
    /// it.
    ///
    /// # Errors
    /// Those of `sync`.
    pub fn synced<E>(&self, sync: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let written = std::mem::take(&mut *self.written.lock());
        sync()?;
        if !written.is_empty() {
            self.append(&written);
        }
        Ok(())
    }

    fn append(&self, written: &[Written]) {
        let mut taking = self.open.lock();
        let Some(open) = &mut taking.open else { return };
        let notes: Vec<Note> = written
            .iter()
            .filter(|written| written.number == open.number)
            .map(|written| written.note)
            .collect();
        if notes.is_empty() || open.notes + notes.len() as u64 > NOTES_MAX {
            return;
        }
        let mut bytes = Vec::new();
        notes.chunks(RECORD_NOTES).for_each(|notes| encode(open.salt, notes, &mut bytes));
        let is_written = open.file.write_all_at(&bytes, open.end);
        open.end += bytes.len() as u64;
        open.notes += notes.len() as u64;
        let time = now();
        let due = (time.since(open.synced) >= SYNC_EVERY).then(|| {
            open.synced = time;
            open.file.clone()
        });
        if is_written.is_err() {
            taking.open = None;
        }
        drop(taking);
        // Those taken so far are as right as before.
        if let Err(error) = is_written.and_then(|()| due.map_or(Ok(()), |file| file.sync_data())) {
            warn!("\"{}\" cannot be written: {error}; a restart will redo more", self.files.now().display());
        }
    }

    /// Opens the next file; earlier notes stay in the other one. If that fails, no notes are taken until the
    /// next checkpoint.
    fn open_next(&self, taking: &mut Taking) {
        taking.since = self.board.begun.load(SeqCst);
        let opened = self.try_open(taking);
        if let Err(error) = opened {
            taking.open = None;
            let folder = self.files.folder.display();
            warn!("no notes can be taken in \"{folder}\": {error}; a restart will redo more");
        }
    }

    fn try_open(&self, taking: &mut Taking) -> io::Result<()> {
        let folder = self.files.lock()?;
        match fs::rename(self.files.now(), self.files.before()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(self.files.now())?;
        let salt = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        let head = begin(salt);
        file.write_all_at(&head, 0)?;
        file.sync_all()?;
        // Older notes are durably removed before they are no longer maintained: see `Noted::is_in`.
        folder.sync_all()?;
        let is_void = self.board.open.load(SeqCst) == 0;
        // After a void, all earlier numbers are of the past.
        taking.last += if is_void { 2 } else { 1 };
        let end = head.len() as u64;
        taking.open =
            Some(Open { file: Arc::new(file), number: taking.last, salt, synced: now(), end, notes: 0 });
        self.board.open.store(taking.last, SeqCst);
        Ok(())
    }
}

/// In a process that is about to write blocks of a fork past the cache, which has no copy of them any more:
/// makes notes void if there may be any of the fork. A crash may tear these blocks.
///
/// # Errors
/// They may not be void: nothing may be written.
pub(crate) fn make_void(folder: &Path, board: &NotesBoard, noted: &Noted) -> io::Result<()> {
    let open = board.open.load(SeqCst);
    if open == 0 || !noted.is_in(open) {
        return Ok(());
    }
    Files { folder: folder.to_owned() }.make_void(board)
}

#[cfg(test)]
mod tests;
