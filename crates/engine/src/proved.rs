//! Writing what everything after it depends on: a label, or the superblocks of an open.
//!
//! Invariant: when [`write`] returns, the block was synced and read back as it was written. A device that loses a write
//! without a word is found out here, while the state before is still whole, and not by the next open.

use entresol_core::mutant;
use entresol_device::{Device, DeviceError};

use crate::buffer::AlignedBuffer;

/// Tries: a write that went astray once may succeed when it is repeated.
const TRIES: usize = 2;

/// Writes `block` at `offset`, durably, and proves that it is there.
pub(crate) fn write(device: &dyn Device, offset: u64, block: &[u8]) -> Result<(), DeviceError> {
    let mut found = AlignedBuffer::new(block.len());
    for _ in 0..TRIES {
        device.write(offset, block)?;
        device.sync()?;
        if mutant!("label-not-read-back") {
            return Ok(());
        }
        match device.read(offset, &mut found) {
            Err(error) if error.is_unreadable() => {}
            read => {
                read?;
                if *found == *block {
                    return Ok(());
                }
            }
        }
    }
    Err(DeviceError::Io {
        device: "what was written".to_owned(),
        operation: "write",
        offset,
        length: block.len() as u64,
        reason: "it was acknowledged and synced, and does not lie there; replace the device".to_owned(),
    })
}
