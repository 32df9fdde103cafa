//! Pages on flash that were looked up ([`LookedUp`](crate::LookedUp)).

use super::FragmentTier;
use super::proofs::ProvableCopy;
use crate::interface::FLASH_READ_PAGES_MAX;
use crate::tally::lane_of_thread;
use arrayvec::ArrayVec;
use entresol_core::PageId;
use entresol_device::{DeviceError, QueuedFile, ReadPart};

/// Adjacent pages on flash that were looked up, and are to be read.
pub(crate) struct FragmentRead {
    first: PageId,
    copies: ArrayVec<ProvableCopy, FLASH_READ_PAGES_MAX>,
}

impl FragmentTier {
    /// The file of the flash device, if there is one.
    pub(crate) fn flash_file(&self) -> Option<QueuedFile> {
        self.copies.flash.queued()
    }

    /// Looks up `pages` pages from `first` on, which count as fetched. `None`: some are not on flash, or
    /// their proofs are not in memory, or there are too many.
    pub(super) fn look_up(&self, first: PageId, pages: usize) -> Option<FragmentRead> {
        let ids = (first.0..).map(PageId).take(pages);
        let is_possible = pages <= FLASH_READ_PAGES_MAX && self.mapping.is_running();
        if !is_possible || !ids.clone().all(|id| self.mapping.has_place(id)) {
            return None;
        }
        let copies = self.mapping.step(|state| {
            // A page that is missing counts when it is read.
            let are_there = ids.clone().all(|id| state.peek(id).is_some_and(|copy| copy.word.is_some()));
            if are_there { ids.map(|id| state.fetch(id)).collect() } else { None }
        })?;
        Some(FragmentRead { first, copies })
    }

    /// What the caller has to read, one part after the other, into memory for all pages.
    pub(crate) fn parts(&self, read: &FragmentRead) -> ArrayVec<ReadPart, FLASH_READ_PAGES_MAX> {
        let offsets = read.copies.iter().map(|copy| self.copies.offset(copy.slot));
        ReadPart::of_pieces(offsets, self.copies.options.page_bytes as usize)
    }

    /// Reads at once what was looked up.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn read_now(&self, read: &FragmentRead, buffer: &mut [u8]) -> Result<(), DeviceError> {
        ReadPart::read(&self.parts(read), &*self.copies.flash, buffer)
    }

    /// Proves what was read. False: read the pages by
    /// [`PageCache::read_pages`](crate::PageCache::read_pages); they have moved meanwhile, or are damaged.
    pub(crate) fn end_read(&self, read: &FragmentRead, buffer: &[u8]) -> bool {
        let pages = buffer.chunks_exact(self.copies.options.page_bytes as usize);
        let mut proved = (read.first.0..).map(PageId).zip(&read.copies).zip(pages);
        let is_proved = proved.all(|((id, copy), bytes)| {
            copy.word.is_some_and(|word| self.copies.is_proved(id, *copy, word, bytes))
        });
        if is_proved {
            self.behind.tallies.flash_hits.add(lane_of_thread(), read.copies.len());
        }
        is_proved
    }
}
