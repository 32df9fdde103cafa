//! Writing a block that everything after it depends on, such as a label or a master record.
//!
//! Invariant: when [`write_proved`] succeeds, the block was synced and read back as it was written. So a device that loses a
//! write silently is found out while the state before is still whole, and not by the next open.

use crate::{Device, DeviceError};

/// Times that a block is written: a write that was lost once may succeed when it is repeated.
const ATTEMPTS: u32 = 2;

/// Writes `block` at `offset`, syncs, reads it back and compares. Repeats that once if it cannot be read or is different.
/// Returns the number of attempts. The error names the device by `name`, and what was written by `what`.
///
/// # Errors
/// The device's, or [`DeviceError::Io`] if the block is not there after the last attempt.
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
}
