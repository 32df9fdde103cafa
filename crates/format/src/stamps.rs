//! The stamp of a page, its generation on flash: the position of its version, plus constants that distinguish
//! it from versions of other caches and other slots.
//!
//! Invariant: within one cache, no two versions of a page have the same stamp.
//! - Log placement: each version has a position of its own, which also determines its slot.
//! - Slot placement: the directory in memory keeps one byte of a version, the slot's counter of writes. This
//!   byte replaces the position's lowest byte. So two versions in one slot differ (fewer than 256 writes
//!   apart). Two versions in different slots may then have the same position; they differ by the constant
//!   that is added for the slot. Multiples of the golden ratio are far apart (Knuth, TAOCP 3, §6.4, theorem
//!   S): those of 2^26 slots are farther apart than the positions of one open.

use crate::block::Uuid;
use crate::superblock::Superblock;
use entresol_core::{Placement, Position, SlotId};

/// 2^56 divided by the golden ratio, made odd. Shifted above the byte that counts a slot's writes.
const SLOT_STEP: u64 = 0x009e_3779_b97f_4a7d << 8;

/// The conversion of positions to stamps in one cache.
#[derive(Clone, Copy, Debug)]
pub struct Stamps {
    /// The constant of the cache: a page of an older cache on the device is never taken for one of this
    /// cache.
    cache: u64,
    /// Added for each slot; 0 with log placement.
    step: u64,
}

impl Stamps {
    /// The stamps of the cache that `superblock` describes.
    pub fn of(superblock: &Superblock) -> Self {
        let slots = superblock.policy.placement() == Placement::Slots;
        Self { step: if slots { SLOT_STEP } else { 0 }, ..Self::of_log(superblock.cache) }
    }

    /// The stamps of a cache with log placement.
    pub fn of_log(cache: Uuid) -> Self {
        Self { cache: cache.high() >> 16 << 8, step: 0 }
    }

    /// The stamp of the page at `position` while it has no slot, or where the position determines the slot
    /// (log placement).
    pub fn stamp(self, position: Position) -> Position {
        Position(position.0.wrapping_add(self.cache))
    }

    /// The stamp of the page that is written to `slot` as the version at `position`.
    pub fn stamp_in(self, slot: SlotId, position: Position) -> Position {
        Position(self.stamp(position).0.wrapping_add(self.of_slot(slot)))
    }

    /// The position of `stamp`, found in `slot`. Any number, if this cache did not write the stamp there.
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

    /// The least distance from 0 of a multiple of the step, on the ring of 64-bit numbers. This is the least
    /// distance of two slots' stamps.
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
