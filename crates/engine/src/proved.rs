//! Writing what everything after it depends on: a label, or the superblocks of an open.
//!
//! Invariant: when [`write`] returns, the block was synced and read back as it was written. A device that loses a write
//! without a word is found out here, while the state before is still whole, and not by the next open.

use crate::buffer::AlignedBuffer;
use crate::unreadable;
use entresol_device::{Device, DeviceError, Io};

/// Tries: a write that went astray once may succeed when it is repeated.
const TRIES: usize = 2;

/// Writes copies of one structure, each with its offset, durably: the first alone, so that at any crash the others are whole
/// or it is; then the others, at once where `together`, else one after the other. All are read back.
pub(crate) fn write_copies(
    device: &dyn Device,
    copies: &[(u64, AlignedBuffer)],
    together: bool,
) -> Result<(), DeviceError> {
    let Some((first, others)) = copies.split_first() else { return Ok(()) };
    let at_once = if together { others.len() } else { 1 };
    for group in [std::slice::from_ref(first)].into_iter().chain(others.chunks(at_once.max(1))) {
        let mut writes: Vec<Io<'_>> =
            group.iter().map(|(offset, block)| Io::Write { offset: *offset, data: block }).collect();
        device.run(&mut writes)?;
        device.sync()?;
    }
    let mut found: Vec<AlignedBuffer> =
        copies.iter().map(|(_, block)| AlignedBuffer::new(block.len())).collect();
    let mut reads: Vec<Io<'_>> = copies
        .iter()
        .zip(&mut found)
        .map(|((offset, _), buffer)| Io::Read { offset: *offset, buffer: &mut buffer[..] })
        .collect();
    unreadable::read_batch(device, &mut reads)?;
    drop(reads);
    let wrong = copies.iter().zip(&found).filter(|((_, block), found)| block[..] != found[..]);
    wrong.map(|(copy, _)| copy).try_for_each(|(offset, block)| write(device, *offset, block))
}

/// Writes `block` at `offset`, durably, and proves that it is there.
pub(crate) fn write(device: &dyn Device, offset: u64, block: &[u8]) -> Result<(), DeviceError> {
    let mut found = AlignedBuffer::new(block.len());
    for _ in 0..TRIES {
        device.write(offset, block)?;
        device.sync()?;
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
