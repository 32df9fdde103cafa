//! The file of a journal. It is in a folder where every user may make files, and its path is written by
//! people. So nothing is overwritten or removed that is not known to be a journal.
//!
//! A new file has a head before it has its size. So a file that is not empty and has no head is no journal,
//! whatever a kill has cut off.

use super::in_memory::InMemory;
use super::record::{HEAD_BYTES, Head, NAMES_AT, NAMES_BYTES};
use super::{HEADS, Identity, Journal, Names, Origin, Parts, RING_AT};
use crate::open::device_error;
use crate::{OpenError, VolumeConfig};
use entresol_device::{Device, FileDevice, FileOptions};
use entresol_engine::Uuid;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Result as IoResult};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where journals are, unless their owners say otherwise, and how their names begin and end.
const FOLDER: &str = "/dev/shm";
const NAME: (&str, &str) = ("entresol-", ".journal");

/// The start of this machine that its kernel names. Nil if it names none: then a journal outside of memory
/// must not be kept over a power failure.
pub(crate) fn boot() -> Uuid {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).map_or(Uuid::NIL, |number| Uuid(number.to_be_bytes()))
}

/// The keeper of this volume's journal.
pub(crate) fn origin(config: &VolumeConfig) -> Result<Origin, OpenError> {
    let of = |what, path: &Path| Identity::of(path).map_err(|error| device_error(what, path, error));
    let parts = Parts {
        disk: of("disk", &config.disk)?,
        // It may have been taken away.
        flash: Identity::of(&config.flash).unwrap_or_default(),
        label: of("label", &config.label)?,
    };
    let VolumeConfig { name, disk, flash, label, .. } = config.clone();
    Ok(Origin { boot: boot(), parts, names: Some(Names { name, disk, flash, label }) })
}

/// The kind of a file, by its first sectors.
pub(super) enum Looked {
    /// Empty, or not there.
    Blank,
    /// Of another version of the program.
    AnotherVersion,
    /// Something else.
    NoJournal,
    /// A journal; whether it has the size that it was made with.
    Journal { head: Box<Head>, is_whole: bool, names: Option<Box<Names>> },
}

impl Looked {
    /// At a regular file of this user.
    pub fn at(path: &Path) -> Result<Self, OpenError> {
        let refuse = |why: String| device_error("journal", path, why);
        let metadata = match path.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::Blank),
            Err(error) => return Err(refuse(error.to_string())),
            Ok(metadata) => metadata,
        };
        if !metadata.is_file() || metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(refuse(
                "is not a regular file of this user; set `journal` to another path".to_owned(),
            ));
        }
        if metadata.len() == 0 {
            return Ok(Self::Blank);
        }
        File::open(path)
            .and_then(|file| Self::read(&file, metadata.len()))
            .map_err(|error| refuse(error.to_string()))
    }

    fn read(file: &File, length: u64) -> IoResult<Self> {
        let mut newest: Option<(Head, u64)> = None;
        let mut is_older = false;
        let mut block = [0; HEAD_BYTES];
        for at in HEADS.into_iter().filter(|at| at + HEAD_BYTES as u64 <= length) {
            file.read_exact_at(&mut block, at)?;
            is_older |= Head::is_of_another_version(&block);
            if let Some(found) = Head::decode_of_any_size(&block)
                && newest.as_ref().is_none_or(|(best, _)| best.sequence < found.0.sequence)
            {
                newest = Some(found);
            }
        }
        let Some((head, ring_bytes)) = newest else {
            return Ok(if is_older { Self::AnotherVersion } else { Self::NoJournal });
        };
        let mut text = vec![0; NAMES_BYTES];
        let names =
            file.read_exact_at(&mut text, NAMES_AT).ok().and_then(|()| Names::decode(&text)).map(Box::new);
        Ok(Self::Journal {
            head: Box::new(head),
            is_whole: ring_bytes.checked_add(RING_AT) == Some(length),
            names,
        })
    }

    /// The life that is in it since the machine's last start. Nil: none.
    pub fn life(&self) -> Uuid {
        match self {
            Self::Journal { head, .. } if head.boot == boot() => head.life,
            _ => Uuid::NIL,
        }
    }
}

/// Opens the journal of the volume, or makes it. A file that is no journal is refused and not changed.
pub(crate) fn open_file(config: &VolumeConfig) -> Result<Arc<dyn Device>, OpenError> {
    let path = &config.journal;
    let refuse = |why: String| device_error("journal", path, why);
    let length = path.metadata().map_or(0, |metadata| metadata.len());
    let looked = Looked::at(path)?;
    let is_new = match &looked {
        Looked::Blank => true,
        Looked::Journal { is_whole, .. } => {
            if !is_whole && looked.life() != Uuid::NIL {
                return Err(refuse(
                    "was cut off or has grown since it was made, and a killed server's writes are in it; restore its size, \
                     or go on without it: `entresol volume journal without CONFIG`"
                        .to_owned(),
                ));
            }
            !is_whole
        }
        Looked::NoJournal => {
            return Err(refuse(
                "exists and is no journal; it was not changed. Set `journal` to a path of its own".to_owned(),
            ));
        }
        Looked::AnotherVersion => {
            return Err(refuse(
                "is a journal of another version of entresol, which may hold acknowledged writes. Start and stop the \
                 volume once with that version; or remove the file, and go on without it: `entresol volume journal \
                 without CONFIG`"
                    .to_owned(),
            ));
        }
    };
    let device = |options| FileDevice::open(path, options).map_err(|error| refuse(error.to_string()));
    let options = if is_new {
        let bytes = config.journal_bytes;
        make(path, bytes, length).map_err(|error| {
            refuse(format!("cannot be made ({error}); set `journal` to another path, or to \"\""))
        })?;
        FileOptions::create(bytes)
    } else {
        // The file of a killed server is used unchanged.
        FileOptions::existing()
    };
    Ok(InMemory::or_file(device(FileOptions { is_direct_wanted: false, ..options })?, path))
}

/// A head that says that there is nothing, in a file without more. Refused if another program has just made
/// one there.
fn make(path: &Path, bytes: u64, length: u64) -> IoResult<()> {
    // Not through a link, which may have been made meanwhile.
    let flags = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(0o600).custom_flags(flags).open(path)?;
    let is_same = file.try_lock().is_ok() && file.metadata()?.len() == length;
    if !is_same {
        return Err(std::io::Error::other("another program uses it"));
    }
    file.set_len(0)?;
    let mut block = [0; HEAD_BYTES];
    Head::default().encode(bytes - RING_AT, &mut block);
    file.write_all_at(&block, HEADS[0])
}

/// The journals in the usual folder, with their kinds. Unreadable ones are omitted.
pub(super) fn in_usual_folder() -> Vec<(PathBuf, Looked)> {
    let entries = std::fs::read_dir(FOLDER).into_iter().flatten().flatten();
    let is_one = |name: &str| name.starts_with(NAME.0) && name.ends_with(NAME.1);
    let mut paths: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_str().is_some_and(is_one))
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths.into_iter().filter_map(|path| Looked::at(&path).ok().map(|looked| (path, looked))).collect()
}

/// Refuses a volume whose label names a journal that is not the one of the configuration, and is in the usual
/// folder. `log`: the journal that the label names.
pub(crate) fn check_elsewhere(config: &VolumeConfig, log: Uuid) -> Result<(), OpenError> {
    let is_named = |looked: &Looked| log != Uuid::NIL && looked.life() == log;
    if log == Uuid::NIL || Looked::at(&config.journal).is_ok_and(|looked| is_named(&looked)) {
        return Ok(());
    }
    let found = in_usual_folder().into_iter().find(|(_, looked)| is_named(looked));
    found.map_or(Ok(()), |(path, _)| {
        Err(device_error(
            "journal",
            &path,
            "has acknowledged writes of the volume that this disk's label names, but the configuration names another \
             journal, or none. If this is the volume: set `journal` to this path. If it is a copy, or is to go on without \
             these writes: `entresol volume journal without CONFIG`",
        ))
    })
}

/// How many acknowledged writes of a killed server wait in the journal of a volume whose label names `log`.
/// `None`: the label names a journal, and it is gone.
pub(crate) fn waiting(config: &VolumeConfig, log: Uuid) -> Option<u64> {
    match Looked::at(&config.journal) {
        _ if log == Uuid::NIL => Some(0),
        Ok(looked) if looked.life() == log => Some(count(&config.journal).unwrap_or(0)),
        Ok(Looked::Journal { head, .. }) if head.boot == boot() && head.ended == log => Some(0),
        _ => None,
    }
}

/// The records in the journal at `path`, which is only read.
pub(super) fn count(path: &Path) -> Option<u64> {
    let options = FileOptions { is_direct_wanted: false, ..FileOptions::shared() };
    let journal = Journal::open(Arc::new(FileDevice::open(path, options).ok()?), boot()).ok()?;
    journal.count().ok()
}

/// Removes the journal of a volume that was closed, if nothing is in it.
pub(crate) fn remove_ended(config: &VolumeConfig) {
    if let Ok(looked @ Looked::Journal { .. }) = Looked::at(&config.journal)
        && looked.life() == Uuid::NIL
    {
        // An empty one may stay.
        let _ = std::fs::remove_file(&config.journal);
    }
}
