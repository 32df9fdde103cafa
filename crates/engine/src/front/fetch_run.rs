//! Adjacent pages that lie side by side on flash, too: one read for all of them. What is read together has
//! often entered together.
//!
//! Invariant: as [`Front::fetch`] of each page. A page that is not proved here is left to it.

use super::Front;
use crate::TierError;
use arrayvec::ArrayVec;
use entresol_core::{Generation, Lookup, PageId, SlotId};
use entresol_shm::Gone;

/// Most pages of a run.
const RUN_MAX: usize = 64;

/// A page on flash: its slot, what it must prove, and the checksum that is kept for it.
type Place = (SlotId, Generation, u32);

impl Front {
    /// Fetches as many pages from `first` on as lie side by side on flash, at most those that fit into
    /// `buffer`. Returns how many it has fetched: 0 if the first one is not on flash, is alone there, or
    /// cannot be proved.
    pub(crate) fn fetch_run(&self, first: PageId, buffer: &mut [u8]) -> Result<usize, TierError> {
        let page_bytes = self.page_bytes();
        let most = (buffer.len() / page_bytes).min(RUN_MAX);
        // Pages that move up, or may be dead, are looked at one by one.
        if most < 2 || self.config.policy.exclusive() || self.objects.is_some() || !self.check_running()? {
            return Ok(0);
        }
        let places = self.side_by_side(first, most)?;
        let Some((slot, ..)) = places.first() else { return Ok(0) };
        let bytes = &mut buffer[..places.len() * page_bytes];
        if self.read_slots(*slot, bytes).is_err() {
            return Ok(0);
        }
        let mut fetched = 0;
        for ((slot, generation, proof), bytes) in places.iter().zip(bytes.chunks_exact_mut(page_bytes)) {
            let page = PageId(first.0 + fetched as u64);
            if self.prove(bytes, page, *slot, *generation, *proof).is_err() {
                break;
            }
            self.options.page_format.unseal(bytes, page);
            self.shadow.fetch(page);
            fetched += 1;
        }
        self.tallies().flash_hits.add(fetched);
        Ok(fetched)
    }

    fn read_slots(&self, first: SlotId, bytes: &mut [u8]) -> Result<(), entresol_device::DeviceError> {
        self.flash.read(self.layout.slot_offset(first), bytes)
    }

    /// The places of the pages from `first` on, as far as each is after the one before it. None if the first
    /// page has no neighbour there. They count as fetched.
    fn side_by_side(&self, first: PageId, most: usize) -> Result<ArrayVec<Place, RUN_MAX>, Gone> {
        let page_bytes = self.page_bytes() as u64;
        self.with(|partition| {
            let mut places: ArrayVec<Place, RUN_MAX> = ArrayVec::new();
            for page in (first.0..first.0 + most as u64).map(PageId) {
                let Lookup::Flash { slot, generation, .. } = partition.peek(page) else { break };
                let follows = |(before, ..): &Place| {
                    self.layout.slot_offset(slot) == self.layout.slot_offset(*before) + page_bytes
                };
                if !places.last().is_none_or(follows) {
                    break;
                }
                places.push((slot, generation, partition.proof(slot)));
            }
            if places.len() < 2 {
                places.clear();
            }
            for page in (first.0..first.0 + places.len() as u64).map(PageId) {
                partition.fetch(page);
            }
            places
        })
    }
}
