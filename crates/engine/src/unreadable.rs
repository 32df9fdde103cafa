//! Reads that tolerate unreadable sectors.
//!
//! Drives report latent errors, and sectors torn by a power cut, as failed reads. One such sector fails a
//! whole request. So a failed request is repeated in pieces, and a piece that fails once more after that.
//! What stays unreadable is filled with a pattern that no checksum accepts: it counts as a damaged copy.
//!
//! A device that returns nothing has failed; it is not damaged. Without this distinction:
//!
//! 1. every read of a device fails for a while;
//! 2. the newest groups pass for torn ones, and a restart cuts them off;
//! 3. the device works again, and durable pages are lost.
//!
//! So when nothing of a request can be read, other places of the device are tried. And since the device may
//! come back in the middle of a request, each piece has its second try when something could be read.

use crate::buffer::AlignedBuffer;
use crate::points;
use entresol_device::{Device, DeviceError, Io};
use entresol_format::BLOCK_BYTES;

/// The filling of a piece that cannot be read.
const PATTERN: u8 = 0xee;

/// Number of places that are tried before a device counts as failed.
const PROBES: u64 = 16;

/// Carries out `batch`. Unreadable pieces are filled with a pattern that every checksum refuses. Returns an
/// error only if the device as a whole fails, or if a write fails.
pub(crate) fn read_batch(device: &dyn Device, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
    let failed = match device.run(batch) {
        Err(error) if error.is_unreadable() => error,
        result => return result,
    };
    points::READ_IN_PIECES.reach();
    let pieces = batch.iter_mut().filter_map(|io| match io {
        Io::Read { offset, buffer } => Some((*offset, buffer)),
        _ => None,
    });
    let mut unread: Vec<_> = pieces
        .flat_map(|(offset, buffer)| {
            let at = move |(number, piece)| (offset + (number * BLOCK_BYTES) as u64, piece);
            buffer.chunks_mut(BLOCK_BYTES).enumerate().map(at)
        })
        .collect();
    let count = unread.len();
    read_pieces(device, &mut unread)?;
    if unread.len() == count && !gives_anything(device)? {
        points::DEVICE_UNREADABLE.reach();
        return Err(failed);
    }
    read_pieces(device, &mut unread)
}

/// Reads `pieces`, each with its offset. Those that cannot be read stay, and have the pattern.
fn read_pieces(device: &dyn Device, pieces: &mut Vec<(u64, &mut [u8])>) -> Result<(), DeviceError> {
    for (offset, piece) in std::mem::take(pieces) {
        match device.read(offset, piece) {
            Err(error) if error.is_unreadable() => {
                piece.fill(PATTERN);
                pieces.push((offset, piece));
            }
            result => result?,
        }
    }
    Ok(())
}

/// Whether any of several places spread over the device can be read.
fn gives_anything(device: &dyn Device) -> Result<bool, DeviceError> {
    let blocks = device.geometry().capacity_bytes / BLOCK_BYTES as u64;
    let mut block = AlignedBuffer::new(BLOCK_BYTES);
    for probe in 0..PROBES {
        match device.read(blocks * probe / PROBES * BLOCK_BYTES as u64, &mut block) {
            Err(error) if error.is_unreadable() => {}
            result => return result.map(|()| true),
        }
    }
    Ok(false)
}

/// As [`read_batch`], for one range.
pub(crate) fn read(device: &dyn Device, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
    read_batch(device, &mut [Io::Read { offset, buffer }])
}

/// Whether `bytes` are from a piece that could not be read.
pub(crate) fn is_pattern(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == PATTERN)
}

/// Whether a piece of `bytes` could not be read.
pub(crate) fn has_pattern(bytes: &[u8]) -> bool {
    bytes.chunks(BLOCK_BYTES).any(is_pattern)
}

/// The fault of `bytes`, which were refused with `fault`: a failed read, if they have the pattern.
pub(crate) fn fault_of(bytes: &[u8], fault: impl ToString) -> String {
    match has_pattern(bytes) {
        true => "it cannot be read: input/output error".to_owned(),
        false => fault.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use entresol_core::PageId;
    use entresol_device::{Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice};
    use entresol_format::label::Label;
    use entresol_format::superblock::Superblock;
    use entresol_format::{BlockFault, page};

    /// Blocks of four that have the pattern after a read, during which the device fails at these operations.
    fn unread(failing: &[u64]) -> Vec<bool> {
        let plan = std::sync::Arc::new(FaultPlan::none());
        let medium = MemoryDevice::new("flash", 64 * BLOCK_BYTES as u64);
        let device = FaultyDevice::new("flash", medium, plan.clone());
        for at in failing {
            let fault = Fault::ReadError;
            plan.inject(Injection { at: plan.operations() + at, device: None, fault, forever: false });
        }
        let mut found = vec![0; 4 * BLOCK_BYTES];
        read(&device, 0, &mut found).unwrap();
        found.chunks(BLOCK_BYTES).map(is_pattern).collect()
    }

    #[test]
    fn a_device_that_comes_back_in_the_middle_of_a_read_is_read() {
        assert_eq!(unread(&[1]), [false; 4]);
        assert_eq!(unread(&[1, 2, 3]), [false; 4], "the last two can be read");
        assert_eq!(unread(&[1, 2, 3, 4, 5]), [false; 4], "only other places can be read");
        assert_eq!(unread(&[1, 3, 6]), [false, true, false, false], "the second try fails, too");
    }

    #[test]
    fn nothing_unreadable_is_ever_proved() {
        let piece = [PATTERN; BLOCK_BYTES];
        let id = PageId(u64::from_le_bytes([PATTERN; 8]));
        assert!(page::verify(&piece, id, None).is_err());
        assert!(Superblock::decode(&piece).is_err_and(|fault| fault != BlockFault::Blank));
        assert!(Label::decode(&piece).is_err_and(|fault| fault != BlockFault::Blank));
        assert!(fault_of(&piece, "no").contains("cannot be read"));
        assert_eq!(fault_of(&[0; 16], "no"), "no");
    }
}
