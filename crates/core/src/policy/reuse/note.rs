//! A note on a page, 16 bits: the epoch in which it was last fetched or evicted from DRAM, modulo 1,024; its
//! class; in a ghost, whether it was dirty. The class is a running mean of the age buckets at which the page
//! was used, or [`NEW`].

use super::hazard::{BUCKETS, Hazard, bucket};
use super::warmth::{LEVELS, bucket_of_level};

/// The class of a page that was not seen before. In the ring, those of warm regions have the classes after
/// it, by the level of warmth.
pub(super) const NEW: u32 = BUCKETS as u32;
/// Classes, each for clean and for dirty pages: in slots, and in the ring.
pub(super) const CLASSES_OF_SLOTS: u32 = 2 * (NEW + 1);
pub(super) const CLASSES_OF_RING: u32 = 2 * (NEW + LEVELS);
/// Ages are at most so many epochs.
pub(super) const AGE_MAX: u32 = 512;

const EPOCH_BITS: u32 = 10;
const EPOCH_MASK: u32 = (1 << EPOCH_BITS) - 1;
/// As many values as there are classes in the ring.
const CLASS_MASK: u32 = NEW + LEVELS - 1;
const _: () = assert!(CLASS_MASK == 31);
/// Of the note on a ghost: the page was dirty.
const WAS_DIRTY: u16 = 1 << 15;

/// A note on a page. A zeroed one is that on a new page.
#[derive(Clone, Copy)]
pub(super) struct Note(pub u16);

impl Note {
    pub fn of(class: u32, epoch: u32, dirty: bool) -> Self {
        let word = (NEW.wrapping_sub(class) & CLASS_MASK) << EPOCH_BITS | epoch & EPOCH_MASK;
        Self(word as u16 | if dirty { WAS_DIRTY } else { 0 })
    }

    pub fn class(self) -> u32 {
        NEW.wrapping_sub(u32::from(self.0) >> EPOCH_BITS) & CLASS_MASK
    }

    pub fn is_dirty(self) -> bool {
        self.0 & WAS_DIRTY != 0
    }

    /// Epochs since its page was fetched or evicted from DRAM.
    pub fn age(self, now: u32) -> u32 {
        now.wrapping_sub(self.0.into()) & EPOCH_MASK
    }

    /// Its page is used: counts `one` for that, and returns the note on it from now on.
    #[inline(always)]
    pub fn used(self, hazards: &mut [Hazard], dirty: bool, epoch: u32, one: u32) -> Self {
        let (class, age) = (self.class(), self.age(epoch));
        hazards[number_of(class, dirty)].used(age, one);
        Self::of(mixed(class, bucket(age)), epoch, self.is_dirty())
    }

    /// The same, on a ghost.
    pub fn of_ghost(self, dirty: bool) -> Self {
        Self(self.0 & !WAS_DIRTY | if dirty { WAS_DIRTY } else { 0 })
    }

    /// With an age of at most [`AGE_MAX`].
    pub fn refreshed(self, now: u32) -> Self {
        let limited = self.0 & !(EPOCH_MASK as u16) | (now.wrapping_sub(AGE_MAX) & EPOCH_MASK) as u16;
        Self(if self.age(now) <= AGE_MAX { self.0 } else { limited })
    }
}

/// The number of the class of pages of `class` that are dirty or not.
pub(super) fn number_of(class: u32, dirty: bool) -> usize {
    (2 * class + u32::from(dirty)) as usize
}

/// The class of a page of `class` that was used at `age`.
fn mixed(class: u32, bucket: usize) -> u32 {
    MIXED[class as usize][bucket].into()
}

/// See [`mixed`]. A table, as classes are not predictable. At its first use, a page of a warm region has the
/// mean of its own time and the region's.
static MIXED: [[u8; BUCKETS]; (NEW + LEVELS) as usize] = {
    let mut mixed = [[0; BUCKETS]; (NEW + LEVELS) as usize];
    let mut class = 0;
    while class < NEW + LEVELS {
        let mut bucket = 0;
        while bucket < BUCKETS as u32 {
            let mean = match class {
                0..NEW => (3 * class + bucket + 2) / 4,
                NEW => bucket,
                _ => (bucket + bucket_of_level(class - NEW)) / 2,
            };
            let most = BUCKETS as u32 - 1;
            mixed[class as usize][bucket as usize] = if mean < most { mean } else { most } as u8;
            bucket += 1;
        }
        class += 1;
    }
    mixed
};
