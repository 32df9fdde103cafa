//! Reading a fingerprint, and the sectors that it is of.

use super::{InPlaceDisk, READ_BYTES};
use crate::buffer::AlignedBuffer;
use crate::error::disk_error;
use crate::{TierError, unreadable};
use entresol_device::{Device, DeviceError};
use entresol_format::checksum;
use entresol_format::fingerprint::{COPIES, COPY_STRIDE, Fingerprint, SECTOR_BYTES};
use entresol_format::label::LABEL_AREA_BYTES;
use std::ops::Range;

/// The newest fingerprint, and whether a copy is damaged.
pub(super) fn read_print(file: &dyn Device) -> Result<(Fingerprint, bool), TierError> {
    let mut buffer = AlignedBuffer::new(COPY_STRIDE as usize);
    let mut newest: Option<Fingerprint> = None;
    let mut faults = Vec::new();
    for copy in 0..COPIES {
        unreadable::read(file, LABEL_AREA_BYTES + copy * COPY_STRIDE, &mut buffer).map_err(disk_error)?;
        match Fingerprint::decode(&buffer) {
            Ok(found) if newest.as_ref().is_none_or(|best| best.sequence < found.sequence) => {
                newest = Some(found);
            }
            Ok(_) => {}
            Err(fault) => faults.push(format!("copy {copy}: {fault}")),
        }
    }
    newest.map(|newest| (newest, !faults.is_empty())).ok_or_else(|| {
        TierError::Refused(format!(
            "the label file has no fingerprint that can be read ({}); restore it from a backup",
            faults.join("; ")
        ))
    })
}

fn can_be_read(read: Result<(), DeviceError>) -> Result<bool, DeviceError> {
    match read {
        Err(error) if error.is_unreadable() => Ok(false),
        read => read.map(|()| true),
    }
}

/// The checksums of these sectors of `disk`. `None`: the sector cannot be read, which proves nothing.
pub(super) fn read_sums(disk: &dyn Device, places: &[u64]) -> Result<Vec<Option<u32>>, DeviceError> {
    let capacity = disk.geometry().capacity_bytes;
    let mut buffer = AlignedBuffer::new(READ_BYTES as usize);
    let mut sums = Vec::with_capacity(places.len());
    let mut at = 0;
    while at < places.len() {
        let first = places[at] * SECTOR_BYTES / READ_BYTES * READ_BYTES;
        let length = READ_BYTES.min(capacity - first) as usize;
        let is_whole = can_be_read(disk.read(first, &mut buffer[..length]))?;
        while at < places.len() && places[at] * SECTOR_BYTES < first + length as u64 {
            let offset = places[at] * SECTOR_BYTES;
            let from = (offset - first) as usize;
            let sector = &mut buffer[from..from + SECTOR_BYTES as usize];
            // Its neighbour may be the one that cannot be read.
            let is_there = is_whole || can_be_read(disk.read(offset, sector))?;
            sums.push(is_there.then(|| checksum::of(sector)));
            at += 1;
        }
    }
    Ok(sums)
}

impl InPlaceDisk {
    /// Divides a range, which is not the label's: `rest` is called for what has no sector of the fingerprint,
    /// and `print` for the reads with one. Both have offsets of the disk.
    pub(super) fn around_print(
        &self,
        offset: u64,
        length: u64,
        rest: impl Fn(u64, u64) -> Result<(), DeviceError>,
        print: impl Fn(u64, u64) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let Some(offset) = offset.checked_sub(LABEL_AREA_BYTES) else { return Ok(()) };
        let (mut from, end) = (offset, offset + length);
        while from < end {
            let kept = {
                // The disk does not grow between the look and the call. `print` takes this itself.
                let sectors = self.sectors.read();
                let kept = places(&sectors, from, (end - from) as usize)
                    .next()
                    .map_or(end, |place| (sectors[place] * SECTOR_BYTES / READ_BYTES * READ_BYTES).max(from));
                if kept > from {
                    rest(from, kept - from)?;
                }
                kept
            };
            from = (kept / READ_BYTES * READ_BYTES + READ_BYTES).min(end);
            if kept < from {
                print(kept, from - kept)?;
            }
        }
        Ok(())
    }
}

/// The places in the fingerprint with these `sectors` of those in these bytes of the disk.
pub(super) fn places(sectors: &[u64], offset: u64, length: usize) -> Range<usize> {
    let end = offset + length as u64;
    let first = sectors.partition_point(|sector| (sector + 1) * SECTOR_BYTES <= offset);
    let last = sectors.partition_point(|sector| sector * SECTOR_BYTES < end);
    first..last.max(first)
}

/// The places in the fingerprint of the sectors that `data` at `offset` covers, with their new checksums.
pub(super) fn sums_of<'a>(
    sectors: &'a [u64],
    (offset, data): (u64, &'a [u8]),
) -> impl Iterator<Item = (usize, u32)> + 'a {
    places(sectors, offset, data.len()).map(move |place| {
        let from = (sectors[place] * SECTOR_BYTES - offset) as usize;
        (place, checksum::of(&data[from..from + SECTOR_BYTES as usize]))
    })
}
