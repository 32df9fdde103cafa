//! Destages dirty pages before a write-through tier starts. Pages are dirty on flash after a life in
//! write-back mode, or if the power failed before the disk was synced. So in write-through mode no page on
//! flash is newer than disk, and no destage of an older version can overtake a write to disk.
//!
//! After write-back, a damaged page of a cache with no log above is lost, and the others are destaged
//! ([`crate::tier`]'s `lost`). Else it is an error, and the caller decides whether the cache is needed. After
//! write-back, a checkpoint may have relied on the page. After write-through, the disk or the database's log
//! has the page, and the whole cache is emptied. Were a part kept:
//!
//! 1. the disk's older version of the page is served;
//! 2. power fails again;
//! 3. the copy on flash is readable again and is served: a version that was never written since.
//!
//! Without a log above, the other pages are destaged first: their last write to disk may be torn.

use super::Restored;
use crate::buffer::AlignedBuffer;
use crate::disk::{DiskPages, Home};
use crate::to_disk::{READS_MAX, named, read_what_is_there, write_sorted};
use crate::{TierError, TierOptions, points};
use entresol_core::{Generation, Lookup, Mode, PageId, SlotId};
use entresol_device::Device;
use entresol_format::PageFormat;
use entresol_format::label::Label;
use entresol_format::superblock::Superblock;
use std::sync::Arc;

impl Restored {
    /// Destages all dirty pages durably, and marks all as clean. Returns how many were written.
    pub(crate) fn destage_all(
        &mut self,
        flash: &dyn Device,
        home: &Arc<dyn Home>,
        (superblock, label): (&Superblock, &Label),
        options: &TierOptions,
    ) -> Result<u64, TierError> {
        let mut partition = self.region.partition();
        let mut dirty: Vec<(PageId, SlotId)> =
            partition.dirty_slots().map(|(slot, page)| (page, slot)).collect();
        dirty.sort_unstable();
        let layout = options.layout();
        let disk =
            DiskPages::at_home(home.clone(), self.names.clone(), options.page_bytes, options.page_format);
        disk.missing.find_lost(label, None)?;
        let has_no_log_above = options.page_format.has_no_owner_with_a_log() && options.objects == 0;
        let may_lose = has_no_log_above && superblock.mode == Mode::WriteBack;
        let mut damaged = None;
        let mut buffer = AlignedBuffer::new(READS_MAX.min(dirty.len()) * options.page_bytes as usize);
        let mut written = 0;
        for wanted in dirty.chunks(READS_MAX) {
            let prove = |at: usize, data: &[u8]| {
                let id = wanted[at].0;
                let Lookup::Flash { generation: Generation::Exact(position), .. } = partition.peek(id) else {
                    unreachable!("a restored dirty page is on flash")
                };
                let stamp = superblock.stamps().stamp(position);
                match superblock.page_format {
                    PageFormat::Raw => {
                        superblock.page_format.verify(data, id, stamp, partition.proof(wanted[at].1))
                    }
                    page_format => page_format.verify_alone(data, id, stamp),
                }
            };
            let (mut pages, faults) =
                read_what_is_there(&flash, (&layout, options.page_format), wanted, &mut buffer, prove)?;
            if let Some(first) = faults.first() {
                points::UNSURE_DAMAGED.reach();
                if !may_lose || !disk.missing.lose(None, &named(&faults))? {
                    damaged = damaged.or_else(|| Some(first.clone()));
                }
                let stops = !has_no_log_above;
                if let Some(error) = damaged.as_ref().filter(|_| stops) {
                    return Err(error.clone());
                }
            }
            written += pages.len() as u64;
            write_sorted(&disk, &mut pages)?;
        }
        disk.sync()?;
        if let Some(error) = damaged {
            return Err(error);
        }
        if let Some(log) = partition.log_mut() {
            log.restore_all_clean();
        }
        Ok(written)
    }
}
