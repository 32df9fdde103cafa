//! Writing copies of a structure that everything after it depends on: a label, or the superblocks of an open.
//!
//! Invariant: when [`write_copies`] succeeds, all copies were synced and read back as they were written
//! (see [`entresol_device::write_proved`] for the reason).

use crate::buffer::AlignedBuffer;
use crate::unreadable;
use entresol_device::{Device, DeviceError, Io, write_proved};
use entresol_format::BLOCK_BYTES;

/// Writes copies of one structure durably, each at its offset. The first is written alone, so that at any crash it or the
/// others are whole. Then the others follow, in one batch if `together`, else one after the other. All are read back; those
/// that are not there are written again. `names`: of the device and of the structure, for errors.
pub(crate) fn write_copies(
    device: &dyn Device,
    names: (&str, &str),
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
    wrong
        .map(|(copy, _)| copy)
        .try_for_each(|(offset, block)| write_proved(device, names, *offset, block).map(drop))
}

/// `count` copies of a structure, each with its offset. `encode` writes the next one into a block and returns its offset.
pub(crate) fn copies(count: u64, mut encode: impl FnMut(&mut [u8]) -> u64) -> Vec<(u64, AlignedBuffer)> {
    let copy = |_| {
        let mut block = AlignedBuffer::new(BLOCK_BYTES);
        (encode(&mut block), block)
    };
    (0..count).map(copy).collect()
}
