//! Relation files as the home of pages.
//!
//! Threads write them by path. PostgreSQL's storage manager is not used: it is not made for threads, and its
//! syncs are those of the next checkpoint, while a slot on flash is free again as soon as its page is
//! durable.
//!
//! Rules:
//!
//! 1. A file is opened by its path for each batch of pages, and is kept open from then to the next sync only.
//!    So no write is to the file of a dropped relation whose number was given to another one. (The worker
//!    takes no part in the barriers by which PostgreSQL's processes close such files.)
//! 2. A file never grows here. A page past the end of its file is dead, or will be made anew by redo: the
//!    file was shorter when it was last synced, so redo begins before the page was added.
//! 3. A file that is not there was removed: the page is dead. But the folder of its tablespace must be there.
//!    If that is missing, a file system is not mounted: the write waits.
//! 4. A write waits for space. Meanwhile it looks whether the relation is dropped, as DROP TABLE does to make
//!    space: then its pages are dead.
//! 5. A failed sync is final. The kernel may have dropped the writes; the pages are still on flash.

use crate::locator::{Folders, SEGMENT_BLOCKS, fork_of, locator_of};
use crate::memory::{Board, Shared};
use crate::notes::{Note, Notes};
use crate::settings::{LAST_BLOCK, PAGE_BYTES};
use crate::types::EntFork;
use crate::wal::Wal;
use entresol_core::PageId;
use entresol_device::{BusyClock, Device, DeviceError, FileDevice};
use entresol_engine::{Home, Names, OwnersLog};
use entresol_format::PageFormat;
use entresol_objects::ObjectId;
use entresol_runtime::{Time, now, sleep};
use label::LabelFile;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tracing::{error, info, warn};
use unsynced::{Inode, Unsynced};

mod label;
mod unsynced;

/// Pages have their LSN at its place, with checksums or without.
const PAGE_FORMAT: PageFormat = PageFormat::Postgres;
/// Files that may be open, waiting for a sync. Beyond that they are synced at once.
const UNSYNCED_MAX: usize = 256;
/// Between two tries of a write that waits.
const RETRY_EVERY: Duration = Duration::from_millis(500);
/// Between two warnings that it waits.
const WARN_EVERY: Duration = Duration::from_secs(30);

/// See the module's header.
pub(crate) struct RelationFiles {
    folders: Folders,
    label: LabelFile,
    /// Files that were written since the last sync.
    unsynced: Unsynced,
    board: &'static Board,
    /// Writes and syncs here. Reads of the server's processes are not known.
    work: BusyClock,
    /// Notes of durable pages, for the next redo, and of the forks that have notes. `None`: no notes are
    /// taken.
    notes: Option<(Arc<Notes>, Shared)>,
    /// The server's log, which the flash is bound to.
    wal: Option<Wal>,
}

/// Adjacent pages of one file.
struct Run<'a, 'p> {
    fork: EntFork,
    object: ObjectId,
    pages: &'a [(PageId, &'p [u8])],
    /// Of the file that may take notes of them.
    number: u64,
}

/// How a write ended that did not fail for good.
enum Written {
    Done,
    /// For this reason it must wait.
    Waits(String),
}

impl RelationFiles {
    /// The files in `folders`, bound to a flash by the label in `label`.
    pub fn new(folders: Folders, label: FileDevice, board: &'static Board) -> Self {
        Self {
            folders,
            label: LabelFile::new(label),
            unsynced: Unsynced::new(),
            board,
            work: BusyClock::default(),
            notes: None,
            wal: None,
        }
    }

    /// Notes which pages are durable.
    pub fn with_notes(self, notes: Arc<Notes>, memory: Shared) -> Self {
        Self { notes: Some((notes, memory)), ..self }
    }

    /// Binds the flash to the server's log.
    pub fn with_log(self, wal: Option<Wal>) -> Self {
        Self { wal, ..self }
    }

    /// The cache that this process has closed is opened again.
    pub fn continues(&self) {
        self.wal.iter().for_each(Wal::continues);
    }

    /// Adjacent pages that are about to be written.
    fn run<'a, 'p>(&self, fork: EntFork, object: ObjectId, pages: &'a [(PageId, &'p [u8])]) -> Run<'a, 'p> {
        let number = self.notes.as_ref().map_or(0, |(notes, memory)| {
            notes.number(memory.tally(object, &locator_of(&fork)).map(|tally| &tally.noted))
        });
        Run { fork, object, pages, number }
    }

    /// Writes pages of one file, waiting for space if need be.
    fn write_run(&self, run: &Run<'_, '_>, names: &dyn Names) -> Result<(), DeviceError> {
        let path = self.folders.file(&run.fork, run.pages[0].0.number());
        let mut warned: Option<Time> = None;
        loop {
            let why = match self.try_write(run, &path)? {
                Written::Done => break,
                Written::Waits(why) => why,
            };
            if names.locator(run.object).is_none() {
                info!("{}: dropped while a write to it waited", path.display());
                break;
            }
            self.board.space_waits.add(1);
            if warned.is_none_or(|at| now().since(at) >= WARN_EVERY) {
                warn!(
                    "the flash cache cannot write {} pages to \"{}\": {why}; it tries again, and processes that \
                     need room in the cache wait",
                    run.pages.len(),
                    path.display()
                );
                warned = Some(now());
            }
            sleep(RETRY_EVERY);
        }
        if warned.is_some() {
            info!("the flash cache does not wait for \"{}\" any more", path.display());
        }
        Ok(())
    }

    fn try_write(&self, run: &Run<'_, '_>, path: &Path) -> Result<Written, DeviceError> {
        let file = match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let folder = self.folders.tablespace(run.fork.tablespace);
                if !folder.is_dir() {
                    let why = format!("the folder \"{}\" of its tablespace is not there", folder.display());
                    return Ok(Written::Waits(why));
                }
                self.board.no_file.add(run.pages.len() as u64);
                return Ok(Written::Done);
            }
            Err(error) => return Err(failed(path, "open", 0, 0, &error)),
        };
        let about = file.metadata().map_err(|error| failed(path, "open", 0, 0, &error))?;
        let mut notes = Vec::with_capacity(run.pages.len());
        for (page, data) in run.pages {
            let offset = u64::from(page.number() % SEGMENT_BLOCKS) * PAGE_BYTES as u64;
            if offset + data.len() as u64 > about.len() {
                self.board.past_end.add(1);
                continue;
            }
            match file.write_all_at(data, offset) {
                Ok(()) => {
                    notes.push(Note { fork: run.fork, block: page.number(), lsn: PAGE_FORMAT.lsn(data).0 })
                }
                Err(error) if is_out_of_space(&error) => return Ok(Written::Waits(error.to_string())),
                Err(error) => return Err(failed(path, "write", offset, data.len(), &error)),
            }
        }
        self.is_written(file, (about.dev(), about.ino()))?;
        // Only now: a sync that takes them syncs the file.
        if let Some((taken, _)) = &self.notes {
            taken.written(notes, run.number);
        }
        Ok(Written::Done)
    }

    /// The file is to be synced.
    fn is_written(&self, file: File, inode: Inode) -> Result<(), DeviceError> {
        if self.unsynced.add(inode, file) > UNSYNCED_MAX { self.sync_files() } else { Ok(()) }
    }

    fn sync_files(&self) -> Result<(), DeviceError> {
        self.unsynced.sync(|file| {
            self.board.file_syncs.add(1);
            file.sync_data().map_err(|error| {
                error!("a relation file could not be synced: {error}");
                DeviceError::Io {
                    device: "a relation file".to_owned(),
                    operation: "sync",
                    offset: 0,
                    length: 0,
                    reason: error.to_string(),
                }
            })
        })
    }
}

fn is_out_of_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn failed(
    path: &Path,
    operation: &'static str,
    offset: u64,
    length: usize,
    error: &io::Error,
) -> DeviceError {
    DeviceError::Io {
        device: path.display().to_string(),
        operation,
        offset,
        length: length as u64,
        reason: error.to_string(),
    }
}

impl Home for RelationFiles {
    fn label(&self) -> &dyn Device {
        &self.label
    }

    /// PostgreSQL sees to what its file systems can hold.
    fn capacity_pages(&self) -> u64 {
        u64::MAX
    }

    fn has_room(&self, page: PageId, _: &dyn Names) -> bool {
        page.number() <= LAST_BLOCK.number()
    }

    fn place(&self, page: PageId, names: &dyn Names) -> String {
        match names.locator(ObjectId(page.object())) {
            Some(locator) => {
                let path = self.folders.file(&fork_of(&locator), page.number());
                format!("block {} in file \"{}\"", page.number() % SEGMENT_BLOCKS, path.display())
            }
            None => format!("block {} of a relation that was dropped", page.number()),
        }
    }

    fn read(&self, first: PageId, buffer: &mut [u8], names: &dyn Names) -> Result<(), DeviceError> {
        let gone = |reason: &str| DeviceError::Io {
            device: "a relation file".to_owned(),
            operation: "read",
            offset: u64::from(first.number()) * PAGE_BYTES as u64,
            length: buffer.len() as u64,
            reason: reason.to_owned(),
        };
        let locator =
            names.locator(ObjectId(first.object())).ok_or_else(|| gone("the relation was dropped"))?;
        let fork = fork_of(&locator);
        for (page, bytes) in (first.number()..).zip(buffer.chunks_mut(PAGE_BYTES)) {
            let path = self.folders.file(&fork, page);
            let offset = u64::from(page % SEGMENT_BLOCKS) * PAGE_BYTES as u64;
            let read = File::open(&path).and_then(|file| file.read_exact_at(bytes, offset));
            read.map_err(|error| failed(&path, "read", offset, PAGE_BYTES, &error))?;
        }
        Ok(())
    }

    fn write(&self, pages: &[(PageId, &[u8])], names: &dyn Names) -> Result<(), DeviceError> {
        let _work = self.work.start();
        let begin = now();
        let file_of = |page: PageId| (page.object(), page.number() / SEGMENT_BLOCKS);
        for run in pages.chunk_by(|(one, _), (next, _)| file_of(*one) == file_of(*next)) {
            let object = ObjectId(run[0].0.object());
            // Its pages are dead otherwise.
            if let Some(locator) = names.locator(object) {
                self.write_run(&self.run(fork_of(&locator), object, run), names)?;
            }
        }
        self.board.hour.writes.add(pages.len() as u64, now().since(begin));
        Ok(())
    }

    fn log(&self) -> Option<&dyn OwnersLog> {
        self.wal.as_ref().map(|wal| wal as &dyn OwnersLog)
    }

    fn busy(&self) -> Option<Duration> {
        Some(self.work.total())
    }

    fn sync(&self) -> Result<(), DeviceError> {
        let _work = self.work.start();
        let begin = now();
        match &self.notes {
            Some((notes, _)) => notes.synced(|| self.sync_files())?,
            None => self.sync_files()?,
        }
        self.board.hour.writes.add(0, now().since(begin));
        self.label.sync()
    }

    /// PostgreSQL itself reads relation files through memory, and starts anew after a failed sync.
    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.label.drop_cached()
    }
}

#[cfg(test)]
mod tests;
