//! Copies of pages on flash: where they are, and what proves them.

use super::versions::StampedCopy;
use super::{FragmentOptions, points};
use entresol_core::{PageId, SlotId};
use entresol_device::Device;
use entresol_format::layout::fragment_page_offset;
use entresol_format::{PageFormat, page};
use std::sync::Arc;

/// See the module's header.
pub(super) struct FlashCopies {
    pub flash: Arc<dyn Device>,
    pub options: FragmentOptions,
}

impl FlashCopies {
    pub(super) fn offset(&self, slot: SlotId) -> u64 {
        fragment_page_offset(slot, self.options.page_bytes)
    }

    /// Reads a copy. Returns whether it is the expected page and version.
    pub(super) fn is_there(&self, id: PageId, copy: StampedCopy, buffer: &mut [u8]) -> bool {
        if self.flash.read(self.offset(copy.slot), buffer).is_err() {
            points::FETCH_UNREADABLE.reach();
            return false;
        }
        self.is_proved(id, copy, buffer)
    }

    /// Whether what was read is the expected page and version.
    pub(super) fn is_proved(&self, id: PageId, copy: StampedCopy, bytes: &[u8]) -> bool {
        let is_it = match self.options.page_format {
            PageFormat::Native => page::verify(bytes, id, Some(copy.stamp)).is_ok(),
            format => format.verify(bytes, id, copy.stamp, copy.proof).is_ok(),
        };
        if !is_it {
            points::FETCH_DAMAGED.reach();
        }
        is_it
    }
}
