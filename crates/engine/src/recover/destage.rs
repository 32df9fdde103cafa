//! Write-through: before such a tier starts, what flash holds newer than disk (from a life in write-back
//! mode, or written to disk without a sync before the power failed) is copied there. So in this mode nothing
//! on flash is ever newer than disk, and no destage of an older version can overtake a write to disk.
//!
//! A damaged page is an error. It is for the caller to say whether the cache is needed: after write-back a
//! checkpoint may have relied on that page; after write-through the database's log has it, and the cache is
//! emptied. Nothing of it may stay, or an older version of the page, which is served now, could be followed
//! by this one when the power has failed again.

use super::Restored;
use crate::buffer::AlignedBuffer;
use crate::disk::DiskPages;
use crate::error::{disk_error, flash_error};
use crate::{TierError, TierOptions, points, unreadable};
use arrayvec::ArrayVec;
use entresol_core::{Lookup, PageId, Partition, SlotId};
use entresol_device::{Device, Io};
use entresol_format::page;
use entresol_format::superblock::Superblock;
use zerocopy::IntoBytes;

/// Pages copied at once.
const BATCH: usize = 32;

impl Restored {
    /// Copies every page that is newer than disk there, durably, and marks all as clean.
    pub(crate) fn destage_all(
        &mut self,
        flash: &dyn Device,
        disk: &std::sync::Arc<dyn Device>,
        superblock: &Superblock,
        options: &TierOptions,
    ) -> Result<(), TierError> {
        let mut partition = Partition::attach(self.region.as_mut_bytes())
            .map_err(|error| TierError::Config(error.to_string()))?;
        let mut dirty: Vec<(PageId, SlotId)> =
            partition.dirty_slots().map(|(slot, page)| (page, slot)).collect();
        dirty.sort_unstable();
        let layout = options.layout();
        let disk = DiskPages::new(disk.clone(), options.page_bytes);
        let page_bytes = options.page_bytes as usize;
        let mut buffer = AlignedBuffer::new(BATCH * page_bytes);
        for pages in dirty.chunks(BATCH) {
            let mut batch = ArrayVec::<Io<'_>, BATCH>::new();
            for ((_, slot), buffer) in pages.iter().zip(buffer.chunks_exact_mut(page_bytes)) {
                batch.push(Io::Read { offset: layout.slot_offset(*slot), buffer });
            }
            unreadable::read_batch(flash, &mut batch).map_err(flash_error)?;
            drop(batch);
            let mut batch = ArrayVec::<Io<'_>, BATCH>::new();
            for ((id, slot), data) in pages.iter().zip(buffer.chunks_exact(page_bytes)) {
                let generation = match partition.peek(*id) {
                    Lookup::Flash { generation: entresol_core::Generation::Exact(position), .. } => position,
                    other => unreachable!("a restored page is on flash, {other:?} found"),
                };
                let stamp = superblock.stamps().stamp(generation);
                match page::verify(data, *id, Some(stamp)) {
                    Ok(()) => batch.push(Io::Write { offset: disk.offset(*id), data }),
                    Err(fault) => {
                        points::UNSURE_DAMAGED.reach();
                        return Err(TierError::Damaged {
                            page: *id,
                            place: format!("flash slot {}", slot.0),
                            fault: unreadable::fault_of(data, fault),
                        });
                    }
                }
            }
            disk.device.run(&mut batch).map_err(disk_error)?;
        }
        disk.sync()?;
        partition.restore_all_clean();
        Ok(())
    }
}
