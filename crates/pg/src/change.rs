//! Another size, mode, policy or flash, while the server runs.
//!
//! The worker's main thread calls, in this order:
//!
//! 1. [`prepare`]: what can be refused is refused here, and nothing was changed. If the new cache begins
//!    empty, a thread brings dirty pages to their files; processes continue meanwhile. If they make pages
//!    dirty faster than the disk takes them, dirty pages bypass the cache at last.
//! 2. [`close_gate`], and [`is_alone`] until it says so: no process uses the cache ([`crate::gate`]).
//! 3. [`finish`]: the old cache ends, and the new one begins in the same memory.
//! 4. [`open_gate`].
//!
//! Invariant: between the durable end of the old cache and the durable beginning of the new one, the label
//! names no cache, and the files are complete. If the pages keep their places (another mode or policy), the
//! cache is closed and opened as by a restart. A kill leaves the one state or the other.

use crate::memory::Shared;
use crate::notes::Notes;
use crate::opening::{log_of, session_of};
use crate::settings::Settings;
use crate::types::code;
use crate::worker::{Worker, with_worker};
use crate::{budget, failure};
use entresol_device::{Device, FileOptions, open_device};
use entresol_engine::{FlashTier, Home, Layer, PageCache, PageSet, Sharing, TierError, check_new_flash};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use tracing::info;

/// With so few dirty pages the cache is changed at once.
const FEW_PAGES: u64 = 256;
/// How often it is tried to have no more, and from which try on dirty pages bypass the cache.
const TRIES: u32 = 6;
const TRIES_WITH_ENTRY: u32 = 2;

/// A change under way.
pub(crate) struct Change {
    settings: Settings,
    /// Another device than now.
    flash: Option<Arc<dyn Device>>,
    /// Pages stay in their places.
    keeps: bool,
    /// Brings dirty pages to their files.
    drain: Option<JoinHandle<Result<(), TierError>>>,
    ends: Arc<AtomicBool>,
}

impl Change {
    fn new(worker: &Worker, settings: Settings) -> Result<Self, String> {
        let now = &worker.settings;
        check_memory(&settings, worker.memory)?;
        let same_flash = settings.flash == now.flash;
        let keeps = same_flash && settings.tier.slots == now.tier.slots && worker.is_in_order();
        let flash = match same_flash {
            true if !worker.is_in_order() => {
                return Err("the flash has failed; name another one, by entresol_move_flash()".to_owned());
            }
            true => None,
            false => Some(open_another(&settings, worker.files.label())?),
        };
        let device = flash.as_ref().unwrap_or(&worker.flash);
        if settings.flash_bytes > device.geometry().capacity_bytes {
            // A file grows here, where a lack of space changes nothing.
            device.resize(Some(settings.flash_bytes)).map_err(|error| error.to_string())?;
        }
        let found = device.geometry().capacity_bytes;
        if found < settings.flash_bytes {
            return Err(format!(
                "\"{}\" has {found} bytes, entresol.size is {}",
                settings.flash.display(),
                settings.flash_bytes
            ));
        }
        Ok(Self { settings, flash, keeps, drain: None, ends: Arc::default() })
    }

    /// Dirty pages have to be in their files.
    fn drains(&self) -> bool {
        !self.keeps || self.settings.is_through()
    }

    fn start(&mut self, worker: &Worker) {
        let Some(tier) = worker.tier.clone().filter(|_| self.drains() && worker.is_in_order()) else {
            return;
        };
        let (around, ends) = (&worker.board.around, self.ends.clone());
        self.drain = Some(std::thread::spawn(move || bring_to_disk(&tier, around, &ends)));
    }

    /// Ends it.
    pub fn cancel(mut self, worker_around: &budget::Around) {
        self.ends.store(true, SeqCst);
        if let Some(drain) = self.drain.take() {
            // What it could not do is not wanted any more.
            let _ = drain.join();
        }
        worker_around.drain(false);
    }
}

/// Opens another flash, if a cache may be made on it. A file is not made or grown before that is known.
fn open_another(settings: &Settings, label: &dyn Device) -> Result<Arc<dyn Device>, String> {
    let said = |error: &dyn std::fmt::Display| error.to_string();
    if settings.flash.exists() {
        let found = open_device(&settings.flash, FileOptions::existing()).map_err(|error| said(&error))?;
        if found.device.geometry().capacity_bytes > 0 {
            check_new_flash(&*found.device, label).map_err(|error| said(&error))?;
        }
    }
    let opened = open_device(&settings.flash, FileOptions::create(settings.flash_bytes));
    opened.map(|opened| opened.device).map_err(|error| said(&error))
}

/// Whether the segment of the cache has room in the memory that was reserved at the start.
fn check_memory(settings: &Settings, memory: Shared) -> Result<(), String> {
    let (needed, room) = (settings.segment_bytes()?, memory.segment_room());
    if needed <= room {
        return Ok(());
    }
    Err(format!(
        "a cache of {} MB needs {needed} bytes of shared memory, {room} are reserved; raise entresol.max_size, and start \
         the server again",
        settings.flash_bytes >> 20
    ))
}

/// Leaves few dirty pages.
fn bring_to_disk(tier: &FlashTier, around: &budget::Around, ends: &AtomicBool) -> Result<(), TierError> {
    for attempt in 0..TRIES {
        if ends.load(SeqCst) || tier.metrics().slots_dirty <= FEW_PAGES {
            break;
        }
        if attempt == TRIES_WITH_ENTRY {
            around.drain(true);
        }
        tier.destage(&PageSet::ALL)?;
    }
    Ok(())
}

/// Whether caches with these settings are the same.
fn are_same(one: &Settings, other: &Settings) -> bool {
    let of = |settings: &Settings| (settings.tier.slots, settings.tier.policy, settings.tier.mode);
    one.flash == other.flash && of(one) == of(other)
}

/// Begins a change to `settings`. [`code::NOTHING`]: the cache has them.
pub(crate) fn prepare(settings: Settings) -> i32 {
    with_worker(code::GONE, |worker| {
        if worker.change.as_ref().is_some_and(|change| are_same(&change.settings, &settings)) {
            return code::DONE;
        }
        if let Some(change) = worker.change.take() {
            change.cancel(&worker.board.around);
        }
        if are_same(&worker.settings, &settings) && worker.is_in_order() {
            return code::NOTHING;
        }
        match Change::new(worker, settings) {
            Ok(mut change) => {
                change.start(worker);
                worker.change = Some(change);
                code::DONE
            }
            Err(why) => {
                failure::say(&why);
                code::REFUSED
            }
        }
    })
}

/// Whether the change is prepared; [`code::NOTHING`]: not yet.
pub(crate) fn is_prepared() -> i32 {
    with_worker(code::GONE, |worker| {
        let Some(change) = &mut worker.change else { return code::GONE };
        match change.drain.take() {
            Some(drain) if !drain.is_finished() => {
                change.drain = Some(drain);
                code::NOTHING
            }
            None => code::DONE,
            Some(drain) => match drain.join() {
                Ok(Ok(())) => code::DONE,
                Ok(Err(error)) => {
                    failure::say(&error);
                    code::REFUSED
                }
                // A bug.
                Err(_) => std::process::abort(),
            },
        }
    })
}

/// The change is not made.
pub(crate) fn give_up() {
    with_worker((), |worker| {
        if let Some(change) = worker.change.take() {
            change.cancel(&worker.board.around);
        }
    });
}

/// No process enters the cache any more.
pub(crate) fn close_gate() {
    with_worker((), |worker| {
        worker.puller.rests(true);
        worker.board.gate.close();
    });
}

/// Whether no process uses the cache.
pub(crate) fn is_alone() -> bool {
    with_worker(true, |worker| worker.board.gate.is_empty(worker.memory.words()))
}

/// Processes enter again: the cache that was changed, or the same one.
pub(crate) fn open_gate(is_another: bool) {
    with_worker((), |worker| {
        worker.board.around.drain(false);
        worker.puller.rests(false);
        worker.board.gate.open(is_another);
    });
}

/// Whether clean pages stay out until checkpoints are complete.
pub(crate) fn awaits_checkpoints() -> bool {
    with_worker(false, |worker| worker.board.around.awaits_checkpoints())
}

/// Files may be newer than durable, since the cache was not there: clean pages stay out until two checkpoints
/// are complete.
pub(crate) fn files_were_written() {
    with_worker((), |worker| worker.board.around.dirty_went());
}

/// The REDO pointers of the last two checkpoints.
pub(crate) fn mark(marks: [u64; 2]) -> i32 {
    with_worker(code::GONE, |worker| {
        let marked = worker.tier.as_ref().map_or(Ok(()), |tier| tier.mark(marks));
        marked.map_or_else(
            |error| {
                failure::say(&error);
                failure::code_of(&error)
            },
            |()| code::DONE,
        )
    })
}

/// Makes the change that was prepared. `marks`: the REDO pointers of the last checkpoint that is complete,
/// and of the last one that was asked for. [`code::REFUSED`]: the cache of before is opened again.
/// [`code::FAILED`]: it is not.
pub(crate) fn finish(marks: [u64; 2]) -> i32 {
    with_worker(code::GONE, |worker| {
        let Some(change) = worker.change.take() else { return code::GONE };
        let before = worker.settings.clone();
        worker.notes.end();
        let made = worker
            .end_old(change.keeps, change.settings.is_through())
            .and_then(|()| worker.begin(&change, marks));
        let result = match made {
            Ok(()) => {
                if before.is_through() && !worker.settings.is_through() {
                    worker.board.around.dirty_went();
                }
                code::DONE
            }
            Err(why) => worker.begin_again(&before, marks, &why),
        };
        worker.take_notes();
        worker.board.hour.restart();
        result
    })
}

impl Worker {
    /// The cache serves, and has not switched itself off.
    fn is_in_order(&self) -> bool {
        self.tier.as_ref().is_some_and(|tier| tier.failure().is_none() && tier.notice().is_none())
    }

    /// Ends the cache: nothing of it uses the memory afterwards.
    fn end_old(&mut self, keeps: bool, will_be_through: bool) -> Result<(), String> {
        self.rest_log();
        let Some(tier) = self.tier.take() else { return Ok(()) };
        let ended = match keeps {
            // The label says then that no page on flash is newer than its file.
            true if will_be_through && !self.settings.is_through() => tier.close_clean(),
            true => tier.close(),
            // It has switched itself off: no page of it is newer than the files.
            false if tier.notice().is_some() => {
                let _ = tier.close();
                Ok(())
            }
            false => tier.detach(),
        };
        let tier = Arc::into_inner(tier);
        drop(tier.expect("no other thread has the cache when a change is prepared"));
        ended.map_err(|error| error.to_string())
    }

    fn sharing(&self) -> Sharing {
        Sharing { memory: Arc::new(self.memory), fronts: self.settings.processes }
    }

    fn begin(&mut self, change: &Change, marks: [u64; 2]) -> Result<(), String> {
        let flash = change.flash.as_ref().unwrap_or(&self.flash).clone();
        let said = |error: TierError| error.to_string();
        let tier = match change.keeps {
            true => self.open(&flash, &change.settings).map_err(said)?,
            false => self.create(&flash, &change.settings).map_err(said)?,
        };
        self.adopt(tier, &flash, &change.settings, marks).map_err(said)?;
        if change.flash.is_none() {
            // A file that became smaller gives its space back.
            if let Err(error) = self.flash.resize(Some(change.settings.flash_bytes)) {
                info!("the file of the flash keeps its size: {error}");
            }
        }
        Ok(())
    }

    fn open(&self, flash: &Arc<dyn Device>, settings: &Settings) -> Result<Arc<FlashTier>, TierError> {
        self.files.continues();
        let files = self.files.clone();
        let opened = FlashTier::open_shared(flash.clone(), files, settings.tier.clone(), &self.sharing());
        opened.map(|(tier, _)| tier)
    }

    fn create(&self, flash: &Arc<dyn Device>, settings: &Settings) -> Result<Arc<FlashTier>, TierError> {
        FlashTier::create_shared(flash.clone(), self.files.clone(), settings.tier.clone(), &self.sharing())
    }

    /// Serves it from now on.
    fn adopt(
        &mut self,
        tier: Arc<FlashTier>,
        flash: &Arc<dyn Device>,
        settings: &Settings,
        marks: [u64; 2],
    ) -> Result<(), TierError> {
        tier.mark(marks)?;
        tier.bind_log(log_of(&self.cluster), session_of(&self.cluster))?;
        let writes = self.settings.writes;
        self.settings = Settings { writes, ..settings.clone() };
        self.flash = flash.clone();
        if let Some(file) = flash.queued() {
            self.board.flash.set(std::process::id(), file.descriptor());
        }
        self.board.now.set(&self.settings);
        self.keep_log(&tier, None).map_err(TierError::Refused)?;
        self.serve(tier);
        Ok(())
    }

    /// The change has failed for this reason.
    fn begin_again(&mut self, before: &Settings, marks: [u64; 2], why: &str) -> i32 {
        // A cache that was begun and not adopted has ended.
        self.tier = None;
        let flash = self.flash.clone();
        // If it was not released, it is opened as after a crash.
        let again = self.open(&flash, before).or_else(|_| self.create(&flash, before));
        match again.and_then(|tier| self.adopt(tier, &flash, before, marks)) {
            Ok(()) => {
                failure::say(&why);
                code::REFUSED
            }
            Err(also) => {
                failure::say(&format!("{why}; and the cache of before cannot be opened again: {also}"));
                code::FAILED
            }
        }
    }

    /// Notes are taken if the cache may be newer than the files, and redo is over.
    pub(crate) fn take_notes(&self) {
        let notes: &Notes = &self.notes;
        if self.is_redone && !self.settings.is_through() && self.is_in_order() {
            notes.begin();
        }
    }
}
