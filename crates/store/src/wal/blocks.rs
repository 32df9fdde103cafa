//! Reading and writing the two blocks of the master record.
//!
//! Each write is made durable, read back and compared: if the device had lost it, an older state would count silently at
//! the next restart. A write that reads back otherwise is repeated once.

use super::master::{Block, Master, other_version};
use crate::{StoreError, points};
use entresol_device::{Device, DeviceError, Io};

/// Distance of the two blocks.
const BLOCK_STEP: u64 = 4096;
/// Times that a block is written before its device counts as failed.
const ATTEMPTS: u32 = 2;

impl Master {
    /// The newest master record of a log device; `None` if there is none. A damaged or unreadable block is a damaged copy:
    /// the other one counts.
    pub(crate) fn read(device: &dyn Device) -> Result<Option<Master>, StoreError> {
        let mut newest: Option<Master> = None;
        let (mut other, mut unreadable) = (None, None);
        let mut block = vec![0; unit(device)];
        for offset in [0, BLOCK_STEP] {
            match device.read(offset, &mut block) {
                Ok(()) => {}
                Err(error) if error.is_unreadable() => {
                    points::MASTER_UNREADABLE.reach();
                    unreadable = Some(error);
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
            match Self::decode(&block) {
                Block::Master(master) if newest.is_none_or(|best| best.sequence < master.sequence) => {
                    newest = Some(master);
                }
                Block::OtherVersion(version) => other = Some(version),
                Block::Master(_) | Block::None => {}
            }
        }
        match (newest, other, unreadable) {
            (Some(master), ..) => Ok(Some(master)),
            (None, Some(version), _) => Err(other_version(version)),
            (None, None, Some(error)) => Err(error.into()),
            (None, None, None) => Ok(None),
        }
    }

    /// Makes a device that may hold the log of another store one without a master record.
    pub(crate) fn erase(device: &dyn Device) -> Result<(), StoreError> {
        let block = vec![0; Self::sector_for(device.geometry()) as usize];
        device.run(&mut [
            Io::Write { offset: 0, data: &block },
            Io::Write { offset: BLOCK_STEP, data: &block },
        ])?;
        device.sync()?;
        Ok(())
    }

    /// Writes it with the next sequence over the older block, durably.
    pub(super) fn write(&mut self, device: &dyn Device) -> Result<(), StoreError> {
        self.sequence += 1;
        let mut block = vec![0; self.sector as usize];
        self.encode(&mut block);
        let offset = self.sequence % 2 * BLOCK_STEP;
        let mut found = vec![0; block.len()];
        let mut why = String::new();
        for _ in 0..ATTEMPTS {
            device.write(offset, &block)?;
            device.sync()?;
            match device.read(offset, &mut found) {
                Ok(()) if found == block => return Ok(()),
                Ok(()) => why = "the write and its sync succeeded, and other bytes are read back".into(),
                Err(error) if error.is_unreadable() => why = format!("written and synced, then: {error}"),
                Err(error) => return Err(error.into()),
            }
            points::MASTER_WRITTEN_AGAIN.reach();
        }
        Err(StoreError::Log(DeviceError::Io {
            device: "log".into(),
            operation: "write of the master record",
            offset,
            length: block.len() as u64,
            reason: format!("{why}; tried {ATTEMPTS} times"),
        }))
    }

    /// Writes it over both blocks, one after the other.
    pub(crate) fn write_both(&mut self, device: &dyn Device) -> Result<(), StoreError> {
        self.write(device)?;
        self.write(device)
    }
}

/// Bytes of a block that are read.
fn unit(device: &dyn Device) -> usize {
    device.geometry().sector_bytes.max(512) as usize
}
