//! Reads and writes the two blocks of the master record.
//!
//! Both blocks are always written and verified ([`write_copies`]). If the device had lost one, the next
//! restart would silently continue from an older state.

use super::master::{Block, Master, other_version};
use crate::{StoreError, points};
use entresol_device::{Device, Geometry, Io, write_copies};

/// Distance of the two blocks.
const BLOCK_STEP: u64 = 4096;

/// The newest master record of a log device.
///
/// # Errors
/// If there is none, if it is invalid, or if the device does not suit the log.
pub(crate) fn find(device: &dyn Device) -> Result<Master, StoreError> {
    let master = read(device)?.ok_or_else(|| {
        StoreError::Config("the log device holds no log of a store; create the store first".into())
    })?;
    let needed = Master::sector_for(device.geometry());
    if needed > master.sector {
        let Geometry { sector_bytes, physical_bytes, .. } = device.geometry();
        return Err(StoreError::Config(format!(
            "the log was created for sectors of {} bytes; its device has sectors of {sector_bytes} bytes and writes units of {physical_bytes}: copy the log to a device with sectors and units of at most {} bytes",
            master.sector, master.sector
        )));
    }
    master.check(device.geometry())?;
    Ok(master)
}

/// The newest master record of a log device; `None` if there is none. A damaged or unreadable block
/// counts as a damaged copy: the other one is used.
pub(crate) fn read(device: &dyn Device) -> Result<Option<Master>, StoreError> {
    let mut newest: Option<Master> = None;
    let (mut other, mut unreadable) = (None, None);
    let (mut first, mut second) = (vec![0; unit(device)], vec![0; unit(device)]);
    let mut places = [(0, &mut first), (BLOCK_STEP, &mut second)];
    let mut both = places.each_mut().map(|(offset, buffer)| Io::Read { offset: *offset, buffer });
    let is_read = match device.run(&mut both) {
        // It is not known which of them is unreadable.
        Err(error) if error.is_unreadable() => false,
        result => result.map(|()| true)?,
    };
    for (offset, block) in places {
        if !is_read && let Err(error) = device.read(offset, block) {
            if !error.is_unreadable() {
                return Err(error.into());
            }
            points::MASTER_UNREADABLE.reach();
            unreadable = Some(error);
            continue;
        }
        match Master::decode(block) {
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

/// Erases the master record of a device that may contain the log of another store.
pub(crate) fn erase(device: &dyn Device) -> Result<(), StoreError> {
    let block = vec![0; Master::sector_for(device.geometry()) as usize];
    device
        .run(&mut [Io::Write { offset: 0, data: &block }, Io::Write { offset: BLOCK_STEP, data: &block }])?;
    device.sync()?;
    Ok(())
}

/// Writes the master record with the next sequences over both blocks, the older one first, durably.
pub(crate) fn write_both(master: &mut Master, device: &dyn Device) -> Result<(), StoreError> {
    let copies = [next_block(master), next_block(master)];
    if write_copies(device, ("log", "master record"), &copies, false)? > 0 {
        points::MASTER_WRITTEN_AGAIN.reach();
    }
    Ok(())
}

/// The block with the next sequence, and its offset.
fn next_block(master: &mut Master) -> (u64, Vec<u8>) {
    master.sequence += 1;
    let mut block = vec![0; master.sector as usize];
    master.encode(&mut block);
    (master.sequence % 2 * BLOCK_STEP, block)
}

/// Number of bytes of a block that are read.
fn unit(device: &dyn Device) -> usize {
    device.geometry().sector_bytes.max(512) as usize
}
