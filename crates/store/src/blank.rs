//! Whether disk and log may become those of a new store: neither has one that its owner may want.

use crate::StoreError;
use crate::wal::master::Master;
use entresol_device::{Contents, Device, signature};
use entresol_engine::{Binding, Uuid};

/// Refuses a disk that a log names, and a log device that is neither blank nor the log of this disk, with a sentence that says
/// what is there.
pub(crate) fn refuse_unless_free(device: &dyn Device, disk: &Binding) -> Result<(), StoreError> {
    if disk.log != Uuid::NIL {
        return Err(StoreError::Config(format!(
            "disk {} holds a database, or the beginning of one, whose log is {}: nothing was written; is it the right disk? \
             If that database is not wanted any more, ask for it to be overwritten (`--overwrite`, `Options::overwrite`)",
            disk.disk, disk.log
        )));
    }
    let held = match Master::read(device) {
        Ok(Some(master)) if master.disk == disk.disk => return Ok(()),
        Ok(Some(master)) => format!("log {} of another database, on disk {}", master.log, master.disk),
        Err(StoreError::Config(why)) => format!("something else: {why}"),
        Ok(None) | Err(StoreError::Log(_)) => match signature(device)? {
            Contents::Blank => return Ok(()),
            Contents::Known(name) => name,
            Contents::Unknown { offset } => format!("something unknown (at offset {offset})"),
        },
        Err(error) => return Err(error),
    };
    Err(StoreError::Config(format!(
        "the log device is not blank, it holds {held}: nothing was written; is it the right device? If what lies there is not \
         wanted any more, overwrite its first MiB and its last 64 KiB with zeros, or ask for it to be overwritten \
         (`--overwrite`, `Options::overwrite`)"
    )))
}
