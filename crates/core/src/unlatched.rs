//! Hits without the latch: a reader walks the chain of a page while others change it.
//!
//! What it finds counts only if [`Unlatched::is_current`] says so, after its bytes were read from flash: then
//! the page was there, as its newest version, from the look to that moment. The reader proves the bytes by
//! their checksum besides, as one with the latch does.
//!
//! A reader never waits. It gives nothing where it would have to, and where the answer is not a page on
//! flash: a page that is staged, or absent, is looked up under the latch. An absent page in particular, for
//! its read from disk begins in the same step as the look.
//!
//! Invariants:
//! - A reader believes no word before the proof. It stays inside the index, and its walk ends: a chain that
//!   is read during changes may be a circle.
//! - It changes nothing but a reference bit. If the slot was used again since the look, the page that is
//!   there now gets it.

use crate::PageId;
use crate::index::Index;
use crate::job::{Generation, Lookup};
use crate::placement::ring::position_in;
use crate::policy::Placement;
use crate::region::Shape;
use crate::slot::DIRTY;
use crate::words::AtomicU32;
use crate::{Position, SlotId};

/// Entries of a chain that are looked at, at most. A chain has one or two, and seldom eight.
const STEPS_MAX: u32 = 64;

/// The index of a log, for readers without the latch.
#[derive(Clone, Copy)]
pub struct Unlatched<'r> {
    index: Index<'r>,
    slots: u32,
}

/// A page that was found on flash without the latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it counts only if it is current"]
pub struct Hit {
    /// Its bucket, and the sequence number before the look.
    bucket: usize,
    begun: u32,
    /// The slot of its newest version.
    pub slot: SlotId,
    /// The position of that.
    pub position: Position,
    /// Newer than the disk copy.
    pub dirty: bool,
    /// The checksum that is kept for it; 0 if none are kept.
    pub proof: u32,
}

impl Hit {
    /// As a look-up under the latch gives it.
    pub fn lookup(&self) -> Lookup {
        let generation = Generation::Exact(self.position);
        Lookup::Flash { slot: self.slot, generation, dirty: self.dirty }
    }
}

impl Shape {
    /// Whether hits need no latch: pages are in a log, and a hit changes nothing but a reference bit.
    pub fn allows_unlatched(&self) -> bool {
        let facts = self.config().policy.facts();
        facts.hits_only_refer && self.config().policy.placement() == Placement::Log
    }

    /// The index of the partition, for readers without the latch, if hits need none.
    ///
    /// # Panics
    /// If the index has another length.
    #[inline]
    pub fn unlatched<'r>(&self, index: &'r [AtomicU32]) -> Option<Unlatched<'r>> {
        self.allows_unlatched().then(|| Unlatched {
            index: Index::attach(index, self.sizes()).expect("the index is as long as its sections"),
            slots: self.sizes().slots,
        })
    }
}

impl Unlatched<'_> {
    /// The newest version of `page`, if that is on flash and no change is under way there. It counts as
    /// fetched.
    #[inline]
    pub fn fetch(&self, page: PageId) -> Option<Hit> {
        let hit = self.peek(page)?;
        self.refer(&hit);
        Some(hit)
    }

    /// The page of `hit` counts as fetched.
    #[inline]
    pub fn refer(&self, hit: &Hit) {
        self.index.refer(hit.slot.0);
    }

    /// As [`Unlatched::fetch`], without counting as a reference.
    #[inline]
    pub fn peek(&self, page: PageId) -> Option<Hit> {
        let bucket = self.index.bucket_of(page);
        // One more look at a number that is odd, and no wait: its change may have no end.
        let begun = self.index.read_begins(bucket).or_else(|| self.index.read_begins(bucket))?;
        let mut at = self.index.first_of(bucket);
        for _ in 0..STEPS_MAX {
            // There is no entry beyond the last one, nor at the end of a chain.
            let entry = self.index.entries.get(at as usize)?;
            if entry.page() != page {
                at = entry.next();
                continue;
            }
            if at >= self.slots {
                return None;
            }
            let (released, released_slot) = self.index.window()?;
            return Some(Hit {
                bucket,
                begun,
                slot: SlotId(at),
                position: Position(position_in(at, self.slots, (released, released_slot))),
                dirty: entry.has(DIRTY),
                proof: self.index.proof(at),
            });
        }
        None
    }

    /// Whether `hit` is still the newest version of its page, in the same slot and at the same position.
    #[inline]
    pub fn is_current(&self, hit: &Hit) -> bool {
        self.index.is_unchanged(hit.bucket, hit.begun)
    }
}
