//! What is stamped into a page as its generation: the position of its version, plus what makes versions of
//! other caches, and of other slots, differ from it.
//!
//! Invariant: of one cache, no two versions of a page have the same stamp.
//! - Log placement: each version has a position of its own, which also says its slot.
//! - Slot placement: the directory in memory keeps one byte of a version, the slot's counter of writes, which
//!   stands in place of the position's lowest byte. So two versions that one slot has had differ (fewer than
//!   256 writes apart). Two versions in different slots may have the same position then; they differ by what
//!   is added for the slot. Multiples of the golden ratio lie far apart (Knuth, TAOCP 3, §6.4, theorem S):
//!   those of 2^26 slots farther than the positions of one open.

use crate::superblock::Superblock;
use entresol_core::{Placement, Position, SlotId};

/// 2^56 divided by the golden ratio, made odd; above the byte that counts a slot's writes.
const SLOT_STEP: u64 = 0x009e_3779_b97f_4a7d << 8;

/// How positions become stamps in one cache.
#[derive(Clone, Copy, Debug)]
pub struct Stamps {
    /// A page that an older cache left on the device is never taken for one of this cache.
    cache: u64,
    /// From slot to slot; 0 with log placement.
    step: u64,
}

impl Stamps {
    /// Those of the cache that `superblock` describes.
    pub fn of(superblock: &Superblock) -> Self {
        let slots = superblock.policy.placement() == Placement::Slots;
        Self { cache: superblock.cache.high() >> 16 << 8, step: if slots { SLOT_STEP } else { 0 } }
    }

    /// What the page at `position` has while it has no slot, or where the position says which slot (log
    /// placement).
    pub fn stamp(self, position: Position) -> Position {
        Position(position.0.wrapping_add(self.cache))
    }

    /// What the page has that is written to `slot` as the version at `position`.
    pub fn stamp_in(self, slot: SlotId, position: Position) -> Position {
        Position(self.stamp(position).0.wrapping_add(self.of_slot(slot)))
    }

    /// The position that `stamp`, found in `slot`, stands for. Any number, if it was not written there by
    /// this cache.
    pub fn position_in(self, slot: SlotId, stamp: Position) -> Position {
        Position(stamp.0.wrapping_sub(self.cache).wrapping_sub(self.of_slot(slot)))
    }

    fn of_slot(self, slot: SlotId) -> u64 {
        u64::from(slot.0).wrapping_mul(self.step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least distance from 0 of a multiple of the step, on the ring of 64-bit numbers: that of two slots'
    /// stamps.
    fn nearest(slots: u64) -> u64 {
        let multiples = (1..slots).map(|slot| slot.wrapping_mul(SLOT_STEP));
        multiples.map(|stamp| stamp.min(stamp.wrapping_neg())).min().expect("two slots or more")
    }

    #[test]
    fn stamps_of_two_slots_lie_farther_apart_than_the_positions_of_one_open() {
        assert!(nearest(1 << 26) > crate::superblock::POSITIONS_OF_AN_OPEN);
    }

    #[test]
    fn a_stamp_means_its_position_in_its_own_slot_only() {
        let stamps = Stamps { cache: 0x1234_5678_9abc_de00, step: SLOT_STEP };
        let (slot, position) = (SlotId(56), Position(4 * crate::superblock::POSITIONS_OF_AN_OPEN + 121));
        let stamp = stamps.stamp_in(slot, position);
        assert_eq!(stamps.position_in(slot, stamp), position);
        let elsewhere = stamps.position_in(SlotId(18), stamp);
        assert!(elsewhere.0.abs_diff(position.0) > crate::superblock::POSITIONS_OF_AN_OPEN);
        assert_eq!(stamp.0 as u8, position.0 as u8, "the byte that counts writes stays as it is");
    }
}
