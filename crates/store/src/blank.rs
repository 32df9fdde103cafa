//! Whether a new store may overwrite disk and log: neither has a store that its owner may want.

use crate::StoreError;
use crate::wal::blocks;
use entresol_device::{Contents, Device, signature};
use entresol_engine::{Binding, Uuid};

/// Refuses a disk that names a log, and a log device that is neither blank nor the log of this disk. The
/// error describes the content found. `disk`: `None` if it has no label yet.
pub(crate) fn refuse_unless_free(device: &dyn Device, disk: Option<&Binding>) -> Result<(), StoreError> {
    if let Some(disk) = disk.filter(|disk| disk.log != Uuid::NIL) {
        return Err(StoreError::Config(format!(
            "disk {} holds a database, or the beginning of one, whose log is {}: nothing was written; is it the right disk? \
             If that database is not wanted any more, ask for it to be overwritten (`--overwrite`, `Options::overwrite`)",
            disk.disk, disk.log
        )));
    }
    let held = match blocks::read(device) {
        Ok(Some(master)) if disk.is_some_and(|disk| disk.disk == master.disk) => return Ok(()),
        Ok(Some(master)) => format!("log {} of another database, on disk {}", master.log, master.disk),
        Err(StoreError::Config(why)) => format!("something else: {why}"),
        Ok(None) | Err(StoreError::Log(_)) => match signature(device)?.value() {
            None => return Ok(()),
            Some(value) => value,
        },
        Err(error) => return Err(error),
    };
    Err(StoreError::Config(Contents::refusal("log device", &held)))
}
