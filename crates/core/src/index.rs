//! The words of the directory that a reader without the latch reads ([`crate::Unlatched`]): entries, the
//! chains of the index, checksums, and what tells a page's position. They are a memory of their own beside
//! the rest of the region, which only the holder of the latch reaches.
//!
//! | section | entries | bytes each |
//! |---|---|---|
//! | window | 1 | 64 |
//! | sequence numbers | one for about 64 entries, at most 4096 | 4 |
//! | reference bits | flash slots + staging frames | an eighth |
//! | slots | flash slots + staging frames | 12 |
//! | index buckets | flash slots + staging frames | 4 |
//! | checksums, if any are kept | flash slots + staging frames | 4 |
//!
//! Invariants:
//! - All changes but those of reference bits are made by the holder of the latch.
//! - A chain is changed under the sequence number of its bucket ([`crate::sequence`]): while an entry enters
//!   or leaves it, and from the first to the last of the changes by which versions of one page leave.
//! - The words of an entry, its checksum included, are complete before it enters a chain. A clean page may be
//!   called dirty for a moment longer.
//! - The window says which positions the slots have. A page in a chain is in it.
//! - A reference bit is that of the page in a chain; a reader that is late may set the bit of the page that
//!   follows in the slot.

use crate::PageId;
use crate::hash::bucket_of;
use crate::sections::SectionPlan;
use crate::sequence::{change_begins, change_ends, is_unchanged, read_begins, step_begins};
use crate::sizes::Sizes;
use crate::slot::{Entries, NIL, SLOT_WORDS, Slot};
use crate::words::{AtomicU32, load, set_bits, store, take_bits};

/// A cache line: it is read by every hit, and written when a group of slots is released.
const WINDOW_WORDS: usize = 16;
const WINDOW_SEQUENCE: usize = 0;
const RELEASED_LOW: usize = 1;
const RELEASED_HIGH: usize = 2;
const RELEASED_SLOT: usize = 3;

const WORD_BYTES: usize = size_of::<u32>();

/// Entries for each sequence number, about, and most numbers. Both are powers of two.
const ENTRIES_A_SEQUENCE: u32 = 64;
const SEQUENCES_MAX: u32 = 4096;

fn sequences(sizes: &Sizes) -> u32 {
    sizes.entries().div_ceil(ENTRIES_A_SEQUENCE).next_power_of_two().min(SEQUENCES_MAX)
}

fn reference_words(sizes: &Sizes) -> u32 {
    sizes.entries().div_ceil(u32::BITS)
}

const WINDOW: SectionPlan =
    SectionPlan { name: "window", entries: |_| 1, entry_bytes: WINDOW_WORDS * WORD_BYTES };
const SEQUENCES: SectionPlan = SectionPlan::many::<u32>("sequence numbers", sequences);
const REFERENCED: SectionPlan = SectionPlan::many::<u32>("reference bits", reference_words);
const ENTRIES: SectionPlan =
    SectionPlan { name: "slots", entries: Sizes::entries, entry_bytes: SLOT_WORDS * WORD_BYTES };
const BUCKETS: SectionPlan = SectionPlan::many::<u32>("index buckets", Sizes::entries);
const PROOFS: SectionPlan = SectionPlan::many::<u32>("checksums", Sizes::proofs);

/// All sections, in order.
pub(crate) const SECTIONS: &[SectionPlan] = &[WINDOW, SEQUENCES, REFERENCED, ENTRIES, BUCKETS, PROOFS];

/// Words of all sections.
pub(crate) fn words_of(sizes: &Sizes) -> usize {
    SECTIONS.iter().map(|plan| plan.bytes(sizes)).sum::<usize>() / WORD_BYTES
}

/// See the module's header.
#[derive(Clone, Copy)]
pub(crate) struct Index<'r> {
    window: &'r [AtomicU32; WINDOW_WORDS],
    /// A power of two of them.
    sequences: &'r [AtomicU32],
    referenced: &'r [AtomicU32],
    pub entries: Entries<'r>,
    /// First entry of each chain.
    buckets: &'r [AtomicU32],
    /// By entry: the checksum of its page; empty if none are kept.
    proofs: &'r [AtomicU32],
}

impl<'r> Index<'r> {
    /// Attaches to its words. `None`: they are too few.
    #[inline(always)]
    pub(crate) fn attach(words: &'r [AtomicU32], sizes: &Sizes) -> Option<Self> {
        let count = |plan: &SectionPlan| (plan.entries)(sizes) as usize;
        let (window, rest) = words.split_first_chunk()?;
        let (sequences, rest) = rest.split_at_checked(count(&SEQUENCES))?;
        let (referenced, rest) = rest.split_at_checked(count(&REFERENCED))?;
        let (entries, rest) = rest.split_at_checked(count(&ENTRIES) * SLOT_WORDS)?;
        let (buckets, proofs) = rest.split_at_checked(count(&BUCKETS))?;
        Some(Self { window, sequences, referenced, entries: Entries::of(entries), buckets, proofs })
    }

    /// As [`Index::attach`], for a step under the latch.
    #[inline(always)]
    pub(crate) fn attach_to_change(words: &'r [AtomicU32], sizes: &Sizes) -> Option<Self> {
        step_begins();
        Self::attach(words, sizes)
    }

    #[inline(always)]
    pub(crate) fn bucket_of(&self, page: PageId) -> usize {
        bucket_of(page.0, self.buckets.len())
    }

    /// The first entry of the chain.
    #[inline(always)]
    pub(crate) fn first_of(&self, bucket: usize) -> u32 {
        load(&self.buckets[bucket])
    }

    #[inline(always)]
    pub(crate) fn set_first(&self, bucket: usize, entry: u32) {
        store(&self.buckets[bucket], entry);
    }

    /// The first entries of all chains.
    pub(crate) fn chains(&self) -> impl Iterator<Item = u32> + use<'r> {
        self.buckets.iter().map(load)
    }

    /// Numbers of changes that are under way.
    pub(crate) fn changes(&self) -> usize {
        let numbers = self.sequences.iter().chain(&self.window[WINDOW_SEQUENCE..=WINDOW_SEQUENCE]);
        numbers.filter(|sequence| load(sequence) & 1 != 0).count()
    }

    /// Makes all chains empty.
    pub(crate) fn format(&self) {
        self.buckets.iter().for_each(|bucket| store(bucket, NIL));
        self.entries.iter().for_each(Slot::clear);
    }

    #[inline(always)]
    fn sequence(&self, bucket: usize) -> &'r AtomicU32 {
        &self.sequences[bucket & (self.sequences.len() - 1)]
    }

    /// A change of the chain begins, unless one that covers it is under way. False: it is, and ends later.
    #[inline(always)]
    pub(crate) fn change_begins(&self, bucket: usize) -> bool {
        change_begins(self.sequence(bucket))
    }

    /// The change that has begun is complete.
    #[inline(always)]
    pub(crate) fn change_ends(&self, bucket: usize) {
        change_ends(self.sequence(bucket));
    }

    /// See [`read_begins`].
    #[inline(always)]
    pub(crate) fn read_begins(&self, bucket: usize) -> Option<u32> {
        read_begins(self.sequence(bucket))
    }

    /// See [`is_unchanged`].
    #[inline(always)]
    pub(crate) fn is_unchanged(&self, bucket: usize, begun: u32) -> bool {
        is_unchanged(self.sequence(bucket), begun)
    }

    /// The checksum of the page of entry `at`; 0 if none are kept.
    #[inline(always)]
    pub(crate) fn proof(&self, at: u32) -> u32 {
        self.proofs.get(at as usize).map_or(0, load)
    }

    /// Notes the checksum of the page of entry `at`, if any are kept.
    #[inline(always)]
    pub(crate) fn set_proof(&self, at: u32, proof: u32) {
        if let Some(kept) = self.proofs.get(at as usize) {
            store(kept, proof);
        }
    }

    #[inline(always)]
    fn reference(&self, at: u32) -> (&'r AtomicU32, u32) {
        (&self.referenced[(at / u32::BITS) as usize], 1 << (at % u32::BITS))
    }

    /// The page of entry `at` was fetched.
    #[inline(always)]
    pub(crate) fn refer(&self, at: u32) {
        let (word, bit) = self.reference(at);
        set_bits(word, bit);
    }

    /// Whether the page of entry `at` was fetched since it entered.
    #[inline(always)]
    pub(crate) fn is_referenced(&self, at: u32) -> bool {
        let (word, bit) = self.reference(at);
        load(word) & bit != 0
    }

    /// The page of entry `at` counts as not fetched.
    #[inline(always)]
    pub(crate) fn take_reference(&self, at: u32) {
        let (word, bit) = self.reference(at);
        take_bits(word, bit);
    }

    /// The page of entry `from` is in entry `to` now.
    #[inline(always)]
    pub(crate) fn carry_reference(&self, from: u32, to: u32) {
        if self.is_referenced(from) { self.refer(to) } else { self.take_reference(to) }
    }

    /// Slots have the positions from `released` on, of which the first is in `slot`.
    pub(crate) fn set_window(&self, released: u64, slot: u32) {
        let sequence = &self.window[WINDOW_SEQUENCE];
        change_begins(sequence);
        store(&self.window[RELEASED_LOW], released as u32);
        store(&self.window[RELEASED_HIGH], (released >> 32) as u32);
        store(&self.window[RELEASED_SLOT], slot);
        change_ends(sequence);
    }

    /// The positions as [`Index::set_window`] has them. `None`: they are being changed.
    #[inline(always)]
    pub(crate) fn window(&self) -> Option<(u64, u32)> {
        let sequence = &self.window[WINDOW_SEQUENCE];
        let begun = read_begins(sequence)?;
        let (low, high) = (load(&self.window[RELEASED_LOW]), load(&self.window[RELEASED_HIGH]));
        let slot = load(&self.window[RELEASED_SLOT]);
        is_unchanged(sequence, begun).then_some((u64::from(high) << 32 | u64::from(low), slot))
    }
}
