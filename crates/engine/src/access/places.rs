//! Where pages on flash are, for a caller that reads them itself, later, and maybe in another process.
//!
//! Nothing keeps a slot for such a read. 1. A page is located at position p. 2. Before the read ends, the
//! page is dequeued, and its slot is written again at position p + n. 3. The read gives bytes of the other
//! page, or of both. 4. The checksum of a page is keyed with its id and its position, so these bytes are not
//! proved. 5. The caller looks again.
//!
//! Invariant: bytes that are proved with the stamp of the place are the version of the page that the
//! directory meant. The caller keeps newer versions of the page out of the cache from the look to the end of
//! the read.

use super::Base;
use super::dead::living;
use super::directory::Directory;
use super::flash_pages::FlashPages;
use super::signals::Signals;
use crate::TierError;
use crate::shadow::Shadow;
use entresol_core::{Generation, Hit, Lookup, PageId};
use std::sync::Arc;

/// Where a page is, and those after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Not in the cache.
    OnDisk,
    /// In memory: a fetch copies it.
    Staged,
    /// On flash. Pages after it that are at such a place are next to it there, with stamps that follow.
    Flash {
        /// Of the first page, on the device.
        offset: u64,
        /// What its bytes are proved with (`PageFormat::verify_alone`). That of the next page is one more.
        stamp: u64,
    },
}

/// Questions where pages are.
pub(crate) struct Places {
    directory: Arc<Directory>,
    flash_pages: Arc<FlashPages>,
    signals: Arc<Signals>,
    shadow: Arc<Shadow>,
}

impl Places {
    pub(super) fn new(base: &Base) -> Self {
        Self {
            directory: base.directory.clone(),
            flash_pages: base.flash_pages.clone(),
            signals: base.signals.clone(),
            shadow: base.shadow.clone(),
        }
    }

    /// Where `first` is, and how many pages from it on, at most `most`, are at places that follow each other.
    /// With `fetches` those on flash count as fetched.
    pub(crate) fn find(&self, first: PageId, most: u32, fetches: bool) -> Result<(Place, u32), TierError> {
        entresol_runtime::may_preempt();
        if let Some(found) = self.find_unlatched(first, most, fetches) {
            return Ok(found);
        }
        if !self.signals.check_running()? {
            return Ok((Place::OnDisk, most));
        }
        let learns = self.directory.config.policy.learns_from_misses();
        let (place, same) = self.directory.step_with_objects(|partition, mut objects| {
            let mut look = |page: PageId| {
                self.place(&living(partition, objects.as_deref_mut(), page, |partition| partition.peek(page)))
            };
            let place = look(first);
            let mut follows = |at: u32| self.follows(place, look(PageId(first.0 + u64::from(at))), at);
            let same = (1..most).find(|at| !follows(*at)).unwrap_or(most.max(1));
            match place {
                Place::Flash { .. } if fetches => {
                    for at in 0..u64::from(same) {
                        partition.fetch(PageId(first.0 + at));
                    }
                }
                Place::OnDisk if fetches && learns => partition.missed(first),
                _ => {}
            }
            (place, same)
        })?;
        // Of a page in staging the fetch tells them.
        if fetches && place != Place::Staged {
            self.missed_by_memory(first, same);
        }
        Ok((place, same))
    }

    /// As [`Places::find`], without the latch, of a page that is found on flash. Places end there at the
    /// first page that may be somewhere else.
    fn find_unlatched(&self, first: PageId, most: u32, fetches: bool) -> Option<(Place, u32)> {
        let index = self.directory.unlatched()?;
        let look = |at: u32| {
            let page = PageId(first.0 + u64::from(at));
            let hit = index.peek(page)?;
            self.directory.is_current(&index, page, &hit).then_some(hit)
        };
        let found = |hit: Hit| {
            if fetches {
                index.refer(&hit);
            }
            self.place(&hit.lookup())
        };
        let place = found(look(0)?);
        let mut same = 1;
        while same < most
            && let Some(hit) = look(same)
            && self.follows(place, self.place(&hit.lookup()), same)
        {
            found(hit);
            same += 1;
        }
        if fetches {
            self.missed_by_memory(first, same);
        }
        Some((place, same))
    }

    /// Tells the shadows that memory lacks `n` pages from `first` on.
    pub(crate) fn missed_by_memory(&self, first: PageId, n: u32) {
        (0..u64::from(n)).for_each(|at| self.shadow.fetch(PageId(first.0.saturating_add(at))));
    }

    fn place(&self, found: &Lookup) -> Place {
        match found {
            Lookup::Absent => Place::OnDisk,
            Lookup::Flash { slot, generation: Generation::Exact(position), .. } => Place::Flash {
                offset: self.flash_pages.layout.slot_offset(*slot),
                stamp: self.flash_pages.stamps.stamp(*position).0,
            },
            Lookup::Staged { .. } | Lookup::Flash { .. } => Place::Staged,
        }
    }

    /// Whether `place` is `at` pages after `first`.
    fn follows(&self, first: Place, place: Place, at: u32) -> bool {
        match (first, place) {
            (Place::Flash { offset, stamp }, found @ Place::Flash { .. }) => {
                let bytes = u64::from(at) * self.flash_pages.page_bytes as u64;
                found == Place::Flash { offset: offset + bytes, stamp: stamp.wrapping_add(at.into()) }
            }
            (first, place) => first == place,
        }
    }
}
