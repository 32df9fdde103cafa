//! A process of the server as a user of the cache: it reads pages, stages them, and forgets dead ones.
//!
//! A process uses the interface from one thread. Look-ups of an object's number are not kept: a number is
//! another object's one day.

use crate::gate::Word;
use crate::locator::{DATABASE_BYTES, Folders, fork_of, locator_of};
use crate::memory::{BackendTally, Board, ObjectTally, Shared};
use crate::notes::{Known, make_void};
use crate::settings::Settings;
use crate::types::{BACKEND_KINDS, EntFork, code};
use crate::{failure, settings};
use entresol_core::PageId;
use entresol_engine::{AttachOptions, Deletes, FlashPlace, PageSet, SharedFront, Sharing, Source, TierError};
use entresol_objects::{Locator, ObjectId};
use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::sync::Arc;

/// A C function that says whether a caller is to wait no longer.
pub(crate) type Interrupted = extern "C" fn() -> bool;

/// A process's part of the cache.
pub(crate) struct Process {
    pub front: SharedFront,
    pub board: &'static Board,
    /// Of its kind of process.
    pub tally: &'static BackendTally,
    pub memory: Shared,
    /// The cluster's folder with the notes.
    folder: PathBuf,
    /// Those of the cluster's files.
    pub folders: Folders,
    /// In the process that redoes.
    known: RefCell<Known>,
    /// The last read has ended at this page. If the cache has it, its copy cannot be read, and is clean: the
    /// file has the same.
    unread: Cell<Option<PageId>>,
    /// What the server has read of this page by itself was not proved.
    pub rejected: Cell<Option<PageId>>,
    /// The flash device's descriptor, and whether its reads are direct.
    pub flash: Option<(i32, bool)>,
    /// Its place at the gate, and the generation of the cache that it has attached.
    word: &'static Word,
    generation: u64,
    is_through: bool,
}

impl Process {
    /// The object of a fork, and its counters.
    pub fn object(&self, locator: &Locator) -> Result<Option<(ObjectId, Option<&ObjectTally>)>, TierError> {
        let object = self.front.object(locator)?;
        Ok(object.map(|object| (object, self.memory.tally(object, locator))))
    }
}

thread_local! {
    /// Leaked, as `failure::SENTENCE` is.
    static PROCESS: &'static RefCell<Option<Process>> = Box::leak(Box::new(RefCell::new(None)));
    static INTERRUPTED: Cell<Option<Interrupted>> = const { Cell::new(None) };
}

/// Whether the process is to wait no longer: its own check says so, which knows of a gate that is closed.
fn is_interrupted() -> bool {
    INTERRUPTED.get().is_some_and(|interrupted| interrupted())
}

/// Attaches this process, which has the place `place` at the gate. [`code::CHANGED`]: the cache is being
/// changed.
pub(crate) fn attach(
    settings: Settings,
    memory: Shared,
    (kind, place): (u32, u32),
    interrupted: Option<Interrupted>,
) -> i32 {
    failure::reserve();
    INTERRUPTED.set(interrupted);
    let (gate, word) = (&memory.board().gate, memory.words().get(place as usize));
    let Some(word) = word else {
        failure::say(&format!("process {place} has no place at the cache's gate"));
        return code::REFUSED;
    };
    let generation = gate.generation();
    let Some(_inside) = gate.enter(word, generation) else { return code::CHANGED };
    let settings = match memory.board().now.of(settings) {
        Ok(settings) => settings,
        Err(why) => {
            failure::say(&why);
            return code::REFUSED;
        }
    };
    let is_through = settings.is_through();
    let sharing = Sharing { memory: Arc::new(memory), fronts: settings.processes };
    let attach = AttachOptions { is_direct: true, interrupted: Some(is_interrupted), without_flash: true };
    let of_back = memory.board().flash.path();
    let flash = FlashPlace { path: &settings.flash, of_back: of_back.as_deref() };
    match SharedFront::attach(&sharing, flash, &settings.tier, &attach) {
        Ok(front) => {
            let board = memory.board();
            let tally = &board.backends[(kind as usize).min(BACKEND_KINDS - 1)];
            let (folder, folders) = (settings.folders.binding(), settings.folders.clone());
            let known = RefCell::default();
            let (unread, rejected) = (Cell::new(None), Cell::new(None));
            let flash = front.flash_descriptor();
            let attached = Process {
                front,
                board,
                tally,
                memory,
                folder,
                folders,
                known,
                unread,
                rejected,
                flash,
                word,
                generation,
                is_through,
            };
            PROCESS.with(|process| *process.borrow_mut() = Some(attached));
            code::DONE
        }
        Err(error) => {
            failure::say(&error);
            match error {
                TierError::Gone(_) => code::GONE,
                _ => code::REFUSED,
            }
        }
    }
}

/// Gives the process's place up. If the cache is another one by now, its memory is not touched.
pub(crate) fn detach() {
    let Some(process) = PROCESS.with(|process| process.borrow_mut().take()) else { return };
    match process.board.gate.enter(process.word, process.generation) {
        Some(_inside) => drop(process.front),
        None => process.front.disown(),
    }
}

/// Whether the cache that this process has attached is never newer than the files.
pub(crate) fn is_through() -> bool {
    with(|process| process.is_through) == Some(true)
}

/// Whether the process is attached.
pub(crate) fn is_attached() -> bool {
    with(|_| ()).is_some()
}

/// Whether that cache is being changed.
pub(crate) fn is_changing() -> bool {
    with(|process| process.board.gate.is_closed()) == Some(true)
}

/// Whether the cache is another one by now than this process has attached.
pub(crate) fn is_stale() -> bool {
    let is_another = |process: &Process| {
        let generation = process.board.gate.generation();
        generation.is_multiple_of(2) && generation != process.generation
    };
    with(is_another) == Some(true)
}

/// Calls the cache for this process; failures become codes. [`code::CHANGED`]: nothing was done.
pub(crate) fn call(work: impl FnOnce(&Process) -> Result<i32, TierError>) -> i32 {
    PROCESS.with(|process| {
        let process = process.borrow();
        let Some(process) = &*process else {
            failure::say(&"this process is not attached to the flash cache");
            return code::GONE;
        };
        let Some(_inside) = process.board.gate.enter(process.word, process.generation) else {
            return code::CHANGED;
        };
        work(process).unwrap_or_else(|error| {
            failure::say(&error);
            failure::code_of(&error)
        })
    })
}

/// Whether block `block` is in the cache, and for how many blocks from there on, at most `n`, that is so.
/// `reads`: blocks that are not here are read from disk next, and are counted.
pub(crate) fn residency(fork: &EntFork, block: u32, n: u32, reads: bool, is_here: &mut bool) -> (i32, u32) {
    let mut same = n;
    *is_here = false;
    let code = call(|process| {
        let (mut tally, mut page) = (None, None);
        if let Some((object, of_object)) = process.object(&locator_of(fork))? {
            (tally, page) = (of_object, Some(object.page(block)));
            // Else it would be asked for again, and again in vain.
            let unread = process.unread.take();
            let has = |at: u32| {
                let page = object.page(block.saturating_add(at));
                process.front.is_on_flash(page) && unread != Some(page)
            };
            *is_here = has(0);
            same = (1..n).find(|at| has(*at) != *is_here).unwrap_or(n);
        }
        if reads && !*is_here {
            process.count_misses(fork, block, same, tally);
            // Of the first one the fetch has told.
            if let Some(page) = page.filter(|_| same > 1) {
                process.front.missed_by_memory(PageId(page.0 + 1), same - 1);
            }
        }
        Ok(code::DONE)
    });
    (code, same)
}

/// Whether the cache has a version of the block that is newer than the file's.
pub(crate) fn is_newer(fork: &EntFork, block: u32, newer: &mut bool) -> i32 {
    *newer = false;
    call(|process| {
        if let Some((object, _)) = process.object(&locator_of(fork))? {
            *newer = process.front.is_dirty(object.page(block));
        }
        Ok(code::DONE)
    })
}

/// The LSN of a durable version of the block, found without a read:
///
/// - of the cache's version, if that is newer than the file's, and its LSN is known;
/// - else of the file's version, if that is known to be durable;
/// - else 0.
pub(crate) fn durable_lsn(fork: &EntFork, block: u32, lsn: &mut u64) -> i32 {
    *lsn = 0;
    call(|process| {
        *lsn = process.known.borrow().lsn(fork, block);
        if let Some((object, _)) = process.object(&locator_of(fork))? {
            let newer = process.front.newer_lsn(object.page(block)).map_or(0, |lsn| lsn.0);
            *lsn = newer.max(*lsn);
        }
        Ok(code::DONE)
    })
}

/// Redo begins, in this process, at `redo`; `None`: notes of durable pages are not of its files. `known` gets
/// the number of pages known to be durable.
pub(crate) fn redo_begins(redo: Option<u64>, known: &mut u64) -> i32 {
    call(|process| {
        let noted = Known::take(process.folder.clone(), redo).map_err(|error| {
            TierError::Refused(format!(
                "notes in \"{}\" cannot be removed: {error}",
                process.folder.display()
            ))
        })?;
        *known = noted.len() as u64;
        process.known.replace(noted);
        Ok(code::DONE)
    })
}

/// Redo changes a block, maybe in an older version than the durable one.
pub(crate) fn redo_changes(fork: &EntFork, block: u32) -> i32 {
    call(|process| {
        process.known.borrow_mut().change(fork, block);
        Ok(code::DONE)
    })
}

/// The server is about to write blocks of a fork past the cache, which it has forgotten.
pub(crate) fn overwrites(fork: &EntFork) -> i32 {
    call(|process| {
        let locator = locator_of(fork);
        if let Some((_, Some(tally))) = process.object(&locator)? {
            make_void(&process.folder, &process.board.notes, &tally.noted).map_err(|error| {
                let folder = process.folder.display();
                TierError::Refused(format!("notes in \"{folder}\" cannot be made void: {error}"))
            })?;
        }
        Ok(code::DONE)
    })
}

/// Reads blocks from `block` on into `pages` up to the first that is not here. Returns how many.
pub(crate) fn read<'a>(
    fork: &EntFork,
    block: u32,
    pages: impl Iterator<Item = &'a mut [u8]>,
    done: &mut u32,
) -> i32 {
    *done = 0;
    call(|process| {
        let Some((object, tally)) = process.object(&locator_of(fork))? else { return Ok(code::DONE) };
        let mut staged = 0;
        for page in pages {
            let id = object.page(block.saturating_add(*done));
            let Some(fetched) = process.front.fetch(id, page)? else {
                process.unread.set(Some(id));
                break;
            };
            staged += u32::from(fetched.source == Source::Staging);
            *done += 1;
        }
        process.count_hits(*done, tally);
        process.count_staging_hits(staged);
        Ok(code::DONE)
    })
}

/// Calls `work` with this process, if it is attached.
pub(crate) fn with<R>(work: impl FnOnce(&Process) -> R) -> Option<R> {
    PROCESS.with(|process| process.borrow().as_ref().map(work))
}

/// The flash device's descriptor in this process.
pub(crate) fn descriptor() -> Option<i32> {
    with(|process| Some(process.flash?.0)).flatten()
}

/// Forgets `n` blocks from `block` on, which are dead; `None`: to the end of the fork.
pub(crate) fn forget(fork: &EntFork, block: u32, n: Option<u32>) -> i32 {
    call(|process| {
        let last = n.map_or(u32::MAX, |n| block.saturating_add(n.max(1) - 1));
        process.known.borrow_mut().drop_blocks(fork, block, last);
        let Some(object) = process.front.object(&locator_of(fork))? else { return Ok(code::DONE) };
        match n {
            None => {
                process.board.cuts.add(1);
                process.front.cut(object, block)?;
            }
            Some(0) => {}
            Some(n) => {
                process.board.forgets.add(1);
                let last = block.saturating_add(n - 1).min(settings::LAST_BLOCK.number());
                process.front.forget(object.page(block), object.page(last))?;
            }
        }
        Ok(code::DONE)
    })
}

/// Forgets all forks of a relation.
pub(crate) fn forget_relation(relation: EntFork) -> i32 {
    call(|process| {
        let relation_of = |fork: EntFork| EntFork { fork: 0, ..fork };
        let is_dead = |known: &Locator| relation_of(fork_of(known)) == relation_of(relation);
        process.known.borrow_mut().drop_forks(is_dead);
        for fork in 0..FORKS {
            let locator = locator_of(&EntFork { fork, ..relation });
            if let Some(object) = process.front.object(&locator)? {
                process.board.retired.add(1);
                process.front.retire(object)?;
            }
        }
        Ok(code::DONE)
    })
}

/// Forks of a relation: main, free space map, visibility map, init.
const FORKS: u32 = 4;

/// Forgets a database; in one tablespace, or in all of them with 0.
pub(crate) fn forget_database(database: u32, tablespace: u32) -> i32 {
    call(|process| {
        let is_dead = |locator: &Locator| {
            let fork = fork_of(locator);
            fork.database == database && (tablespace == 0 || fork.tablespace == tablespace)
        };
        process.known.borrow_mut().drop_forks(is_dead);
        let retired = process.front.retire_matching(is_dead)?;
        process.board.retired.add(retired.into());
        Ok(code::DONE)
    })
}

/// Brings all dirty pages of a database to disk, or of all with `None`. They stay in the cache as clean ones.
pub(crate) fn destage(database: Option<u32>) -> i32 {
    let pages = match database {
        None => PageSet::ALL,
        Some(database) => {
            let name = locator_of(&EntFork { database, ..EntFork::default() });
            PageSet::Named { name, length: DATABASE_BYTES }
        }
    };
    call(|process| {
        process.board.destages.add(1);
        process.front.destage(&pages)?;
        Ok(code::DONE)
    })
}

/// Makes a fork's staged pages durable.
pub(crate) fn flush(fork: &EntFork) -> i32 {
    call(|process| {
        if process.front.object(&locator_of(fork))?.is_some() {
            process.board.flushes.add(1);
            process.front.flush()?;
        }
        Ok(code::DONE)
    })
}

/// The server's log is durable up to `lsn`.
pub(crate) fn log_at(timeline: u32, lsn: u64) {
    PROCESS.with(|process| {
        if let Some(process) = &*process.borrow() {
            process.board.log.say(timeline, lsn);
        }
    });
}

/// Makes all that was staged and forgotten durable. `done` is the REDO pointer of the last checkpoint that
/// pg_control names, `redo` that of this one.
pub(crate) fn checkpoint(done: u64, redo: u64) -> i32 {
    call(|process| {
        process.front.checkpoint_at([done, redo])?;
        process.board.around.checkpoint(done, redo);
        process.board.notes.checkpoint(done, redo);
        process.board.checkpoints.add(1);
        Ok(code::DONE)
    })
}

/// Removes all pages of a relation from the cache: the dirty ones to their files. Processes that use it put
/// pages back meanwhile. `removed` gets the number of copies.
pub(crate) fn evict(relation: EntFork, removed: &mut u64) -> i32 {
    *removed = 0;
    call(|process| {
        for fork in 0..FORKS {
            let locator = locator_of(&EntFork { fork, ..relation });
            let Some(object) = process.front.object(&locator)? else { continue };
            let (first, last) = (object.page(0), object.page(u32::MAX));
            process.board.destages.add(1);
            process.front.destage(&PageSet::Range(first, last))?;
            *removed += process.front.forget_clean(first, last)?;
        }
        Ok(code::DONE)
    })
}
