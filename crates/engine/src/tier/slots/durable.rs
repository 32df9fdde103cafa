//! What a checkpoint of slots makes durable: all dirty pages are copied to disk, and the disk is synced. TAC
//! also writes its temperatures.

use super::cleaner::Cleaner;
use super::materialiser::Materialiser;
use crate::TierError;
use crate::access::FlashPages;
use crate::buffer::AlignedBuffer;
use crate::disk::DiskPages;
use crate::tier::floor::Floor;
use crate::tier::floor::checkpointer::MakeDurable;
use entresol_core::Position;
use std::sync::Arc;

/// Pages that one checkpoint copies at a time.
const SWEEP_PAGES: usize = 32;

/// See the module's header.
pub(crate) struct DurableSlots {
    flash_pages: Arc<FlashPages>,
    disk: Arc<DiskPages>,
    cleaner: Arc<Cleaner>,
    materialiser: Arc<Materialiser>,
}

impl DurableSlots {
    pub(crate) fn new(floor: &Floor, cleaner: &Arc<Cleaner>, materialiser: &Arc<Materialiser>) -> Self {
        Self {
            flash_pages: floor.access.flash_pages.clone(),
            disk: floor.disk.clone(),
            cleaner: cleaner.clone(),
            materialiser: materialiser.clone(),
        }
    }
}

impl MakeDurable for DurableSlots {
    fn make_durable(&self, _: Position) -> Result<(), TierError> {
        let mut scratch = AlignedBuffer::new(SWEEP_PAGES * self.flash_pages.page_bytes);
        self.cleaner.sweep_all(&mut scratch)?;
        self.disk.sync()?;
        self.materialiser.write_temperatures()
    }
}
