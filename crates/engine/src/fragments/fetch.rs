//! Serving a page that DRAM misses.
//!
//! Invariant: what is served from flash was proved by checksum, id and population, and is the version that disk has. A page
//! whose content is not that comes from disk, and its copy is forgotten.

use super::shared::Shared;
use crate::TierError;
use crate::api::{Fetched, Source};
use crate::disk::clean;
use entresol_core::{FlashCopy, PageId};
use entresol_format::page;

impl Shared {
    pub(super) fn fetch(&self, id: PageId, buffer: &mut [u8]) -> Result<Fetched, TierError> {
        if let Some(staged) = self.behind.fetch_staged(id, buffer)? {
            return Ok(staged);
        }
        let running = self.has_place(id) && self.is_running();
        let mut copy = if running { self.step(|cache| cache.fetch(id)) } else { None };
        while let Some(meant) = copy {
            if self.is_there(id, meant, buffer) {
                self.behind.tallies.flash_hits.add(1);
                return Ok(clean(Source::Flash));
            }
            copy = self.look(id, |cache| {
                let now = cache.peek(id);
                if now != Some(meant) {
                    return now;
                }
                // It was not given to another fragment meanwhile: it is damaged.
                self.behind.tallies.damaged_clean.add(1);
                cache.discard(id);
                None
            });
        }
        self.behind.fetch_from_disk(id, buffer)
    }

    /// Reads a copy; whether it is the page that is meant.
    fn is_there(&self, id: PageId, copy: FlashCopy, buffer: &mut [u8]) -> bool {
        self.flash.read(self.offset(copy), buffer).is_ok()
            && page::verify(buffer, id, Some(self.stamp(copy))).is_ok()
    }
}
