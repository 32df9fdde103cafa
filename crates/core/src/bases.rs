//! How much of its owner's log each dirty page needs while the disk lacks it, so that the flash may be lost.
//!
//! The owner counts its complete checkpoints. The *base* of a dirty page is the number of the last complete
//! one when the oldest of its changes that the disk lacks was handed down. Checkpoint `n` hands down every
//! change from before its redo point. So all changes of a page that the disk lacks are in the log from the
//! redo point of its base on. The *horizon* is the oldest base: the log from there, and the disk, are enough.
//!
//! Invariants:
//! - A newer dirty version of a page, a second chance too, has the base of the dirty version before it, or an
//!   older one. Only a durable copy on disk ends a base.
//! - What the disk has, durably, is not written there again: a write that power cuts off needs an image in
//!   the log, and the log has one from after the base of a version that the disk lacks. So a page that left
//!   the flash while DRAM still called it newer than disk enters as a clean one.
//! - A dirty page that is forgotten counts until the second checkpoint from then on is complete: the first
//!   one may have begun before, and not have synced what took the page's place.
//! - `held` counts, by base, the dirty pages in staging and the dirty valid slots.
//! - A base is stored modulo 256. None is more than [`BASES_MAX`] checkpoints old, so it is unambiguous. One
//!   that is not known counts as one checkpoint older than that.

use crate::sections::{Carver, SectionPlan};
use crate::sizes::Sizes;
use zerocopy::IntoBytes;

/// Checkpoints by which a base may be older than the last complete one.
pub const BASES_MAX: u64 = 200;

const NOW: usize = 0;
const FORGOTTEN: usize = 2;
const HELD: usize = 4;
const HEAD_WORDS: usize = HELD + 256;

/// Of [`FORGOTTEN`]: nothing was.
const NOTHING: u32 = u32::MAX;

/// See the module's header.
pub(crate) struct Bases<'r> {
    /// Two words of the number of the last complete checkpoint; the oldest bases forgotten since the last
    /// and since the one before; `held`; then a byte for each entry of the directory. Empty: none are kept.
    words: &'r mut [u32],
}

pub(crate) const BASES: SectionPlan = SectionPlan::many::<u32>("bases", words);

fn words(sizes: &Sizes) -> u32 {
    if sizes.bases { HEAD_WORDS as u32 + sizes.entries().div_ceil(4) } else { 0 }
}

impl<'r> Bases<'r> {
    /// Attaches to its section. `None`: the region is too short.
    #[inline(always)]
    pub(crate) fn attach(carver: &mut Carver<'r, '_>) -> Option<Self> {
        let words = if carver.sizes().bases { carver.take(&BASES)? } else { Default::default() };
        Some(Self { words })
    }

    pub(crate) fn format(&mut self) {
        if self.are_kept() {
            self.words[FORGOTTEN..HELD].fill(NOTHING);
        }
    }

    #[inline(always)]
    pub(crate) fn are_kept(&self) -> bool {
        !self.words.is_empty()
    }

    /// The number of the last complete checkpoint.
    pub(crate) fn now(&self) -> u64 {
        u64::from(self.words[NOW]) | u64::from(self.words[NOW + 1]) << 32
    }

    fn stored(&self, entry: u32) -> u8 {
        self.words[HEAD_WORDS..].as_bytes()[entry as usize]
    }

    fn age_of(&self, stored: u8) -> u64 {
        u64::from((self.now() as u8).wrapping_sub(stored))
    }

    fn count(&mut self, stored: u8) -> &mut u32 {
        &mut self.words[HELD + usize::from(stored)]
    }

    /// The base of the dirty page of an entry. A number before the first checkpoint is 0.
    pub(crate) fn of(&self, entry: u32) -> u64 {
        self.now().saturating_sub(self.age_of(self.stored(entry)))
    }

    /// A dirty page is in `entry` from now on.
    pub(crate) fn enter(&mut self, entry: u32, base: u64) {
        let stored = base as u8;
        self.words[HEAD_WORDS..].as_mut_bytes()[entry as usize] = stored;
        *self.count(stored) += 1;
    }

    /// A dirty page of which nothing is known is in `entry` from now on.
    pub(crate) fn enter_unknown(&mut self, entry: u32) {
        self.enter(entry, self.now().wrapping_sub(BASES_MAX + 1));
    }

    /// The page of `entry` is not dirty any more, or another version has its base.
    pub(crate) fn leave(&mut self, entry: u32) {
        let stored = self.stored(entry);
        *self.count(stored) -= 1;
    }

    /// The dirty page of the entry `from` is in the entry `to` now.
    pub(crate) fn carry(&mut self, from: u32, to: u32) {
        let stored = self.stored(from);
        self.words[HEAD_WORDS..].as_mut_bytes()[to as usize] = stored;
    }

    /// The dirty page of `entry` is forgotten; it still counts.
    pub(crate) fn forget(&mut self, entry: u32) {
        let age = self.age_of(self.stored(entry));
        let known = self.words[FORGOTTEN];
        if known == NOTHING || self.age_of(known as u8) < age {
            self.words[FORGOTTEN] = u32::from(self.stored(entry));
        }
    }

    /// The oldest base, at most the last complete checkpoint. 0: that of some page is not known.
    pub(crate) fn horizon(&self) -> u64 {
        let age = self.oldest_age();
        if age > BASES_MAX { 0 } else { self.now().saturating_sub(age) }
    }

    fn oldest_age(&self) -> u64 {
        let held = (0..=u64::from(u8::MAX)).rev().find(|age| {
            let stored = (self.now() as u8).wrapping_sub(*age as u8);
            self.words[HELD + usize::from(stored)] > 0
        });
        let forgotten = self.words[FORGOTTEN..HELD].iter().filter(|stored| **stored != NOTHING);
        let forgotten = forgotten.map(|stored| self.age_of(*stored as u8)).max();
        held.max(forgotten).unwrap_or(0)
    }

    /// Dirty pages whose base is before `number`.
    pub(crate) fn before(&self, number: u64) -> u32 {
        let youngest = (self.now() + 1).saturating_sub(number).min(256);
        let ages = youngest..256;
        ages.map(|age| self.words[HELD + usize::from((self.now() as u8).wrapping_sub(age as u8))]).sum()
    }

    /// Checkpoint `number`, the next one or a later one, is complete. False: a base would be too old.
    pub(crate) fn advance(&mut self, number: u64) -> bool {
        let steps = number.saturating_sub(self.now());
        let is_possible = number >= self.now() && self.oldest_age().saturating_add(steps) <= BASES_MAX;
        if is_possible && steps > 0 {
            self.set_now(number);
            self.words[FORGOTTEN + 1] = self.words[FORGOTTEN];
            self.words[FORGOTTEN] = NOTHING;
        }
        is_possible
    }

    /// Without a look at what is held.
    pub(crate) fn set_now(&mut self, number: u64) {
        (self.words[NOW], self.words[NOW + 1]) = (number as u32, (number >> 32) as u32);
    }

    /// Goes on where `old` ends, without its entries.
    pub(crate) fn take_over(&mut self, old: &Bases<'_>) {
        if self.are_kept() && old.are_kept() {
            self.words[..HELD].copy_from_slice(&old.words[..HELD]);
        }
    }

    /// No page is dirty.
    pub(crate) fn clear(&mut self) {
        if self.are_kept() {
            self.words[HELD..HEAD_WORDS].fill(0);
        }
    }

    /// For the check: pages of each base, the same as the counts of `held`.
    pub(crate) fn recount(&self, entries: impl Iterator<Item = u32>) -> ([u32; 256], [u32; 256]) {
        let mut found = [0; 256];
        entries.for_each(|entry| found[usize::from(self.stored(entry))] += 1);
        let mut held = [0; 256];
        held.copy_from_slice(&self.words[HELD..HEAD_WORDS]);
        (found, held)
    }
}
