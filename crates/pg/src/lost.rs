//! A start of a cluster whose flash is lost: its log replaces it, from the horizon on ([`crate::horizon`]).
//!
//! The owner says so by a file in the cluster's folder, [`SIGNAL`], or the worker whose flash has died.
//!
//! 1. The horizon's file says `lost`, durably; the label names no flash.
//! 2. The server replays its log from the horizon on. There is no cache meanwhile.
//! 3. A checkpoint completes that has its REDO pointer behind the record that `lost` names.
//! 4. pg_control says that no flash is needed; both files are removed.
//!
//! A start that was cut off is repeated.

use crate::horizon::{Checkpoint, HorizonFile, Newest, Record};
use crate::locator::Folders;
use crate::notes;
use crate::opening::open_label;
use crate::small_file::SmallFile;
use crate::wal::show;
use entresol_engine::give_up_cache;
use std::collections::HashSet;
use std::fs;
use std::io;

/// The file's name.
pub(crate) const SIGNAL: &str = "flash_lost.signal";

/// A redo that replaces the flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Redo {
    pub from: Checkpoint,
    /// The record that it must reach.
    pub upto: Record,
}

fn signal(folders: &Folders) -> SmallFile {
    SmallFile::at(folders.data.join(SIGNAL))
}

fn said(path: &std::path::Path, what: &str, error: &io::Error) -> String {
    format!("\"{}\" cannot be {what}: {error}", path.display())
}

/// From the next start on, the flash is lost.
///
/// # Errors
/// A sentence: no log replaces it.
pub(crate) fn give_up(folders: &Folders) -> Result<Checkpoint, String> {
    let horizon = promise(folders)?;
    signal(folders).write(b"")?;
    Ok(horizon)
}

/// From where on the log would replace the flash.
///
/// # Errors
/// A sentence: it does not.
pub(crate) fn promise(folders: &Folders) -> Result<Checkpoint, String> {
    let said = HorizonFile::of(folders).read()?;
    said.and_then(|said| said.horizon()).ok_or_else(|| {
        "the write-ahead log does not replace the flash: it was not kept for that (entresol.flash_loss), or not yet".to_owned()
    })
}

/// The start of a cluster that needs its flash. `newest`: the checkpoint that pg_control names. `None`: the
/// flash is not said to be lost. Otherwise it is given up, durably. `has_target`: redo may end before the end
/// of the log, and so before the last changes that the files have.
///
/// # Errors
/// A sentence. Nothing was changed.
pub(crate) fn begin(
    folders: &Folders,
    newest: Newest,
    has_target: bool,
    segment_bytes: u64,
) -> Result<Option<Redo>, String> {
    let file = HorizonFile::of(folders);
    let known = file.read()?;
    let before = known.as_ref().and_then(|said| said.lost);
    if before.is_none() && !signal(folders).path().exists() {
        return Ok(None);
    }
    if has_target {
        return Err("recovery is to end at a target, and the files may have later changes".to_owned());
    }
    let from = promise(folders)?;
    let mut known = known.unwrap_or_default();
    // A redo that was cut off has put the horizon into pg_control, or a restartpoint after it.
    let last = known.kept.last().map_or(0, |last| last.redo_point.0);
    if before.is_none() && last > newest.1 {
        return Err(format!(
            "the files are of an older state than their horizon, which knows a checkpoint at {}: pg_control has one at {}; put \
             all files back to the same moment",
            show(last),
            show(newest.1)
        ));
    }
    check_segments(
        folders,
        from.redo_point.0,
        newest.0.lsn.max(before.map_or(0, |upto| upto.lsn)),
        segment_bytes,
    )?;
    let upto = before.filter(|upto| upto.lsn > newest.0.lsn).unwrap_or(newest.0);
    if known.lost != Some(upto) {
        known.lost = Some(upto);
        file.write(&known)?;
    }
    let (label, _) = open_label(&folders.binding(), true)?;
    give_up_cache(&label).map_err(|error| error.to_string())?;
    // What they say of files holds as long as there is a cache.
    notes::remove(&folders.binding()).map_err(|error| said(&folders.binding(), "changed", &error))?;
    Ok(Some(Redo { from, upto }))
}

/// Refuses if a segment of the log is not there. (That all can be read is known when they were replayed.)
fn check_segments(folders: &Folders, from: u64, upto: u64, segment_bytes: u64) -> Result<(), String> {
    let folder = folders.wal();
    let names = fs::read_dir(&folder).map_err(|error| said(&folder, "read", &error))?;
    let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_segment = |name: &String| name.len() == 24 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    // Of any timeline: which one has it, redo knows.
    let found: HashSet<String> = names.filter(is_segment).map(|name| name[8..].to_owned()).collect();
    let in_file = (1 << 32) / segment_bytes;
    let name = |number: u64| format!("{:08X}{:08X}", number / in_file, number % in_file);
    match (from / segment_bytes..=upto / segment_bytes).find(|number| !found.contains(&name(*number))) {
        None => Ok(()),
        Some(missing) => Err(format!(
            "the segment of the write-ahead log with {} is missing in \"{}\": its name ends with {}; restore it from an archive, \
             or the cluster from a backup",
            show(missing * segment_bytes),
            folder.display(),
            name(missing)
        )),
    }
}

/// The record that redo must reach, if it replaces the flash.
pub(crate) fn under_way(folders: &Folders) -> Option<Record> {
    HorizonFile::of(folders).read().ok()??.lost
}

/// The cluster does not need its flash: nothing says any more that it is lost. Whether something did.
///
/// # Errors
/// A sentence.
pub(crate) fn end(folders: &Folders) -> Result<bool, String> {
    let signal = signal(folders);
    let was_lost = signal.path().exists() || under_way(folders).is_some();
    if was_lost {
        HorizonFile::of(folders).remove()?;
        signal.remove()?;
    }
    Ok(was_lost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::horizon::Said;
    use entresol_core::Lsn;

    const SEGMENT: u64 = 1 << 24;

    fn checkpoint(number: u64, redo: u64) -> Checkpoint {
        Checkpoint { number, record: Record { lsn: redo + 40, timeline: 1 }, redo_point: Lsn(redo) }
    }

    /// A cluster whose log is kept from segment 3 on, and whose newest checkpoint is in segment 5.
    fn cluster() -> (tempfile::TempDir, Folders, Newest) {
        let folder = tempfile::tempdir().unwrap();
        let folders = Folders { data: folder.path().to_owned(), version: "PG".to_owned() };
        fs::create_dir(folders.wal()).unwrap();
        fs::create_dir(folders.binding()).unwrap();
        for segment in 2..=6 {
            fs::write(folders.wal().join(format!("0000000100000000{segment:08X}")), "").unwrap();
        }
        drop(open_label(&folders.binding(), false).unwrap());
        let kept = vec![checkpoint(7, 3 * SEGMENT), checkpoint(8, 5 * SEGMENT)];
        let said = Said { number: 8, promised: Some(7), kept: kept.clone(), ..Said::default() };
        HorizonFile::of(&folders).write(&said).unwrap();
        (folder, folders, (kept[1].record, kept[1].redo_point.0))
    }

    #[test]
    fn a_lost_flash_is_given_up_until_redo_has_replaced_it() {
        let (_folder, folders, newest) = cluster();
        for has_target in [false, true] {
            assert_eq!(begin(&folders, newest, has_target, SEGMENT), Ok(None), "there is no signal");
        }
        assert_eq!(end(&folders), Ok(false));
        assert_eq!(give_up(&folders), Ok(checkpoint(7, 3 * SEGMENT)));
        let redo = Redo { from: checkpoint(7, 3 * SEGMENT), upto: newest.0 };
        assert!(begin(&folders, newest, true, SEGMENT).unwrap_err().contains("target"));
        assert_eq!(under_way(&folders), None, "nothing is given up for a target");
        assert_eq!(begin(&folders, newest, false, SEGMENT), Ok(Some(redo)));
        // A redo that is cut off leaves the horizon in pg_control, and it counts without the signal.
        signal(&folders).remove().unwrap();
        let horizon = checkpoint(7, 3 * SEGMENT);
        let horizon = (horizon.record, horizon.redo_point.0);
        assert_eq!(begin(&folders, horizon, false, SEGMENT), Ok(Some(redo)));
        assert!(begin(&folders, horizon, true, SEGMENT).unwrap_err().contains("target"));
        // Of a standby: a restartpoint that is newer.
        let later = checkpoint(9, 6 * SEGMENT);
        let upto = Redo { upto: later.record, ..redo };
        assert_eq!(begin(&folders, (later.record, later.redo_point.0), false, SEGMENT), Ok(Some(upto)));
        assert_eq!(end(&folders), Ok(true));
        assert_eq!((end(&folders), under_way(&folders)), (Ok(false), None));
        assert!(promise(&folders).unwrap_err().contains("entresol.flash_loss"));
    }

    #[test]
    fn nothing_is_given_up_if_the_log_does_not_replace_it() {
        let (_folder, folders, newest) = cluster();
        give_up(&folders).unwrap();
        let older = checkpoint(7, 4 * SEGMENT);
        let refused = begin(&folders, (older.record, older.redo_point.0), false, SEGMENT).unwrap_err();
        assert!(refused.contains("0/5000000") && refused.contains("0/4000000"), "{refused}");
        fs::remove_file(folders.wal().join("000000010000000000000004")).unwrap();
        let refused = begin(&folders, newest, false, SEGMENT).unwrap_err();
        assert!(refused.contains("0/4000000") && refused.contains("0000000000000004"), "{refused}");
        assert_eq!(under_way(&folders), None);
    }
}
