//! The back, in the background worker: its threads write flash and relation files. The main thread, which
//! alone may call PostgreSQL, asks here what it is to do.

use crate::failure;
use crate::files::RelationFiles;
use crate::log::ToMain;
use crate::memory::Shared;
use crate::settings::Settings;
use crate::types::{EntCluster, EntEvent, code, event};
use entresol_core::{Lsn, PageId};
use entresol_device::{FileDevice, FileOptions, open_device};
use entresol_engine::{
    FlashTier, Layer, OpenReport, Session, Sharing, TierError, Upstream, Uuid, disk_binding, marks_on,
    renounce,
};
use entresol_format::label::LABEL_AREA_BYTES;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tracing::info;

/// Longest wait of an engine's thread for victims. The main thread may wait for the server's log.
const PULL_PATIENCE: Duration = Duration::from_millis(200);

/// What an engine's thread has for the main thread.
pub(crate) enum Note {
    /// A line for the server's log.
    Message { level: i32, text: String },
    /// Victims are wanted; the answer is how many there were.
    Pull { pages: usize, answer: Sender<usize> },
}

/// Asks the main thread for victims.
struct Puller(Sender<Note>);

impl Upstream for Puller {
    fn pull_victims(&self, pages: usize) -> usize {
        let (answer, pulled) = channel();
        if self.0.send(Note::Pull { pages, answer }).is_err() {
            return 0;
        }
        // Late victims are welcome, too, but are not waited for.
        pulled.recv_timeout(PULL_PATIENCE).unwrap_or(0)
    }

    /// PostgreSQL's buffers are clean when the cache has their page.
    fn destaged(&self, _: PageId, _: Lsn) {}
}

struct Worker {
    tier: Arc<FlashTier>,
    notes: Receiver<Note>,
    /// Who waits for the present pull.
    pulls: Option<Sender<usize>>,
    /// The tier has a weak reference.
    _puller: Arc<Puller>,
}

thread_local! {
    /// Leaked: the process ends without destructors.
    static WORKER: &'static RefCell<Option<Worker>> = Box::leak(Box::new(RefCell::new(None)));
}

/// Opens the cache for the cluster, or makes it.
pub(crate) fn open(settings: &Settings, memory: Shared, cluster: &EntCluster) -> i32 {
    failure::reserve();
    let (notes_in, notes) = channel();
    // A process has one worker; in tests maybe more, of which the first has the log.
    let _ = tracing::subscriber::set_global_default(ToMain(notes_in.clone()));
    match open_tier(settings, memory, cluster) {
        Ok((tier, report)) => {
            info!(
                "flash cache \"{}\" opened: {} pages of {}, {} of them newer than disk, after {} ms",
                settings.flash.display(),
                report.entries,
                settings.tier.slots,
                report.dirty,
                report.duration.as_millis()
            );
            let puller = Arc::new(Puller(notes_in));
            let upstream: Arc<dyn Upstream> = puller.clone();
            let upstream: Weak<dyn Upstream> = Arc::downgrade(&upstream);
            tier.attach(upstream);
            let worker = Worker { tier, notes, pulls: None, _puller: puller };
            WORKER.with(|place| *place.borrow_mut() = Some(worker));
            code::DONE
        }
        Err(why) => {
            failure::say(&why);
            code::REFUSED
        }
    }
}

/// The name of a cluster's log, for the label: its system identifier.
fn log_of(cluster: &EntCluster) -> Uuid {
    Uuid::from_random(0x706f_7374_6772_6573, cluster.system_identifier)
}

fn open_tier(
    settings: &Settings,
    memory: Shared,
    cluster: &EntCluster,
) -> Result<(Arc<FlashTier>, OpenReport), String> {
    raise_limit_of_files();
    let sentence = |error: TierError| error.to_string();
    let is_needed = cluster.in_use && !cluster.backup;
    let (label, is_new) = open_label(&settings.folders.binding(), is_needed)?;
    let flash_options = FileOptions { create: !is_needed, ..FileOptions::create(settings.flash_bytes) };
    let flash = open_device(&settings.flash, flash_options).map_err(|error| error.to_string())?.device;
    let log = log_of(cluster);
    let binding = disk_binding(&label).map_err(sentence)?;
    if let Some(found) = binding.filter(|found| is_needed && found.log != log) {
        return Err(format!(
            "\"{}\" is of another cluster: it names {}, this cluster is {log}",
            settings.folders.binding().display(),
            found.log
        ));
    }
    if is_needed && let Some(marks) = marks_on(&*flash, &label).map_err(sentence)? {
        check_redo(marks, cluster.redo)?;
    }
    if !is_needed && renounce(&*flash, &label).map_err(sentence)? {
        info!("the files of the cluster are complete without the flash cache, which was emptied");
    }
    let files = Arc::new(RelationFiles::new(settings.folders.clone(), label, memory.board()));
    let sharing = Sharing { memory: Arc::new(memory), fronts: settings.processes };
    let options = settings.tier.clone();
    let (tier, report) = if is_new || binding.is_none() {
        let tier = FlashTier::create_shared(flash, files, options, &sharing).map_err(sentence)?;
        (tier, OpenReport::default())
    } else {
        FlashTier::open_shared(flash, files, options, &sharing).map_err(sentence)?
    };
    // A flash that was opened before has the mark already, and keeps the other one.
    if !is_needed {
        tier.mark([cluster.redo; 2]).map_err(sentence)?;
    }
    let session = Session { number: cluster.timeline.into(), nonce: 0 };
    tier.bind_log(log, session).map_err(sentence)?;
    Ok((tier, report))
}

/// The cluster begins redo where one of its last two checkpoints was that the flash knows. Else one of them
/// is an older state of itself, within one life of the server.
fn check_redo(marks: [u64; 2], redo: u64) -> Result<(), String> {
    if marks.contains(&redo) {
        return Ok(());
    }
    let lsn = |lsn: u64| format!("{:X}/{:X}", lsn >> 32, lsn as u32);
    let newest = marks[0].max(marks[1]);
    let what = match newest > redo {
        true => {
            "the cluster's files are an older state, a snapshot for instance: restore the flash of the same \
                 moment, or restore the cluster from a backup made with pg_basebackup"
        }
        false => "the flash is an older state of itself: attach the present one",
    };
    Err(format!(
        "the cluster's last checkpoint has its REDO pointer at {}, the flash knows those at {} and {}; {what}",
        lsn(redo),
        lsn(marks[0]),
        lsn(marks[1])
    ))
}

/// The file with the label, which binds the cluster to its flash; whether it was made now.
fn open_label(folder: &Path, is_needed: bool) -> Result<(FileDevice, bool), String> {
    let path = folder.join("label");
    let is_new = !path.exists();
    if is_new && is_needed {
        return Err(format!(
            "\"{}\" is missing, which says which flash the cluster needs; restore it with the rest of the cluster, \
             or restore the cluster from a backup",
            path.display()
        ));
    }
    let fail = |error: &dyn std::fmt::Display| format!("\"{}\": {error}", path.display());
    if is_new {
        fs::create_dir_all(folder).map_err(|error| fail(&error))?;
        let above = folder.parent().unwrap_or(folder);
        fs::File::open(above).and_then(|folder| folder.sync_all()).map_err(|error| fail(&error))?;
    }
    let options = FileOptions { is_direct_wanted: false, ..FileOptions::create(LABEL_AREA_BYTES) };
    let label = FileDevice::open(&path, options).map_err(|error| fail(&error))?;
    Ok((label, is_new))
}

/// A descriptor for each process of the server that is watched, and for each relation file that waits for its
/// sync.
fn raise_limit_of_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If it is refused, the limit stays as it is, and an open that fails says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// Calls the worker; `absent` if there is none.
fn with_worker<R>(absent: R, work: impl FnOnce(&mut Worker) -> R) -> R {
    WORKER.with(|worker| match &mut *worker.borrow_mut() {
        Some(worker) => work(worker),
        None => {
            failure::say(&"the flash cache is not open in this process");
            absent
        }
    })
}

/// What the main thread is to do next; waits for it.
pub(crate) fn wait(patience: Duration, next: &mut EntEvent) -> i32 {
    with_worker(code::GONE, |worker| {
        if worker.tier.is_given_up() {
            failure::say(&"a process died while it changed the flash cache's shared memory");
            *next = EntEvent { kind: event::FAILED, ..EntEvent::default() };
            return code::DONE;
        }
        if let Some(error) = worker.tier.failure() {
            failure::say(&error);
            *next = EntEvent { kind: event::FAILED, ..EntEvent::default() };
            return code::DONE;
        }
        match worker.notes.recv_timeout(patience) {
            Ok(Note::Message { level, text }) => {
                failure::say(&text);
                *next = EntEvent { kind: event::MESSAGE, level, pages: 0 };
                code::DONE
            }
            Ok(Note::Pull { pages, answer }) => {
                worker.pulls = Some(answer);
                let pages = i32::try_from(pages).unwrap_or(i32::MAX);
                *next = EntEvent { kind: event::PULL, pages, level: 0 };
                code::DONE
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => code::NOTHING,
        }
    })
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

/// Ends the cache. With `drain` all dirty pages go to disk first, and the cluster does not need its flash any
/// more; else it stays as it is, warm.
pub(crate) fn close(drain: bool) -> i32 {
    with_worker(code::GONE, |worker| {
        let closed = if drain { worker.tier.detach() } else { worker.tier.close() };
        match closed {
            Ok(()) => code::DONE,
            Err(error) => {
                failure::say(&error);
                failure::code_of(&error)
            }
        }
    })
}
