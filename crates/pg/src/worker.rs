//! The back, in the background worker: its threads write flash and relation files. The main thread, which
//! alone may call PostgreSQL, gets its tasks here.

use crate::change::Change;
use crate::files::RelationFiles;
use crate::horizon::{HorizonFile, Record};
use crate::keeper::{Keeper, Wanted};
use crate::log::ToMain;
use crate::memory::{Board, Shared};
use crate::notes::Notes;
use crate::opening::{Opened, Refusal, is_needed, open_label, open_tier};
use crate::settings::Settings;
use crate::types::{EntCheckpoint, EntLogKept, EntLogWanted};
use crate::types::{EntCluster, EntEvent, close, code, event};
use crate::{benefit, failure, lost};
use entresol_core::{Lsn, PageId};
use entresol_device::Device;
use entresol_engine::{DailyWrites, FlashTier, HOW_TO_DETACH, Layer, PageCache, TierError, Upstream, disown};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tracing::info;

/// Longest wait of an engine's thread for victims. The main thread may wait for the server's log.
const PULL_PATIENCE: Duration = Duration::from_millis(200);

/// A request of an engine's thread to the main thread.
pub(crate) enum Request {
    /// A line for the server's log.
    Message { level: i32, text: String },
    /// Victims are wanted; the answer is how many there were.
    Pull { pages: usize, answer: Sender<usize> },
}

/// Asks the main thread for victims.
pub(crate) struct Puller {
    requests: Sender<Request>,
    /// The main thread changes the cache, and pulls none.
    rests: AtomicBool,
}

impl Puller {
    /// No victims are pulled until it rests no more.
    pub fn rests(&self, rests: bool) {
        self.rests.store(rests, SeqCst);
    }
}

impl Upstream for Puller {
    fn pull_victims(&self, pages: usize) -> usize {
        let (answer, pulled) = channel();
        if self.rests.load(SeqCst) || self.requests.send(Request::Pull { pages, answer }).is_err() {
            return 0;
        }
        // Late victims are welcome, too, but are not waited for.
        pulled.recv_timeout(PULL_PATIENCE).unwrap_or(0)
    }

    /// PostgreSQL's buffers are clean when the cache has their page.
    fn destaged(&self, _: PageId, _: Lsn) {}
}

pub(crate) struct Worker {
    /// `None`: a change has failed, and left none.
    pub tier: Option<Arc<FlashTier>>,
    pub memory: Shared,
    pub board: &'static Board,
    pub cluster: EntCluster,
    /// Of the cache as it is.
    pub settings: Settings,
    pub flash: Arc<dyn Device>,
    pub files: Arc<RelationFiles>,
    /// Of durable pages.
    pub notes: Arc<Notes>,
    /// Redo is over.
    pub is_redone: bool,
    /// One that is being prepared.
    pub change: Option<Change>,
    /// Of the log that replaces the flash. `None`: none does.
    keeper: Option<Keeper>,
    requests: Receiver<Request>,
    /// The waiters for the present pull.
    pulls: Option<Sender<usize>>,
    /// The server knows that the cache has switched itself off.
    is_told_off: bool,
    /// The tier has a weak reference.
    pub puller: Arc<Puller>,
}

/// Of the process: what the engine's threads say, also before a cache is open.
type Channel = (Sender<Request>, Option<Receiver<Request>>);

thread_local! {
    /// Leaked: the process ends without destructors.
    static WORKER: &'static RefCell<Option<Worker>> = Box::leak(Box::new(RefCell::new(None)));
    static CHANNEL: &'static RefCell<Channel> = Box::leak(Box::new(RefCell::new({
        let (requests_in, requests) = channel();
        // A process has one worker; in tests maybe more, of which the first has the log.
        let _ = tracing::subscriber::set_global_default(ToMain(requests_in.clone()));
        (requests_in, Some(requests))
    })));
}

/// Opens the cache for the cluster, or makes it.
pub(crate) fn open(settings: &Settings, memory: Shared, cluster: &EntCluster) -> i32 {
    failure::reserve();
    let requests_in = CHANNEL.with(|channel| channel.borrow().0.clone());
    let board = memory.board();
    // No checkpoint of a server without other processes is told.
    let mut settings = settings.clone();
    settings.tier.keeps_bases &= !cluster.alone;
    let settings = &settings;
    let notes = Arc::new(Notes::new(settings.folders.binding(), &board.notes));
    let opened = match open_tier(settings, memory, cluster, &notes) {
        Ok(opened) => opened,
        Err(refusal) => return refuse(settings, cluster, refusal),
    };
    let Some(requests) = CHANNEL.with(|channel| channel.borrow_mut().1.take()) else {
        failure::say(&"a cache was opened in this process before");
        return code::REFUSED;
    };
    let Opened { tier, report, settings, flash, files } = opened;
    info!(
        "flash cache \"{}\" opened: {} pages of {}{}, after {} ms",
        settings.flash.display(),
        report.entries,
        settings.tier.slots,
        match settings.is_through() {
            true => String::new(),
            false => format!(", {} of them newer than their files", report.dirty),
        },
        report.duration.as_millis()
    );
    board.now.set(&settings);
    let mut worker = Worker {
        tier: None,
        memory,
        board,
        cluster: *cluster,
        settings,
        flash,
        files,
        notes,
        is_redone: false,
        change: None,
        keeper: None,
        requests,
        pulls: None,
        is_told_off: false,
        puller: Arc::new(Puller { requests: requests_in, rests: AtomicBool::new(false) }),
    };
    let record = Record { lsn: cluster.checkpoint, timeline: cluster.timeline };
    let newest = (cluster.checkpoint != 0).then_some((record, cluster.redo));
    if let Err(why) = worker.keep_log(&tier, newest) {
        failure::say(&why);
        return code::REFUSED;
    }
    worker.serve(tier);
    WORKER.with(|place| *place.borrow_mut() = Some(worker));
    code::DONE
}

impl Worker {
    /// Before the cache `tier` serves: begins to keep the log that replaces it, or says that none does.
    /// `newest`: the checkpoint that pg_control names, if it is known.
    ///
    /// # Errors
    /// A sentence.
    pub fn keep_log(&mut self, tier: &FlashTier, newest: Option<(Record, u64)>) -> Result<(), String> {
        let file = HorizonFile::of(&self.settings.folders);
        if !self.settings.tier.keeps_bases {
            self.keeper = None;
            return file.remove();
        }
        if self.keeper.is_none() {
            self.keeper = Some(Keeper::open(file, is_needed(&self.cluster), newest)?);
        }
        let keeper = self.keeper.iter().try_for_each(|keeper| keeper.resume(tier));
        keeper.map_err(|error| error.to_string())
    }

    /// No page is copied any more for the log that is kept, until that is asked for again.
    pub fn rest_log(&mut self) {
        self.keeper.iter_mut().for_each(Keeper::rest);
    }

    /// Serves this cache from now on.
    pub fn serve(&mut self, tier: Arc<FlashTier>) {
        let upstream: Arc<dyn Upstream> = self.puller.clone();
        let upstream: Weak<dyn Upstream> = Arc::downgrade(&upstream);
        if !self.cluster.alone {
            tier.attach(upstream);
        }
        tier.limit_writes(self.settings.writes_per_day());
        self.is_told_off = false;
        self.tier = Some(tier);
    }

    /// What the main thread has to do about the state of the cache, if anything.
    fn look(&mut self) -> Option<EntEvent> {
        let fails = EntEvent { kind: event::FAILED, ..EntEvent::default() };
        let Some(tier) = &self.tier else {
            failure::say(&"no cache could be opened after a change");
            return Some(fails);
        };
        if tier.is_given_up() {
            failure::say(&"a process died while it changed the flash cache's shared memory");
            return Some(fails);
        }
        if let Some(error) = tier.failure() {
            let is_replaced = matches!(error, TierError::Poisoned { of_flash: true, .. })
                && self.keeper.is_some()
                && lost::give_up(&self.settings.folders).is_ok();
            failure::say(&error);
            return Some(EntEvent { level: is_replaced.into(), ..fails });
        }
        let notice = tier.notice().filter(|_| !self.is_told_off)?;
        self.is_told_off = true;
        // From now on the server writes its files without telling.
        self.notes.end();
        failure::say(&notice);
        Some(EntEvent { kind: event::OFF, ..EntEvent::default() })
    }
}

/// Says why the cache is not opened, and whether the server continues without it: it does if the flash cannot
/// be reached, and the files are complete.
fn refuse(settings: &Settings, cluster: &EntCluster, refusal: Refusal) -> i32 {
    let may_go_on = settings.is_through() && !is_needed(cluster);
    let (why, code) = match refusal {
        Refusal::Flash(why) if may_go_on => {
            // Found again later, the flash is out of date.
            let disowned = open_label(&settings.folders.binding(), false)
                .and_then(|(label, _)| disown(&label).map_err(|error| error.to_string()));
            match disowned {
                Ok(()) => (why, code::FAILED),
                Err(also) => (format!("{why}; {also}"), code::REFUSED),
            }
        }
        Refusal::Flash(why) | Refusal::Other(why) => (why, code::REFUSED),
    };
    failure::say(&why.replace(HOW_TO_DETACH, HOW_TO_DRAIN));
    code
}

/// The advice for a cluster, in place of the engine's command.
const HOW_TO_DRAIN: &str = "of a PostgreSQL cluster: start its server with this flash, and stop it with \
                            entresol.drain_at_shutdown = on; of any other cache `entresol detach FLASH DISK`";

/// Calls the worker; `absent` if there is none.
pub(crate) fn with_worker<R>(absent: R, work: impl FnOnce(&mut Worker) -> R) -> R {
    WORKER.with(|worker| match &mut *worker.borrow_mut() {
        Some(worker) => work(worker),
        None => {
            failure::say(&"the flash cache is not open in this process");
            absent
        }
    })
}

/// The next task of the main thread; waits for it.
pub(crate) fn wait(patience: Duration, next: &mut EntEvent) -> i32 {
    with_worker(code::GONE, |worker| {
        if let Some(event) = worker.look() {
            *next = event;
            return code::DONE;
        }
        if let Some(tier) = &worker.tier {
            worker.board.around.allow(tier.allowed_writes());
            benefit::tick(worker.board, || tier.metrics());
        }
        worker.notes.tick();
        match worker.requests.recv_timeout(patience) {
            Ok(Request::Message { level, text }) => {
                failure::say(&text);
                *next = EntEvent { kind: event::MESSAGE, level, pages: 0 };
                code::DONE
            }
            Ok(Request::Pull { pages, answer }) => {
                worker.pulls = Some(answer);
                let pages = i32::try_from(pages).unwrap_or(i32::MAX);
                *next = EntEvent { kind: event::PULL, pages, level: 0 };
                code::DONE
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => code::NOTHING,
        }
    })
}

/// Redo is over.
pub(crate) fn redone() {
    with_worker((), |worker| {
        worker.is_redone = true;
        worker.take_notes();
    });
}

/// So many victims were pushed.
pub(crate) fn pulled(pages: usize) {
    with_worker((), |worker| {
        if let Some(answer) = worker.pulls.take() {
            // It may have waited long enough.
            let _ = answer.send(pages);
        }
    });
}

/// From now on so much may be written to flash in a day.
pub(crate) fn limit_writes(writes: DailyWrites) -> i32 {
    with_worker(code::GONE, |worker| {
        worker.settings.writes = writes;
        let most = worker.settings.writes_per_day();
        worker.tier.iter().for_each(|tier| tier.limit_writes(most));
        code::DONE
    })
}

/// Ends the cache as `how` says ([`crate::types::close`]). `redo` is the REDO pointer of the last checkpoint
/// that is complete.
pub(crate) fn close(how: u32, redo: u64) -> i32 {
    with_worker(code::GONE, |worker| {
        if let Some(change) = worker.change.take() {
            change.cancel(&worker.board.around);
        }
        worker.rest_log();
        let Some(tier) = &worker.tier else { return code::GONE };
        let end = || match how {
            close::RELEASED => tier.detach(),
            close::DRAINED if tier.notice().is_none() => {
                tier.mark([redo; 2]).and_then(|()| tier.close_clean())
            }
            close::WARM if tier.notice().is_none() => tier.mark([redo; 2]).and_then(|()| tier.close()),
            // It has switched itself off.
            _ => tier.close(),
        };
        match end() {
            Ok(()) => code::DONE,
            Err(error) => {
                failure::say(&error);
                failure::code_of(&error)
            }
        }
    })
}

/// What is wanted of the server's log. [`code::NOTHING`]: it is under way, and [`log_is_kept`] says when it
/// is done. [`code::DONE`]: there is nothing to be waited for.
pub(crate) fn keep_log(wanted: &EntLogWanted) -> i32 {
    with_worker(code::GONE, |worker| {
        let tier = worker.tier.clone();
        let Some(keeper) = &mut worker.keeper else { return code::DONE };
        if let Err(why) = keeper.cut(wanted.safe) {
            failure::say(&why);
            return code::FAILED;
        }
        let EntCheckpoint { record, redo, timeline } = wanted.newest;
        let newest = (record != 0).then_some((Record { lsn: record, timeline }, redo));
        keeper.ask(Wanted { newest, bound: wanted.bound, all: wanted.all });
        let is_done = keeper.turn(tier.as_ref());
        // Until the log replaces the flash, a checkpoint does not wait for the pages that have to be copied.
        let waits = wanted.all || newest.is_some() && keeper.said().is_some();
        if is_done || !waits { code::DONE } else { code::NOTHING }
    })
}

/// Whether what was wanted of the log is done; `kept` gets how the log is kept.
pub(crate) fn log_is_kept(kept: &mut EntLogKept) -> i32 {
    *kept = EntLogKept::default();
    with_worker(code::GONE, |worker| {
        let tier = worker.tier.clone();
        let Some(keeper) = &mut worker.keeper else { return code::DONE };
        let is_done = keeper.turn(tier.as_ref());
        // In this order: the log of a horizon is kept.
        kept.from = keeper.keeps_from().unwrap_or(0);
        kept.pages = tier.map_or(0, |tier| keeper.pages_behind(&tier));
        if let Some(said) = keeper.said() {
            let Record { lsn, timeline } = said.record;
            kept.horizon = EntCheckpoint { record: lsn, redo: said.redo_point.0, timeline };
        }
        if is_done { code::DONE } else { code::NOTHING }
    })
}
