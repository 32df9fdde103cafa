//! Whether a device may become the log of a new store.

use crate::StoreError;
use crate::wal::master::Master;
use entresol_device::Device;
use entresol_engine::Uuid;

/// Bytes at the start of a blank device that are zero.
const LOOKED_AT: u64 = 1 << 20;
const CHUNK: u64 = 64 << 10;

/// Refuses a device that is neither blank nor the log of `disk`, with a sentence that says what it holds.
pub(crate) fn refuse_unless_free(device: &dyn Device, disk: Uuid) -> Result<(), StoreError> {
    let held = match Master::read(device) {
        Ok(Some(master)) if master.disk == disk => return Ok(()),
        Ok(Some(master)) => format!("log {} of another database, on disk {}", master.log, master.disk),
        Ok(None) => match first_used(device)? {
            None => return Ok(()),
            Some(offset) => format!("unknown data at byte {offset}"),
        },
        Err(StoreError::Config(why)) => format!("something else: {why}"),
        Err(error) => return Err(error),
    };
    Err(StoreError::Config(format!(
        "the log device holds {held}; give a blank device, or set `Options::overwrite` to lose what it holds"
    )))
}

/// The first chunk that is not all zeros.
fn first_used(device: &dyn Device) -> Result<Option<u64>, StoreError> {
    let geometry = device.geometry();
    let sector = u64::from(geometry.sector_bytes.max(1));
    let end = LOOKED_AT.min(geometry.capacity_bytes) / sector * sector;
    let chunk_bytes = CHUNK.next_multiple_of(sector);
    let mut chunk = vec![0; chunk_bytes as usize];
    for at in (0..end).step_by(chunk_bytes as usize) {
        let chunk = &mut chunk[..chunk_bytes.min(end - at) as usize];
        device.read(at, chunk)?;
        if let Some(used) = chunk.iter().position(|byte| *byte != 0) {
            return Ok(Some(at + used as u64));
        }
    }
    Ok(None)
}
