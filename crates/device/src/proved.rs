//! Proved writes, for a block on which later writes depend, such as a label or a master record.
//!
//! Invariant: when [`write_proved`] or [`write_copies`] succeeds, each block was synced and read back as
//! written. So a write that the device silently lost is noticed at once, and not only by the next open.

use crate::{Device, DeviceError, Io};
use std::ops::Deref;

/// Attempts to write a block: a write that was lost once may succeed when it is repeated.
const ATTEMPTS: u32 = 2;

/// Writes `block` at `offset`, syncs, reads it back and compares. Repeats this once if the block cannot be
/// read or differs. Returns the number of attempts. The error gives the device as `name`, and the written
/// structure as `what`.
///
/// # Errors
/// The device's, or [`DeviceError::Io`] if the block is still wrong after the last attempt.
pub fn write_proved(
    device: &dyn Device,
    (name, what): (&str, &str),
    offset: u64,
    block: &[u8],
) -> Result<u32, DeviceError> {
    let mut found = vec![0; block.len()];
    let mut why = String::new();
    for attempt in 1..=ATTEMPTS {
        device.write(offset, block)?;
        device.sync()?;
        match device.read(offset, &mut found) {
            Ok(()) if found == block => return Ok(attempt),
            Ok(()) => why = "the write and its sync succeeded, and other bytes are read back".to_owned(),
            Err(error) if error.is_unreadable() => why = format!("written and synced, then: {error}"),
            Err(error) => return Err(error),
        }
    }
    Err(DeviceError::Io {
        device: name.to_owned(),
        operation: "write",
        offset,
        length: block.len() as u64,
        reason: format!("write of the {what}: {why}; tried {ATTEMPTS} times; replace the device"),
    })
}

/// Writes copies of one structure durably, each at its offset:
///
/// 1. The first copy is written alone, so that after a crash at any time it or the others are whole.
/// 2. The other copies are written, in one batch if `together`, otherwise one after the other.
/// 3. All are read back in one batch, and wrong ones are written again.
///
/// Returns the number of copies written again. `names`: as for [`write_proved`].
///
/// # Errors
/// As for [`write_proved`].
pub fn write_copies(
    device: &dyn Device,
    names: (&str, &str),
    copies: &[(u64, impl Deref<Target = [u8]>)],
    together: bool,
) -> Result<usize, DeviceError> {
    let Some((first, others)) = copies.split_first() else { return Ok(0) };
    let at_once = if together { others.len() } else { 1 };
    for group in [std::slice::from_ref(first)].into_iter().chain(others.chunks(at_once.max(1))) {
        let mut writes: Vec<Io<'_>> =
            group.iter().map(|(offset, block)| Io::Write { offset: *offset, data: block }).collect();
        device.run(&mut writes)?;
        device.sync()?;
    }
    let mut found: Vec<Vec<u8>> = copies.iter().map(|(_, block)| vec![0; block.len()]).collect();
    let mut reads: Vec<Io<'_>> = copies
        .iter()
        .zip(&mut found)
        .map(|((offset, _), buffer)| Io::Read { offset: *offset, buffer })
        .collect();
    let is_read = match device.run(&mut reads) {
        // The error does not tell which copies could not be read.
        Err(error) if error.is_unreadable() => false,
        result => result.map(|()| true)?,
    };
    let mut again = 0;
    for ((offset, block), found) in copies.iter().zip(&found) {
        if !is_read || block[..] != found[..] {
            write_proved(device, names, *offset, block)?;
            again += 1;
        }
    }
    Ok(again)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice};
    use std::sync::Arc;

    #[test]
    fn a_lost_write_is_repeated_once_and_then_an_error() {
        for (forever, expected) in [(false, Some(2)), (true, None)] {
            let lost = Injection { at: 1, device: None, fault: Fault::LostWrite, forever };
            let plan = Arc::new(FaultPlan::new(1, vec![lost]));
            let device = FaultyDevice::new("device", MemoryDevice::new("memory", 1 << 20), plan);
            let written = write_proved(&device, ("disk", "label"), 512, &[7; 512]);
            assert_eq!(written.as_ref().ok(), expected.as_ref());
            let mut found = [0; 512];
            device.read(512, &mut found).unwrap();
            assert_eq!(found == [7; 512], expected.is_some());
            if let Err(error) = written {
                let told = error.to_string();
                assert!(told.contains("label") && told.contains("other bytes are read back"), "{told}");
            }
        }
    }

    #[test]
    fn a_whole_write_is_done_once() {
        let device = MemoryDevice::new("device", 1 << 20);
        assert_eq!(write_proved(&device, ("disk", "label"), 0, &[7; 512]), Ok(1));
        assert_eq!((device.counters().writes, device.counters().reads), (1, 1));
    }

    #[test]
    fn copies_that_were_lost_are_written_again() {
        for lost in [1, 2] {
            let fault = Injection { at: lost, device: None, fault: Fault::LostWrite, forever: false };
            let plan = Arc::new(FaultPlan::new(1, vec![fault]));
            let device = FaultyDevice::new("device", MemoryDevice::new("memory", 1 << 20), plan);
            let copies = [(0, vec![1; 512]), (4096, vec![2; 512])];
            let again = write_copies(&device, ("log", "master record"), &copies, false).unwrap();
            assert_eq!(again, 1, "with the first write from operation {lost} on lost");
            for (offset, block) in copies {
                let mut found = [0; 512];
                device.read(offset, &mut found).unwrap();
                assert_eq!(found[..], block[..], "at {offset}, with operation {lost} lost");
            }
        }
    }
}
