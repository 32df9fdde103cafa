//! The back, in the background worker: its threads write flash and relation files. The main thread, which
//! alone may call PostgreSQL, gets its tasks here.

use crate::files::RelationFiles;
use crate::log::ToMain;
use crate::memory::{Board, Shared};
use crate::notes::Notes;
use crate::settings::Settings;
use crate::types::{EntCluster, EntEvent, close, code, event};
use crate::wal::{LogAt, Wal, show};
use crate::{benefit, failure};
use entresol_core::{Lsn, PageId, Placement};
use entresol_device::{Device, FileDevice, FileOptions, open_device};
use entresol_engine::{
    DailyWrites, FlashTier, HOW_TO_DETACH, Layer, OpenReport, PageCache, Session, Sharing, TierError,
    TierOptions, Upstream, Uuid, cache_on, disk_binding, disown, marks_on, renewals_that_differ, renounce,
};
use entresol_format::label::LABEL_AREA_BYTES;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::cell::RefCell;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
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
struct Puller(Sender<Request>);

impl Upstream for Puller {
    fn pull_victims(&self, pages: usize) -> usize {
        let (answer, pulled) = channel();
        if self.0.send(Request::Pull { pages, answer }).is_err() {
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
    board: &'static Board,
    /// Of durable pages. `None`: none are taken.
    notes: Option<Arc<Notes>>,
    requests: Receiver<Request>,
    /// The waiters for the present pull.
    pulls: Option<Sender<usize>>,
    /// The server knows that the cache has switched itself off.
    is_told_off: bool,
    /// Bytes of the flash.
    flash_bytes: u64,
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
    let (requests_in, requests) = channel();
    // A process has one worker; in tests maybe more, of which the first has the log.
    let _ = tracing::subscriber::set_global_default(ToMain(requests_in.clone()));
    let board = memory.board();
    // In slots a page may be written to disk whose slot is not durable; and files that are written through
    // need no notes.
    let takes_notes = !settings.is_through() && settings.tier.policy.placement() == Placement::Log;
    let notes = takes_notes.then(|| Arc::new(Notes::new(settings.folders.binding(), &board.notes)));
    match open_tier(settings, memory, cluster, notes.clone()) {
        Ok((tier, report)) => {
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
            let puller = Arc::new(Puller(requests_in));
            let upstream: Arc<dyn Upstream> = puller.clone();
            let upstream: Weak<dyn Upstream> = Arc::downgrade(&upstream);
            if !cluster.alone {
                tier.attach(upstream);
            }
            tier.limit_writes(settings.writes_per_day);
            let worker = Worker {
                tier,
                board,
                notes,
                requests,
                pulls: None,
                is_told_off: false,
                flash_bytes: settings.flash_bytes,
                _puller: puller,
            };
            WORKER.with(|place| *place.borrow_mut() = Some(worker));
            code::DONE
        }
        Err(refusal) => refuse(settings, cluster, refusal),
    }
}

/// Why the cache is not opened.
enum Refusal {
    /// The flash cannot be reached, or cannot be read.
    Flash(String),
    /// Anything else.
    Other(String),
}

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Self::Other(why)
    }
}

impl From<TierError> for Refusal {
    fn from(error: TierError) -> Self {
        match error {
            TierError::Device { role: "flash", .. } => Self::Flash(error.to_string()),
            _ => Self::Other(error.to_string()),
        }
    }
}

/// The name of a cluster's log, for the label: its system identifier.
fn log_of(cluster: &EntCluster) -> Uuid {
    Uuid::from_random(0x706f_7374_6772_6573, cluster.system_identifier)
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

/// Whether the cluster needs the pages on its flash.
fn is_needed(cluster: &EntCluster) -> bool {
    cluster.in_use && !cluster.backup
}

fn open_tier(
    settings: &Settings,
    memory: Shared,
    cluster: &EntCluster,
    notes: Option<Arc<Notes>>,
) -> Result<(Arc<FlashTier>, OpenReport), Refusal> {
    raise_limit_of_files();
    let is_needed = is_needed(cluster);
    let (label, is_new) = open_label(&settings.folders.binding(), is_needed)?;
    if let Some(why) = out_of_reach(&settings.flash) {
        return Err(Refusal::Flash(why));
    }
    let flash_options = FileOptions { create: !is_needed, ..FileOptions::create(settings.flash_bytes) };
    let flash = open_device(&settings.flash, flash_options).map_err(|error| error.to_string())?.device;
    if let Some(file) = flash.queued() {
        memory.board().flash.set(std::process::id(), file.descriptor());
    }
    let log = log_of(cluster);
    let binding = disk_binding(&label)?;
    if let Some(found) = binding.filter(|found| is_needed && found.log != log) {
        return Err(Refusal::Other(format!(
            "\"{}\" is of another cluster: it names {}, this cluster is {log}",
            settings.folders.binding().display(),
            found.log
        )));
    }
    let older = what_is_older(&*flash, &label, cluster)?;
    if let Some(why) = older.as_ref().filter(|_| is_needed) {
        return Err(Refusal::Other(why.clone()));
    }
    let is_ours = binding.is_some_and(|found| found.log == log) && older.is_none();
    let keeps = is_needed || is_ours && !cluster.backup && is_present(settings, &*flash, &label, cluster)?;
    if !keeps && renounce(&*flash, &label)? {
        let why = older.map_or_else(String::new, |why| format!(" ({why})"));
        info!("the files of the cluster are complete without the flash cache, which was emptied{why}");
    }
    let log_at = LogAt {
        folder: settings.folders.wal(),
        segment_bytes: cluster.segment_bytes.into(),
        timeline: cluster.timeline,
        redo: cluster.redo,
    };
    let wal = (cluster.segment_bytes > 0).then(|| Wal::new(log_at, &memory.board().log));
    let files = RelationFiles::new(settings.folders.clone(), label, memory.board()).with_log(wal);
    let files = Arc::new(match notes {
        Some(notes) => files.with_notes(notes, memory),
        None => files,
    });
    let sharing = Sharing { memory: Arc::new(memory), fronts: settings.processes };
    let options = settings.tier.clone();
    let (tier, report) = if is_new || binding.is_none() {
        (FlashTier::create_shared(flash, files, options, &sharing)?, OpenReport::default())
    } else {
        FlashTier::open_shared(flash, files, options, &sharing)?
    };
    // A flash that was opened before has the mark already, and keeps the other one.
    if !keeps || report.entries == 0 {
        tier.mark([cluster.redo; 2])?;
    }
    let session = Session { number: cluster.timeline.into(), nonce: 0 };
    tier.bind_log(log, session)?;
    Ok((tier, report))
}

/// Whether the flash of a cluster that does not need it has its pages of now: they were written through, or
/// it was drained, and the cluster begins redo where one of its last two checkpoints was that the flash
/// knows. Then no server has completed a checkpoint without the cache; and changes without one are in the log
/// that is replayed now, as after a crash.
fn is_present(
    settings: &Settings,
    flash: &dyn Device,
    label: &FileDevice,
    cluster: &EntCluster,
) -> Result<bool, TierError> {
    let Some(found) = cache_on(flash, label)? else { return Ok(false) };
    let wanted = &settings.tier;
    let shape = |options: &TierOptions| {
        let TierOptions { page_format, slots, group_pages, segment_entries, objects, .. } = *options;
        (page_format, slots, group_pages, segment_entries, objects, options.policy.placement())
    };
    let is_clean = !found.dirty_possible;
    Ok(is_clean && shape(&found.options) == shape(wanted) && found.marks.contains(&cluster.redo))
}

/// Why the flash cannot be reached, if it cannot: its device is not there, or does not answer. Any other
/// reason is a mistake in the configuration.
fn out_of_reach(flash: &Path) -> Option<String> {
    let error = fs::File::open(flash).err()?;
    let is_gone = match error.kind() {
        // Files under /dev/shm are files.
        std::io::ErrorKind::NotFound => flash.starts_with("/dev") && !flash.starts_with("/dev/shm"),
        _ => error
            .raw_os_error()
            .and_then(|code| GONE.iter().find(|gone| gone.raw_os_error() == code))
            .is_some(),
    };
    is_gone.then(|| format!("\"{}\" cannot be reached: {error}", flash.display()))
}

/// The system's errors for a device that is gone.
const GONE: [Errno; 4] = [Errno::IO, Errno::NXIO, Errno::NODEV, Errno::NOTCONN];

/// Why the flash and the cluster's files are not of the same moment, as far as the binding tells: an open
/// compares the log, too.
fn what_is_older(
    flash: &dyn Device,
    label: &FileDevice,
    cluster: &EntCluster,
) -> Result<Option<String>, TierError> {
    if cluster.target {
        let why = "recovery is to end at a target, and the flash may have pages of later changes: take the cluster's flash away, \
                   and restore a base backup, or recover without a target";
        return Ok(Some(why.to_owned()));
    }
    if let Some([seen, found]) = renewals_that_differ(flash, label)? {
        let what = if found < seen { FILES_ARE_OLDER } else { FLASH_IS_OLDER };
        return Ok(Some(format!(
            "the flash has seen renewal {seen} of the cluster's label, which has {found}; {what}"
        )));
    }
    Ok(marks_on(flash, label)?.and_then(|marks| check_redo(marks, cluster.redo).err()))
}

/// The meaning of a label, or a last checkpoint, that is older than the flash knows it.
const FILES_ARE_OLDER: &str = "the flash is newer than the cluster's files, which were put back to an earlier state, a snapshot for \
                               instance: put the flash back to the same moment, too, or restore the cluster from a backup made \
                               with pg_basebackup";
const FLASH_IS_OLDER: &str =
    "the cluster's files are newer than the flash, which is an older state of itself: attach the present one";

/// The cluster begins redo where one of its last two checkpoints was that the flash knows. Else one of them
/// is an older state of itself, within one life of the server.
fn check_redo(marks: [u64; 2], redo: u64) -> Result<(), String> {
    if marks.contains(&redo) {
        return Ok(());
    }
    let newest = marks[0].max(marks[1]);
    let what = if newest > redo { FILES_ARE_OLDER } else { FLASH_IS_OLDER };
    Err(format!(
        "the cluster's last checkpoint has its REDO pointer at {}, the flash knows those at {} and {}; {what}",
        show(redo),
        show(marks[0]),
        show(marks[1])
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
    if is_new {
        // As all files of the cluster: its group may read it if that may enter the folder (initdb -g).
        let entered = fs::metadata(folder).map_err(|error| fail(&error))?.permissions().mode();
        fs::set_permissions(&path, Permissions::from_mode(entered & 0o640)).map_err(|error| fail(&error))?;
    }
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

/// The next task of the main thread; waits for it.
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
        if !worker.is_told_off
            && let Some(notice) = worker.tier.notice()
        {
            worker.is_told_off = true;
            // From now on the server writes its files without telling.
            if let Some(notes) = worker.notes.take() {
                notes.end();
            }
            failure::say(&notice);
            *next = EntEvent { kind: event::OFF, ..EntEvent::default() };
            return code::DONE;
        }
        worker.board.around.allow(worker.tier.allowed_writes());
        benefit::tick(worker.board, || worker.tier.metrics());
        if let Some(notes) = &worker.notes {
            notes.tick();
        }
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
        if let Some(notes) = &worker.notes {
            notes.begin();
        }
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
        worker.tier.limit_writes(writes.bytes(worker.flash_bytes));
        code::DONE
    })
}

/// Ends the cache as `how` says ([`crate::types::close`]). `redo` is the REDO pointer of the last checkpoint
/// that is complete.
pub(crate) fn close(how: u32, redo: u64) -> i32 {
    with_worker(code::GONE, |worker| {
        let tier = &worker.tier;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_may_read_the_label_if_it_may_enter_the_folder() {
        for (entered, read) in [(0o700, 0o600), (0o750, 0o640)] {
            let folder = tempfile::tempdir().unwrap();
            fs::set_permissions(&folder, Permissions::from_mode(entered)).unwrap();
            assert!(open_label(folder.path(), false).unwrap().1, "it is new");
            let label = fs::metadata(folder.path().join("label")).unwrap();
            assert_eq!(label.permissions().mode() & 0o777, read);
        }
    }
}
