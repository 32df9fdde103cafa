//! Moves the log into the larger area of a larger device, at a restart and before anything is appended. So a
//! store whose log is full can be opened again: its owner gives it a larger device.
//!
//! 1. The needed part of the log, from its oldest needed record to its end, is copied to the *extension*: the
//!    bytes of the device after the old area. The extension contains no needed data.
//! 2. The copy is synced.
//! 3. The next master record has the new area, and a shift such that the copy is at the positions of its
//!    LSNs.
//!
//! If power fails before 3 is durable, the old place is unchanged, and the old master record leads to it. If
//! power fails after 3, the new master record leads to the copy. Both blocks name the new area before a
//! record is appended. So the old place is overwritten only when it is not needed any more.
//!
//! If the extension is too small for the needed part, or a sector of that part is unreadable, the log is not
//! moved. At a later restart, the needed part is smaller.

use super::master::Master;
use super::ring::LOG_START;
use super::ring::Ring;
use crate::{StoreError, points};
use entresol_device::Device;

/// Bytes copied at once.
const CHUNK: u64 = 1 << 20;

/// Copies `[oldest, end)` and changes `master` if the device has room; `end` is a sector boundary.
pub(super) fn grow(
    device: &dyn Device,
    master: &mut Master,
    oldest: u64,
    end: u64,
) -> Result<(), StoreError> {
    let sector = u64::from(master.sector);
    let area = device.geometry().capacity_bytes.saturating_sub(LOG_START) / sector * sector;
    let begin = oldest / sector * sector;
    if area <= master.area || end - begin > area - master.area {
        return Ok(());
    }
    let old = master.ring();
    let new = Ring { area, shift: (area + old.area - begin % area) % area };
    let mut chunk = vec![0; CHUNK.min(end - begin) as usize];
    for at in (begin..end).step_by(CHUNK as usize) {
        let chunk = &mut chunk[..CHUNK.min(end - at) as usize];
        if old.read(device, at, chunk)?.is_some() {
            return Ok(());
        }
        new.write(device, at, chunk)?;
    }
    device.sync()?;
    points::LOG_GROWS.reach();
    (master.area, master.shift) = (new.area, new.shift);
    Ok(())
}
