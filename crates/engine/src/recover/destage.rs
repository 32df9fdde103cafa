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
use crate::to_disk::{READS_MAX, read_proved, write_sorted};
use crate::{TierError, TierOptions, points};
use entresol_core::{Generation, Lookup, PageId, Partition, SlotId};
use entresol_device::Device;
use entresol_format::page;
use entresol_format::superblock::Superblock;
use zerocopy::IntoBytes;

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
        let mut buffer = AlignedBuffer::new(READS_MAX * options.page_bytes as usize);
        for wanted in dirty.chunks(READS_MAX) {
            let prove = |at: usize, data: &[u8]| {
                let id = wanted[at].0;
                let Lookup::Flash { generation: Generation::Exact(position), .. } = partition.peek(id) else {
                    unreachable!("a restored dirty page is on flash")
                };
                page::verify(data, id, Some(superblock.stamps().stamp(position)))
            };
            let read = read_proved(flash, &layout, wanted, &mut buffer, prove);
            let mut pages = read.inspect_err(|error| {
                if matches!(error, TierError::Damaged { .. }) {
                    points::UNSURE_DAMAGED.reach();
                }
            })?;
            write_sorted(&disk, &mut pages)?;
        }
        disk.sync()?;
        partition.restore_all_clean();
        Ok(())
    }
}
