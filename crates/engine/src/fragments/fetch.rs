//! A fetch: from flash, else from disk.
//!
//! Invariant: a page served from flash was proved by checksum, id and stamp, and is the version on disk. If
//! the proof fails, the page is read from disk and its copy on flash is forgotten.

use super::points;
use super::shared::Shared;
use super::versions::StampedCopy;
use crate::TierError;
use crate::api::{Fetched, Source};
use crate::disk::clean;
use entresol_core::PageId;
use entresol_format::{PageFormat, page};

impl Shared {
    pub(super) fn fetch(&self, id: PageId, buffer: &mut [u8]) -> Result<Fetched, TierError> {
        if let Some(staged) = self.behind.fetch_staged(id, buffer)? {
            return Ok(staged);
        }
        let running = self.is_running();
        if !running {
            points::OFF_FETCH.reach();
        }
        let copy = if self.has_place(id) && running { self.step(|state| state.fetch(id)) } else { None };
        self.fetch_copy(id, copy, buffer)
    }

    /// Fetches a page of which the cache has this copy, or none.
    pub(super) fn fetch_copy(
        &self,
        id: PageId,
        mut copy: Option<StampedCopy>,
        buffer: &mut [u8],
    ) -> Result<Fetched, TierError> {
        while let Some(meant) = copy {
            if self.is_there(id, meant, buffer) {
                self.behind.tallies.flash_hits.add(1);
                return Ok(clean(Source::Flash));
            }
            copy = self.look(id, |state| {
                let now = state.peek(id);
                if now != Some(meant) {
                    points::FETCH_MOVED.reach();
                    return now;
                }
                // The slot was not given to another fragment meanwhile: the copy is damaged.
                self.behind.tallies.damaged_clean.add(1);
                state.cache.discard(id);
                None
            });
        }
        self.behind.fetch_from_disk(id, buffer)
    }

    /// Reads a copy. Returns whether it is the expected page and version.
    fn is_there(&self, id: PageId, copy: StampedCopy, buffer: &mut [u8]) -> bool {
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
