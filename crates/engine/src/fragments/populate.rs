//! The populating workers: a fragment is read from disk and written to flash, each in one request, in the
//! background (SCE §3.2).
//!
//! Invariant: a page becomes valid on flash only if it was proved by checksum and id when it was read from
//! disk, and no failed sync has lost its last write ([`DiskPages`](crate::disk::DiskPages)). Pages without
//! this proof are skipped: they were never written, or are being written, and the core keeps these invalid
//! itself.

use super::copies::FlashCopies;
use super::mapping::{Begun, Mapping};
use super::{Base, points};
use crate::TierError;
use crate::buffer::AlignedBuffer;
use crate::disk::WriteBehind;
use crate::error::flash_error;
use entresol_core::{PageId, Population};
use entresol_device::Io;
use entresol_format::fragments::set_proofs;
use entresol_format::{BLOCK_BYTES, PageFormat, page};
use std::sync::Arc;

/// A fragment that was copied: those of its pages that must not be served, and the words that prove all.
struct Copied {
    unproved: Vec<PageId>,
    words: Vec<u32>,
}

/// See the module's header.
pub(super) struct Populations {
    mapping: Arc<Mapping>,
    copies: Arc<FlashCopies>,
    behind: Arc<WriteBehind>,
}

impl Populations {
    pub(super) fn new(base: &Base) -> Self {
        let Base { mapping, copies, behind } = base.clone();
        Self { mapping, copies, behind }
    }

    /// A worker.
    pub(super) fn run(&self) {
        // The block of proofs follows the pages.
        let fragment_bytes = self.copies.options.pages_bytes() as usize;
        let mut buffer = AlignedBuffer::new(fragment_bytes + BLOCK_BYTES);
        loop {
            let seen = self.mapping.populations.epoch();
            if self.mapping.is_stopped() {
                return;
            }
            match self.mapping.take_begun() {
                Some(begun) => self.populate(begun, &mut buffer),
                None => self.mapping.populations.wait(seen),
            }
        }
    }

    fn populate(&self, begun: Begun, buffer: &mut AlignedBuffer) {
        let Population { ticket, pages, .. } = begun.population;
        match self.copy(begun, buffer) {
            Ok(Copied { unproved, words }) => {
                self.behind.tallies.populated.add(pages as usize);
                self.behind.tallies.flash_writes.add(pages as usize);
                self.mapping.step(|state| {
                    state.proofs.populated(begun.copy.slot, &words);
                    unproved.iter().for_each(|page| state.cache.discard(*page));
                    state.cache.populated(ticket, true);
                });
            }
            Err(error) => {
                // Errors of the disk are reported to the tasks that fetch its pages.
                if matches!(error, TierError::Device { role: "flash", .. }) {
                    points::POPULATE_FAILED.reach();
                    self.mapping.switch_off(&error);
                }
                self.mapping.step(|state| state.cache.populated(ticket, false));
            }
        }
    }

    /// Copies a fragment.
    fn copy(&self, begun: Begun, buffer: &mut AlignedBuffer) -> Result<Copied, TierError> {
        let Begun { population: Population { first, pages, .. }, copy } = begun;
        let page_bytes = self.copies.options.page_bytes as usize;
        let (pages_bytes, block) = buffer.split_at_mut(self.copies.options.pages_bytes() as usize);
        let bytes = &mut pages_bytes[..pages as usize * page_bytes];
        let ids =
            move || (first.number()..).take(pages as usize).map(move |at| PageId::new(first.object(), at));
        let disk = &self.behind.disk;
        disk.read_run(first, bytes).inspect_err(|_| points::POPULATE_UNREADABLE.reach())?;
        if let Err(error) = disk.prove_kept(ids()) {
            points::POPULATE_LOST.reach();
            return Err(error);
        }
        let format = self.copies.options.page_format;
        let (mut unproved, mut words) = (Vec::new(), Vec::new());
        for (id, bytes) in ids().zip(bytes.chunks_exact_mut(page_bytes)) {
            // Raw pages are what the disk has.
            let is_proved = format != PageFormat::Native || page::verify(bytes, id, None).is_ok();
            words.push(if is_proved { self.copies.seal(bytes, id, copy) } else { 0 });
            if !is_proved {
                points::POPULATE_UNPROVED.reach();
                unproved.push(id);
            }
        }
        let is_whole = pages == self.copies.options.fragment_pages;
        let offset = self.copies.offset(copy.slot);
        let flash = &self.copies.flash;
        let written = if !self.copies.options.has_proofs_on_flash() {
            flash.write(offset, bytes)
        } else {
            block.fill(0);
            set_proofs(block, &words);
            self.copies.seal_proofs(block, copy.block);
            if is_whole {
                flash.write(offset, buffer)
            } else {
                let place = self.copies.options.proofs_offset(copy.slot);
                let pages = Io::Write { offset, data: bytes };
                flash.run(&mut [pages, Io::Write { offset: place, data: block }])
            }
        };
        written.map_err(flash_error)?;
        Ok(Copied { unproved, words })
    }
}
