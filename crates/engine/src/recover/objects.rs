//! The table of objects, from its snapshots and its log on flash.

use crate::buffer::AlignedBuffer;
use crate::disk::Names;
use crate::error::flash_error;
use crate::{TierError, points, unreadable};
use entresol_device::Device;
use entresol_format::{BLOCK_BYTES, Layout};
use entresol_objects::{Locator, ObjectId, Objects, ObjectsConfig, RecoverError, Recovered, SnapshotArea};

/// What lies on flash of a table.
pub(crate) struct ObjectBlocks {
    /// The snapshots, even and odd, each as long as its header says.
    areas: [AlignedBuffer; 2],
    log: AlignedBuffer,
}

impl ObjectBlocks {
    /// Reads them. What cannot be read is damaged.
    pub(crate) fn read(
        flash: &dyn Device,
        layout: &Layout,
        config: &ObjectsConfig,
    ) -> Result<Self, TierError> {
        let read = |area: SnapshotArea| {
            let offset = snapshot_offset(layout, config, area);
            let mut head = AlignedBuffer::new(BLOCK_BYTES);
            unreadable::read(flash, offset, &mut head).map_err(flash_error)?;
            let blocks = Objects::snapshot_length(&head, config).unwrap_or(1);
            let mut bytes = AlignedBuffer::new(blocks as usize * BLOCK_BYTES);
            unreadable::read(flash, offset, &mut bytes).map_err(flash_error)?;
            Ok::<_, TierError>(bytes)
        };
        let mut log = AlignedBuffer::new(config.log_blocks as usize * BLOCK_BYTES);
        unreadable::read(flash, log_offset(layout, config, 0), &mut log).map_err(flash_error)?;
        Ok(Self { areas: [read(SnapshotArea::Even)?, read(SnapshotArea::Odd)?], log })
    }

    /// Bytes that were read.
    pub(crate) fn bytes(&self) -> u64 {
        (self.areas.iter().map(|area| area.len()).sum::<usize>() + self.log.len()) as u64
    }

    /// The table that they tell, in `region`. `is_new`: no page ever had a position, so a table whose first
    /// snapshot was not written yet is empty.
    pub(crate) fn recover<'r>(
        &self,
        region: &'r mut [u8],
        config: &ObjectsConfig,
        is_new: bool,
    ) -> Result<Option<Recovered<'r>>, TierError> {
        let areas = [&self.areas[0][..], &self.areas[1][..]];
        match Objects::recover(region, config, areas, &self.log) {
            Ok(recovered) => Ok(Some(recovered)),
            Err(RecoverError::NoSnapshot { .. }) if is_new => {
                points::OBJECTS_NEW.reach();
                Ok(None)
            }
            Err(error) => {
                points::OBJECTS_LOST.reach();
                Err(TierError::Refused(format!(
                    "the table of objects on the flash device cannot be used ({error}); without it nobody knows which pages are \
                     dead: restore the database from a backup, or recover it from the log"
                )))
            }
        }
    }
}

/// What the objects were called when the table was brought back.
#[derive(Default)]
pub(crate) struct RestoredNames(Vec<Option<Locator>>);

impl RestoredNames {
    pub(crate) fn of(objects: &Objects<'_>) -> Self {
        Self((0..objects.defined()).map(|number| objects.locator(ObjectId(number)).copied()).collect())
    }
}

impl Names for RestoredNames {
    fn locator(&self, object: ObjectId) -> Option<Locator> {
        self.0.get(object.0 as usize).copied().flatten()
    }
}

/// Where a snapshot lies, in bytes.
pub(crate) fn snapshot_offset(layout: &Layout, config: &ObjectsConfig, area: SnapshotArea) -> u64 {
    let before = match area {
        SnapshotArea::Even => 0,
        SnapshotArea::Odd => config.snapshot_blocks(),
    };
    layout.objects_offset() + u64::from(before) * BLOCK_BYTES as u64
}

/// Where a block of the log lies, in bytes.
pub(crate) fn log_offset(layout: &Layout, config: &ObjectsConfig, place: u32) -> u64 {
    let block = u64::from(2 * config.snapshot_blocks()) + u64::from(place);
    layout.objects_offset() + block * BLOCK_BYTES as u64
}
