//! The expected version of each page on flash. Id and checksum do not distinguish a version from the one
//! before it. The number of the population distinguishes it only from pages of other populations. So each
//! write-through is counted, and the count is part of the stamp.
//!
//! Invariant: two versions of a page that were written to the same place in one open, fewer than 256
//! writes-through apart, have different stamps. Versions of different opens have different stamps too, except
//! with the probability of equal 64-bit random numbers. So a fetch with an expected stamp notices any number
//! of lost writes, whole or in part.
//!
//! This costs one byte of DRAM for each page on flash (256 for a fragment of 1 MiB, 0.02 % of the flash), in
//! addition to the core's directory. Raw pages, which are a client's bytes, have no room for a stamp: their
//! checksums, keyed with page id and stamp, are kept here, too, in four bytes more.

use entresol_core::{FlashCopy, Position, SlotId};
use entresol_format::PageFormat;

/// A copy on flash: its place, and its expected stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StampedCopy {
    pub slot: SlotId,
    pub stamp: Position,
    /// The checksum of a raw page; 0 for pages with a header.
    pub proof: u32,
}

/// The count of a page on flash.
type Count = u8;
/// Bytes of DRAM for each page on flash.
pub(super) const fn proof_bytes(format: PageFormat) -> usize {
    size_of::<Count>() + if format.keeps_proofs() { size_of::<u32>() } else { 0 }
}
/// Bits of a stamp that count writes-through. The bits above are the population's number.
const COUNT_BITS: u32 = Count::BITS;

/// See the module's header.
pub(super) struct Versions {
    /// Makes the stamps of different opens different.
    salt: u64,
    /// By slot of a page: its writes-through since its population, modulo 256.
    writes: Box<[Count]>,
    /// By slot of a page: its checksum. Empty: the pages have theirs.
    proofs: Box<[u32]>,
}

impl Versions {
    /// For `pages` pages of flash.
    pub(super) fn new(pages: u64, format: PageFormat, salt: u64) -> Self {
        let pages = usize::try_from(pages).expect("memory can count them");
        let proofs = if format.keeps_proofs() { pages } else { 0 };
        Self { salt, writes: vec![0; pages].into(), proofs: vec![0; proofs].into() }
    }

    /// The copy with the stamp that it must have now.
    pub(super) fn of(&self, copy: FlashCopy) -> StampedCopy {
        let writes = self.writes[copy.slot.0 as usize];
        let number = u64::from(copy.population) << COUNT_BITS | u64::from(writes);
        let proof = self.proofs.get(copy.slot.0 as usize).copied().unwrap_or(0);
        StampedCopy { slot: copy.slot, stamp: Position(self.salt.wrapping_add(number)), proof }
    }

    /// The page in `slot` has this checksum. It must not be valid yet.
    pub(super) fn prove(&mut self, slot: SlotId, proof: u32) {
        if let Some(kept) = self.proofs.get_mut(slot.0 as usize) {
            *kept = proof;
        }
    }

    /// Begins a write-through of a page. Returns the stamp of its new version.
    pub(super) fn begin_write(&mut self, copy: FlashCopy) -> StampedCopy {
        let writes = &mut self.writes[copy.slot.0 as usize];
        *writes = writes.wrapping_add(1);
        self.of(copy)
    }

    /// Begins a population at `first`, the slot of its first page. Returns the stamp of its pages.
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
            let mut versions = Versions::new(16, PageFormat::Native, salt);
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
