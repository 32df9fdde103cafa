//! Commands for the owner of journals: list them, say whose they are, and remove unneeded ones.

use super::file::{self, Looked, boot, count, in_usual_folder, open_file, origin};
use super::{Journal, Names};
use crate::open::{device_error, open};
use crate::{OpenError, VolumeConfig, VolumeError};
use entresol_engine::{TierError, Uuid, disk_binding, name_no_log};
use serde::Serialize;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

/// The use of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalState {
    /// A program has it open.
    Held,
    /// The label of its volume names it: the next start carries its writes out.
    Needed,
    /// The label of its volume cannot be read: is the volume gone, or is its folder not mounted?
    Unknown,
    /// Its volume was opened without it since.
    Stale,
    /// Nothing is in it: its server has ended, or the machine was started anew.
    Empty,
    /// Another version of the program has made it.
    AnotherVersion,
}

/// A journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JournalReport {
    /// The file.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Its use.
    pub state: JournalState,
    /// Its volume.
    pub volume: Option<Names>,
    /// Acknowledged writes in it. `None`: not known.
    pub writes: Option<u64>,
}

/// Whether a program has a file open for itself.
pub(crate) fn held(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// The journal that the label at `path` names. `None`: it cannot be read.
fn named_by(path: &Path) -> Option<Uuid> {
    let device = crate::open::look("label", path).ok()?;
    Some(disk_binding(&*device).ok()??.log)
}

fn report(path: PathBuf, looked: Looked) -> Option<JournalReport> {
    let bytes = path.metadata().ok()?.len();
    let life = looked.life();
    let (is_other, volume) = match looked {
        Looked::Journal { names, .. } => (false, names.map(|names| *names)),
        Looked::AnotherVersion => (true, None),
        Looked::Blank | Looked::NoJournal => return None,
    };
    let state = match &volume {
        _ if held(&path) => JournalState::Held,
        _ if is_other => JournalState::AnotherVersion,
        _ if life == Uuid::NIL => JournalState::Empty,
        None => JournalState::Unknown,
        Some(volume) => match named_by(&volume.label) {
            None => JournalState::Unknown,
            Some(log) if log == life => JournalState::Needed,
            Some(_) => JournalState::Stale,
        },
    };
    let writes = match state {
        JournalState::Held | JournalState::AnotherVersion => None,
        JournalState::Empty => Some(0),
        JournalState::Needed | JournalState::Unknown | JournalState::Stale => count(&path),
    };
    Some(JournalReport { path, bytes, state, volume, writes })
}

/// The journals of this user in the folder where they are unless their owners say otherwise.
pub fn journals() -> Vec<JournalReport> {
    in_usual_folder().into_iter().filter_map(|(path, looked)| report(path, looked)).collect()
}

/// Removes the journal at `path`, if no volume needs it. `force`: also if one needs it, or may.
///
/// # Errors
/// [`OpenError`]; then it is there. A file that is no journal, or that a program has open, is refused always.
pub fn remove_journal(path: &Path, force: bool) -> Result<JournalReport, OpenError> {
    let refuse = |why: String| Err(device_error("journal", path, why));
    let looked = match Looked::at(path)? {
        Looked::Blank => return refuse("is not there, or empty".to_owned()),
        looked => looked,
    };
    let Some(report) = report(path.to_owned(), looked) else {
        return refuse("is no journal; it was not removed".to_owned());
    };
    let writes = match report.writes {
        Some(writes) => format!("{writes} acknowledged writes"),
        None => "perhaps acknowledged writes".to_owned(),
    };
    let label =
        report.volume.as_ref().map_or("unknown".to_owned(), |volume| volume.label.display().to_string());
    match report.state {
        JournalState::Held => return refuse("a program has it open; stop the server first".to_owned()),
        JournalState::Needed if !force => {
            return refuse(format!(
                "has {writes} of the volume whose label is {label}; start its server, which carries them out, or lose them \
                 with --force"
            ));
        }
        JournalState::Unknown | JournalState::AnotherVersion if !force => {
            return refuse(format!(
                "has {writes} of a volume whose label ({label}) cannot be read; if that volume is gone: --force"
            ));
        }
        _ => {}
    }
    std::fs::remove_file(path).map_err(|error| device_error("journal", path, error))?;
    Ok(report)
}

fn label_of(config: &VolumeConfig) -> Result<(std::sync::Arc<dyn entresol_device::Device>, Uuid), OpenError> {
    // Locked: no server has it open.
    let label = open("label", &config.label, false)?;
    let log = disk_binding(&*label)?.map_or(Uuid::NIL, |binding| binding.log);
    Ok((label, log))
}

/// The journal of the configuration is this volume's, whose parts were moved, or attached anew: the owner
/// says so. Returns the number of acknowledged writes in it.
///
/// # Errors
/// [`OpenError`], if the disk's label does not name it.
pub fn accept_journal(config: &VolumeConfig) -> Result<u64, OpenError> {
    let (_label, log) = label_of(config)?;
    let looked = Looked::at(&config.journal)?;
    if log == Uuid::NIL || looked.life() != log {
        return Err(device_error(
            "journal",
            &config.journal,
            "is not the one that the disk's label names: there is nothing to accept",
        ));
    }
    let journal = Journal::open(open_file(config)?, origin(config)?).map_err(VolumeError::Journal)?;
    journal.accept().and_then(|()| journal.count()).map_err(|error| VolumeError::Journal(error).into())
}

/// The volume continues without the journal that its disk's label names: acknowledged writes that were not
/// flushed may be missing. The file of the journal stays: it may be of the volume that this is a copy of.
/// False: the label names none.
///
/// # Errors
/// [`OpenError`], if the journal is there and this volume's: the next start carries its writes out.
pub fn go_without_journal(config: &VolumeConfig) -> Result<bool, OpenError> {
    let (label, log) = label_of(config)?;
    if log == Uuid::NIL {
        return Ok(false);
    }
    if let Ok(looked @ Looked::Journal { .. }) = Looked::at(&config.journal)
        && looked.life() == log
        && matches!(&looked, Looked::Journal { head, is_whole: true, .. } if head.parts == origin(config)?.parts)
    {
        return Err(device_error(
            "journal",
            &config.journal,
            format!(
                "is there, and this volume's: the next start of the server carries out what is in it ({} writes). To lose \
                 them: `entresol volume journal remove {} --force`",
                file::count(&config.journal).unwrap_or(0),
                config.journal.display()
            ),
        ));
    }
    name_no_log(&*label).map(|()| true).map_err(TierError::into)
}

impl Journal {
    /// Records in it since the machine's last start.
    pub fn count(&self) -> Result<u64, entresol_device::DeviceError> {
        let state = self.state.lock();
        let first = state.head.first;
        if state.head.life == Uuid::NIL || state.head.boot != boot() {
            return Ok(0);
        }
        Ok(self.records(first)?.len() as u64)
    }
}
