//! Which version of a page must lie on flash. Identity and checksum do not tell it from the version before,
//! and the number of its population only from what other populations left; so each write-through is counted,
//! and the count is stamped into the page.
//!
//! Invariant: two versions of a page that were written to the same place in one open, fewer than 256
//! writes-through of it apart, have different stamps; so have what different opens write, as far as 64 random
//! bits can tell. A fetch that expects a stamp therefore misses a write that the device has lost, whole or in
//! part, and however many of them.
//!
//! Costs one byte of DRAM for each page on flash (256 for a fragment of 1 MiB, 0.02 % of the flash), beside
//! the core's directory.

use entresol_core::{FlashCopy, Position, SlotId, mutant};

/// A copy on flash: where it lies, and what must be stamped into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StampedCopy {
    pub slot: SlotId,
    pub stamp: Position,
}

/// What is counted of a page on flash.
type Count = u8;
/// Bytes of DRAM for each page on flash.
pub(super) const COUNT_BYTES: usize = size_of::<Count>();
/// Bits of a stamp that count writes-through; above them the population's number.
const COUNT_BITS: u32 = Count::BITS;

/// See the module's header.
pub(super) struct Versions {
    /// Makes the stamps of each open different.
    salt: u64,
    /// By slot of a page: how often it was written through since its population, modulo 256.
    writes: Box<[Count]>,
}

impl Versions {
    /// For so many pages of flash.
    pub(super) fn new(pages: u64, salt: u64) -> Self {
        let salt = if mutant!("stale-flash-believed") { 0 } else { salt };
        Self { salt, writes: vec![0; usize::try_from(pages).expect("memory can count them")].into() }
    }

    /// What must lie there now.
    pub(super) fn of(&self, copy: FlashCopy) -> StampedCopy {
        let writes = self.writes[copy.slot.0 as usize];
        let number = u64::from(copy.population) << COUNT_BITS | u64::from(writes);
        StampedCopy { slot: copy.slot, stamp: Position(self.salt.wrapping_add(number)) }
    }

    /// A page is about to be written through: what its new version must be.
    pub(super) fn begin_write(&mut self, copy: FlashCopy) -> StampedCopy {
        if !mutant!("write-through-not-counted") {
            let writes = &mut self.writes[copy.slot.0 as usize];
            *writes = writes.wrapping_add(1);
        }
        self.of(copy)
    }

    /// A population begins there: what its pages must be, the first one's slot given.
    pub(super) fn begin_population(&mut self, first: FlashCopy, pages: u32) -> StampedCopy {
        let from = first.slot.0 as usize;
        self.writes[from..from + pages as usize].fill(0);
        self.of(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn versions_populations_and_opens_have_stamps_of_their_own() {
        let mut stamps = BTreeSet::new();
        let mut expected = 0;
        for salt in [0x1234_5678_9abc_def0, u64::MAX - 3] {
            let mut versions = Versions::new(16, salt);
            for population in [1, 2, (1 << 30) - 1] {
                let copy = FlashCopy { slot: SlotId(5), population };
                let first = versions.begin_population(FlashCopy { slot: SlotId(4), population }, 4);
                assert_eq!(first.stamp, versions.of(copy).stamp, "pages of one population have one stamp");
                stamps.insert(first.stamp.0);
                for _ in 0..255 {
                    let next = versions.begin_write(copy);
                    assert_eq!(next, versions.of(copy));
                    stamps.insert(next.stamp.0);
                }
                let beside = FlashCopy { slot: SlotId(6), population };
                assert_eq!(versions.of(beside).stamp, first.stamp, "a write counts for its own page");
                expected += 256;
            }
        }
        assert_eq!(stamps.len(), expected);
    }
}
