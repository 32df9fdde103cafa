//! Reading and writing the two blocks of the master record.
//!
//! Each write of a master record is proved ([`write_proved`]): if the device had lost it, the next restart would silently
//! build on an older state.

use super::master::{Block, Master, other_version};
use crate::{StoreError, points};
use entresol_device::{Device, Io, write_proved};

/// Distance of the two blocks.
const BLOCK_STEP: u64 = 4096;

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
        if write_proved(device, ("log", "master record"), offset, &block)? > 1 {
            points::MASTER_WRITTEN_AGAIN.reach();
        }
        Ok(())
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
