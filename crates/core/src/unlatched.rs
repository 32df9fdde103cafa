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
use crate::index::{IndexPlan, window_of};
use crate::job::{Generation, Lookup};
use crate::placement::ring::position_in;
use crate::sequence::Sequence;
use crate::slot::DIRTY;
use crate::words::{AtomicU32, load};
use crate::{Position, SlotId};

/// Entries of a chain that are looked at, at most. A chain has one or two, and seldom eight.
const STEPS_MAX: u32 = 64;

/// The index of a log, for readers without the latch.
#[derive(Clone, Copy)]
pub struct Unlatched<'r> {
    words: &'r [AtomicU32],
    plan: &'r IndexPlan,
}

/// A page that was found on flash without the latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it counts only if it is current"]
pub struct Hit {
    /// Which sequence number is that of its bucket, and what it was before the look.
    sequence: u32,
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

impl<'r> Unlatched<'r> {
    #[inline(always)]
    pub(crate) fn of(words: &'r [AtomicU32], plan: &'r IndexPlan) -> Self {
        Self { words, plan }
    }

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
        self.plan.refer(self.words, hit.slot.0);
    }

    /// As [`Unlatched::fetch`], without counting as a reference.
    #[inline(always)]
    pub fn peek(&self, page: PageId) -> Option<Hit> {
        let Self { words, plan } = *self;
        let bucket = plan.bucket_of(page);
        let at_sequence = plan.at_sequence(bucket)?;
        let sequence = Sequence(&words[at_sequence as usize]);
        // One more look at a number that is odd, and no wait: its change may have no end.
        let begun = sequence.read_begins().or_else(|| sequence.read_begins())?;
        let mut at = load(&words[plan.at_bucket(bucket)]);
        for _ in 0..STEPS_MAX {
            // There is no entry beyond the last one, nor at the end of a chain.
            let entry = plan.entry(words, at)?;
            if !entry.is_of(page) {
                at = entry.next();
                continue;
            }
            if at >= plan.slots {
                return None;
            }
            return Some(Hit {
                sequence: at_sequence,
                begun,
                slot: SlotId(at),
                position: Position(position_in(at, plan.slots, window_of(words)?)),
                dirty: entry.has(DIRTY),
                proof: plan.proof(words, at),
            });
        }
        None
    }

    /// Whether `hit` is still the newest version of its page, in the same slot and at the same position.
    #[inline]
    pub fn is_current(&self, hit: &Hit) -> bool {
        Sequence(&self.words[hit.sequence as usize]).is_unchanged(hit.begun)
    }
}
