//! What several policies decide alike.

use super::{Offer, Verdict};
use crate::region::Partition;
use crate::slot::BUSY;

impl Partition<'_> {
    pub(crate) fn is_idle(&self, slot: u32) -> bool {
        !self.slots[slot as usize].has(BUSY)
    }

    /// The victim of LRU and FIFO: the first of `list` that nothing is being done with.
    pub(super) fn first_idle(&self, list: u32) -> Option<u32> {
        self.first_where(list, Self::is_idle)
    }

    /// More slots are dirty than the configuration allows.
    pub(super) fn too_many_dirty(&self) -> bool {
        let most = self.head.slots as u64 * self.head.dirty_permille_max as u64 / 1000;
        self.head.dirty as u64 > most
    }

    /// Admission of pages on entry, with write-back: a changed page enters, whether its older version is there or not; an
    /// unchanged one had its chance when it came from disk.
    pub(super) fn on_entry_and_changed(&self, offer: &Offer) -> Verdict {
        match (offer.fdirty, self.find(offer.page)) {
            (true, _) => Verdict::Enter,
            (false, Some(_)) => Verdict::There,
            (false, None) => Verdict::Bypass,
        }
    }

    /// Admission of pages on entry, clean only: a changed page that disk has goes over its older version, and nowhere
    /// else.
    pub(super) fn on_entry_and_clean(&self, offer: &Offer) -> Verdict {
        match (self.find(offer.page), offer.fdirty, offer.dirty) {
            (Some(_), true, false) => Verdict::Enter,
            (Some(_), false, _) => Verdict::There,
            _ => Verdict::Bypass,
        }
    }
}
