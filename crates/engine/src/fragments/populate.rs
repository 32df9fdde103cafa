//! The workers: a fragment is read from disk and written to flash, in one piece each, beside the foreground (SCE §3.2).
//!
//! Invariant: what becomes valid on flash was proved by checksum and id as it came from disk. Pages that were not are passed
//! over: they were never written, or a write of theirs is under way, and then the core keeps them invalid itself.

use super::shared::Shared;
use crate::TierError;
use crate::buffer::AlignedBuffer;
use crate::disk::disk_error;
use crate::tier::flash_error;
use entresol_core::{PageId, Population};
use entresol_format::page;

impl Shared {
    pub(super) fn population_task(&self) {
        let fragment_bytes = self.options.fragment_pages * self.options.page_bytes;
        let mut buffer = AlignedBuffer::new(fragment_bytes as usize);
        loop {
            let seen = self.populations.epoch();
            if self.is_stopped() {
                return;
            }
            match self.take_begun() {
                Some(population) => self.populate(population, &mut buffer),
                None => self.populations.wait(seen),
            }
        }
    }

    fn populate(&self, population: Population, buffer: &mut AlignedBuffer) {
        let Population { ticket, pages, .. } = population;
        match self.copy(population, buffer) {
            Ok(unproved) => {
                self.behind.tallies.populated.add(pages as usize);
                self.behind.tallies.flash_writes.add(pages as usize);
                self.step(|cache| {
                    unproved.iter().for_each(|page| cache.discard(*page));
                    cache.populated(ticket, true);
                });
            }
            Err(error) => {
                // The disk's errors are told to those who want its pages.
                if matches!(error, TierError::Device { role: "flash", .. }) {
                    self.switch_off(&error);
                }
                self.step(|cache| cache.populated(ticket, false));
            }
        }
    }

    /// Copies a fragment; returns the pages of it that are not to be served.
    fn copy(&self, population: Population, buffer: &mut AlignedBuffer) -> Result<Vec<PageId>, TierError> {
        let Population { first, pages, copy, .. } = population;
        let page_bytes = self.options.page_bytes as usize;
        let disk = &self.behind.disk;
        let bytes = &mut buffer[..pages as usize * page_bytes];
        disk.device.read(disk.offset(first), bytes).map_err(disk_error)?;
        let mut unproved = Vec::new();
        for (number, bytes) in (first.number()..).zip(bytes.chunks_exact_mut(page_bytes)) {
            let id = PageId::new(first.object(), number);
            match page::verify(bytes, id, None) {
                Ok(()) => page::seal(bytes, id, self.stamp(copy)),
                Err(_) => unproved.push(id),
            }
        }
        self.flash.write(self.offset(copy), bytes).map_err(flash_error)?;
        Ok(unproved)
    }
}
