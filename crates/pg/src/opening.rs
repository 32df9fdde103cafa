//! Opens the cache of a cluster, if the flash is the cluster's and of the same moment, or makes one.

use crate::files::RelationFiles;
use crate::memory::Shared;
use crate::moving::Moving;
use crate::notes::Notes;
use crate::settings::Settings;
use crate::types::EntCluster;
use crate::wal::{LogAt, Wal, show};
use entresol_device::{Device, FileDevice, FileOptions, open_device};
use entresol_engine::{
    FlashTier, Layer, OpenReport, Session, Sharing, TierError, TierOptions, Uuid, cache_on, disk_binding,
    flash_bytes, is_disk_bound, marks_on, renewals_that_differ, renounce,
};
use entresol_format::label::LABEL_AREA_BYTES;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use tracing::{info, warn};

/// Why the cache is not opened.
pub(crate) enum Refusal {
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
pub(crate) fn log_of(cluster: &EntCluster) -> Uuid {
    Uuid::from_random(0x706f_7374_6772_6573, cluster.system_identifier)
}

/// Whether the cluster needs the pages on its flash.
pub(crate) fn is_needed(cluster: &EntCluster) -> bool {
    cluster.in_use && !cluster.backup
}

/// A cache that was opened.
pub(crate) struct Opened {
    pub tier: Arc<FlashTier>,
    pub report: OpenReport,
    /// Of the cache: it may have another size or flash than was asked for.
    pub settings: Settings,
    pub flash: Arc<dyn Device>,
    pub files: Arc<RelationFiles>,
}

/// Opens it, as `wanted` says. A cache with pages that the cluster needs keeps its size, and its flash if
/// that was being exchanged: it is changed when the server runs.
pub(crate) fn open_tier(
    wanted: &Settings,
    memory: Shared,
    cluster: &EntCluster,
    notes: &Arc<Notes>,
) -> Result<Opened, Refusal> {
    raise_limit_of_files();
    let (label, is_new) = open_label(&wanted.folders.binding(), is_needed(cluster))?;
    let binding = disk_binding(&label)?;
    // A change was cut off between the end of one cache and the beginning of the next: the files are
    // complete.
    let is_free = binding.is_some() && !is_disk_bound(&label)?;
    let is_needed = is_needed(cluster) && !is_free;
    let settings = match is_needed {
        true => as_bound(wanted, &label)?,
        false => wanted.clone(),
    };
    let moving = Moving::of(&settings.folders);
    if settings.flash == wanted.flash {
        moving.ends()?;
    }
    if let Some(why) = out_of_reach(&settings.flash) {
        return Err(Refusal::Flash(why));
    }
    let flash_options = FileOptions { create: !is_needed, ..FileOptions::create(settings.flash_bytes) };
    let flash = open_device(&settings.flash, flash_options).map_err(|error| error.to_string())?.device;
    if let Some(file) = flash.queued() {
        memory.board().flash.set(std::process::id(), file.descriptor());
    }
    let log = log_of(cluster);
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
    let keeps = is_needed || is_ours && !cluster.backup && is_present(&settings, &*flash, &label, cluster)?;
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
    let files = Arc::new(files.with_notes(notes.clone(), memory));
    let sharing = Sharing { memory: Arc::new(memory), fronts: settings.processes };
    let options = settings.tier.clone();
    let (tier, report) = if is_new || binding.is_none() {
        (FlashTier::create_shared(flash.clone(), files.clone(), options, &sharing)?, OpenReport::default())
    } else {
        FlashTier::open_shared(flash.clone(), files.clone(), options, &sharing)?
    };
    // A flash that was opened before has the mark already, and keeps the other one.
    if !keeps || report.entries == 0 {
        tier.mark([cluster.redo; 2])?;
    }
    tier.bind_log(log, session_of(cluster))?;
    Ok(Opened { tier, report, settings, flash, files })
}

/// The session of the cluster's log, for the label.
pub(crate) fn session_of(cluster: &EntCluster) -> Session {
    Session { number: cluster.timeline.into(), nonce: 0 }
}

/// The cache of a cluster that needs it may have another size than is wanted, or is still on the flash that
/// is being exchanged for the one that is wanted.
fn as_bound(wanted: &Settings, label: &FileDevice) -> Result<Settings, String> {
    let options = FileOptions { is_direct_wanted: false, ..FileOptions::shared() };
    let bound_on = |flash: &Path| {
        let device = FileDevice::open(flash, options).ok()?;
        FlashTier::bound_options(&device, label).ok().flatten()
    };
    let older = Moving::of(&wanted.folders).from(&wanted.flash);
    let (flash, found) = match (bound_on(&wanted.flash), older) {
        (None, Some(older)) => (older.clone(), bound_on(&older)),
        (found, _) => (wanted.flash.clone(), found),
    };
    let Some(found) = found else { return Ok(wanted.clone()) };
    if flash != wanted.flash {
        warn!(
            "the flash cache is still on \"{}\": it is exchanged for \"{}\" when the server runs",
            flash.display(),
            wanted.flash.display()
        );
    }
    if found.slots == wanted.tier.slots && flash == wanted.flash {
        return Ok(wanted.clone());
    }
    let bound = wanted.clone().changed(flash, flash_bytes(&found), wanted.tier.policy, wanted.tier.mode)?;
    // Else the open says what differs.
    Ok(if bound.tier.slots == found.slots { bound } else { wanted.clone() })
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
pub(crate) fn open_label(folder: &Path, is_needed: bool) -> Result<(FileDevice, bool), String> {
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
