//! The table of objects, from its snapshots and its log on flash.

use crate::buffer::AlignedBuffer;
use crate::error::flash_error;
use crate::names::Names;
use crate::region::Region;
use crate::{TierError, points, unreadable};
use entresol_core::{Partition, Position};
use entresol_device::Device;
use entresol_format::{BLOCK_BYTES, Layout};
use entresol_objects::{
    COPIES, Locator, ObjectId, Objects, ObjectsConfig, RecoverError, Recovered, SnapshotArea, SnapshotRepair,
    TableCopy,
};

/// The content of a table on flash.
pub(crate) struct ObjectBlocks([CopyBlocks; COPIES]);

/// One copy of it.
struct CopyBlocks {
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
        let read = |offset, blocks: u32| {
            let mut bytes = AlignedBuffer::new(blocks as usize * BLOCK_BYTES);
            unreadable::read(flash, offset, &mut bytes).map_err(flash_error)?;
            Ok::<_, TierError>(bytes)
        };
        let snapshot = |copy, area: SnapshotArea| {
            let offset = snapshot_offset(layout, config, copy, area);
            let blocks = Objects::snapshot_length(&read(offset, 1)?, config).unwrap_or(1);
            read(offset, blocks)
        };
        let copy = |copy| {
            let areas = [snapshot(copy, SnapshotArea::Even)?, snapshot(copy, SnapshotArea::Odd)?];
            let log = read(log_offset(layout, config, copy, 0), config.log_blocks)?;
            Ok::<_, TierError>(CopyBlocks { areas, log })
        };
        Ok(Self([copy(0)?, copy(1)?]))
    }

    /// Bytes that were read.
    pub(crate) fn bytes(&self) -> u64 {
        let areas = self.0.iter().flat_map(|copy| copy.areas.iter().chain([&copy.log]));
        areas.map(|area| area.len() as u64).sum()
    }

    /// How many blocks cannot be read.
    fn unreadable(&self) -> usize {
        let areas = self.0.iter().flat_map(|copy| copy.areas.iter().chain([&copy.log]));
        let blocks = areas.flat_map(|area| area.chunks_exact(BLOCK_BYTES));
        blocks.filter(|block| unreadable::is_pattern(block)).count()
    }

    /// What the owner of the device is told, of a cache that `was_closed` or was not.
    pub(crate) fn notices(&self, recovered: &Recovered<'_>, was_closed: bool) -> Vec<String> {
        let damaged = recovered.damaged().iter().filter(|damaged| was_closed || damaged.was_durable);
        let damaged = damaged.map(|damaged| {
            format!("{damaged} on the flash device is damaged; the other copy is whole, and was used")
        });
        let unreadable = match self.unreadable() {
            0 => None,
            blocks => Some(format!(
                "{blocks} of the blocks of the table of objects on the flash device cannot be read; what is needed of them is in \
                 the other copy"
            )),
        };
        damaged.chain(unreadable).collect()
    }

    /// The writes that make the newest snapshot whole in both copies. `None`: it is whole.
    pub(crate) fn repair(
        self,
        recovered: &Recovered<'_>,
        layout: &Layout,
        config: &ObjectsConfig,
    ) -> Option<SnapshotCopy> {
        let SnapshotRepair { area, from, to } = recovered.repair()?;
        let whole = self.0.into_iter().nth(from)?.areas.into_iter().nth(area as usize)?;
        Some(SnapshotCopy { offset: snapshot_offset(layout, config, to, area), bytes: whole })
    }

    /// The table that they tell, in `region`. `is_new`: no page ever had a position, so a table whose first
    /// snapshot was not written yet is empty.
    pub(crate) fn recover<'r>(
        &self,
        region: &'r mut [u8],
        config: &ObjectsConfig,
        is_new: bool,
    ) -> Result<Option<Recovered<'r>>, TierError> {
        let copies = self
            .0
            .each_ref()
            .map(|CopyBlocks { areas: [even, odd], log }| TableCopy { areas: [&even[..], &odd[..]], log });
        match Objects::recover(region, config, &copies) {
            Ok(recovered) => Ok(Some(recovered)),
            Err(RecoverError::NoSnapshot { .. }) if is_new => {
                points::OBJECTS_NEW.reach();
                Ok(None)
            }
            Err(error) => {
                points::OBJECTS_LOST.reach();
                let unreadable = match self.unreadable() {
                    0 => String::new(),
                    blocks => format!("; {blocks} of its blocks cannot be read: input/output error"),
                };
                Err(TierError::Refused(format!(
                    "the table of objects on the flash device cannot be used ({error}{unreadable}); without it nobody knows which \
                     pages are dead: restore the database from a backup, or recover it from the log"
                )))
            }
        }
    }
}

/// A copy of a snapshot that is to be written.
pub(crate) struct SnapshotCopy {
    /// Where it belongs, in bytes.
    offset: u64,
    /// The whole snapshot, from the other copy.
    bytes: AlignedBuffer,
}

impl SnapshotCopy {
    /// The next snapshot is written over the older one, so both copies of this one must be whole.
    pub(crate) fn repair(&self, flash: &dyn Device) -> Result<(), TierError> {
        points::SNAPSHOT_REPAIRED.reach();
        flash.write(self.offset, &self.bytes).map_err(flash_error)?;
        flash.sync().map_err(flash_error)
    }
}

/// A cache that was found, whose table is to be brought back.
pub(crate) struct Found<'a> {
    pub flash: &'a dyn Device,
    pub layout: &'a Layout,
    pub config: &'a ObjectsConfig,
    /// It was closed.
    pub was_closed: bool,
    /// No page of it ever had a position.
    pub is_new: bool,
    /// All positions below the first are gone, and the second is the next one.
    pub window: (Position, Position),
}

/// A table that was brought back.
#[derive(Default)]
pub(crate) struct RestoredTable {
    /// What its objects are called.
    pub names: RestoredNames,
    /// The copy of its newest snapshot that is not whole.
    pub snapshot: Option<SnapshotCopy>,
    pub notices: Vec<String>,
    /// Bytes that were read.
    pub bytes: u64,
}

impl Found<'_> {
    /// Brings back the table in `region`; `drop_dead` drops the pages there that it calls dead.
    pub(crate) fn restore(
        &self,
        region: &mut Region,
        drop_dead: impl FnOnce(&mut Partition<'_>, &Recovered<'_>),
    ) -> Result<RestoredTable, TierError> {
        let blocks = ObjectBlocks::read(self.flash, self.layout, self.config)?;
        let bytes = blocks.bytes();
        let (mut partition, table) = region.split();
        let Some(recovered) = blocks.recover(table, self.config, self.is_new)? else {
            return Ok(RestoredTable { bytes, ..RestoredTable::default() });
        };
        drop_dead(&mut partition, &recovered);
        let notices = blocks.notices(&recovered, self.was_closed);
        let snapshot = blocks.repair(&recovered, self.layout, self.config);
        let names = RestoredNames::of(&recovered.resume(self.window.0, self.window.1));
        Ok(RestoredTable { names, snapshot, notices, bytes })
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

/// The place of a copy of a snapshot, in bytes.
pub(crate) fn snapshot_offset(
    layout: &Layout,
    config: &ObjectsConfig,
    copy: usize,
    area: SnapshotArea,
) -> u64 {
    let before = match area {
        SnapshotArea::Even => 0,
        SnapshotArea::Odd => config.snapshot_blocks(),
    };
    block_offset(layout, config, copy, before)
}

/// The place of a copy of a block of the log, in bytes.
pub(crate) fn log_offset(layout: &Layout, config: &ObjectsConfig, copy: usize, place: u32) -> u64 {
    block_offset(layout, config, copy, 2 * config.snapshot_blocks() + place)
}

/// The place of a block of a copy of the table, in bytes.
fn block_offset(layout: &Layout, config: &ObjectsConfig, copy: usize, block: u32) -> u64 {
    let before = copy as u64 * u64::from(config.copy_blocks()) + u64::from(block);
    layout.objects_offset() + before * BLOCK_BYTES as u64
}
