//! The words of the directory that a reader without the latch reads ([`crate::Unlatched`]): entries, the
//! chains of the index, checksums, and what tells a page's position. They may be in a memory of their own.
//! Only the holder of the latch reaches the rest of the region.
//!
//! | section | entries | bytes each |
//! |---|---|---|
//! | window | 1 | 64 |
//! | slots | flash slots + staging frames | 12 |
//! | index buckets | flash slots + staging frames | 4 |
//! | checksums, if any are kept | flash slots + staging frames | 4 |
//! | reference bits, if the policy asks for them | flash slots + staging frames | an eighth |
//! | sequence numbers, if hits need no latch | one for about 64 entries, at most 4096 | 4 |
//!
//! Invariants:
//! - All changes but those of reference bits are made by the holder of the latch.
//! - A chain is changed under the sequence number of its bucket ([`crate::sequence`]): while an entry enters
//!   or leaves it, and from the first to the last of the changes by which versions of one page leave.
//! - The words of an entry, its checksum included, are complete before it enters a chain. A clean page may be
//!   called dirty for a moment longer.
//! - The window says which positions the slots have. A page in a chain is in it.
//! - A reference bit is that of the page in a chain; a reader that is late may set the bit of the page that
//!   follows in the slot. A staging frame without a page has none.

use crate::PageId;
use crate::hash::bucket_of;
use crate::sections::SectionPlan;
use crate::sequence::{Sequence, step_begins};
use crate::sizes::Sizes;
use crate::slot::{Entries, NIL, SLOT_WORDS, Slot};
use crate::words::{AtomicU32, load, set_bits, store, take_bits};

/// A cache line: it is read by every hit, and written when a group of slots is released.
const WINDOW_WORDS: usize = 16;
const WINDOW_SEQUENCE: u32 = 0;
const RELEASED_LOW: u32 = 1;
const RELEASED_HIGH: u32 = 2;
const RELEASED_SLOT: u32 = 3;

const WORD_BYTES: usize = size_of::<u32>();

/// Entries for each sequence number, about, and most numbers. Both are powers of two.
const ENTRIES_A_SEQUENCE: u32 = if cfg!(feature = "shuttle") { 2 } else { 64 };
const SEQUENCES_MAX: u32 = 4096;

fn sequences(sizes: &Sizes) -> u32 {
    let some = || sizes.entries().div_ceil(ENTRIES_A_SEQUENCE).next_power_of_two().min(SEQUENCES_MAX);
    if sizes.unlatched { some() } else { 0 }
}

fn reference_words(sizes: &Sizes) -> u32 {
    if sizes.references { sizes.entries().div_ceil(u32::BITS) } else { 0 }
}

const WINDOW: SectionPlan =
    SectionPlan { name: "window", entries: |_| 1, entry_bytes: WINDOW_WORDS * WORD_BYTES };
const ENTRIES: SectionPlan =
    SectionPlan { name: "slots", entries: Sizes::entries, entry_bytes: SLOT_WORDS * WORD_BYTES };
const BUCKETS: SectionPlan = SectionPlan::many::<u32>("index buckets", Sizes::entries);
const PROOFS: SectionPlan = SectionPlan::many::<u32>("checksums", Sizes::proofs);
const REFERENCED: SectionPlan = SectionPlan::many::<u32>("reference bits", reference_words);
const SEQUENCES: SectionPlan = SectionPlan::many::<u32>("sequence numbers", sequences);

/// All sections, in order.
pub(crate) const SECTIONS: &[SectionPlan] = &[WINDOW, ENTRIES, BUCKETS, PROOFS, REFERENCED, SEQUENCES];

/// Where the sections of an index are, in words, and how long they are. Links have 28 bits, so these have 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexPlan {
    /// Flash slots: the first entries.
    pub slots: u32,
    /// Entries, which begin after the window, and buckets.
    entries: u32,
    proofs_at: u32,
    /// Checksums: as many as entries, or none.
    proofs: u32,
    referenced_at: u32,
    /// Entries that have a reference bit: all, or none.
    referenced: u32,
    sequences_at: u32,
    /// A power of two, or none.
    sequences: u32,
}

impl IndexPlan {
    pub(crate) fn of(sizes: &Sizes) -> Self {
        let entries = sizes.entries();
        let proofs_at = WINDOW_WORDS as u32 + (SLOT_WORDS as u32 + 1) * entries;
        let referenced_at = proofs_at + sizes.proofs();
        Self {
            slots: sizes.slots,
            entries,
            proofs_at,
            proofs: sizes.proofs(),
            referenced_at,
            referenced: if sizes.references { entries } else { 0 },
            sequences_at: referenced_at + reference_words(sizes),
            sequences: sequences(sizes),
        }
    }

    /// Words of all sections.
    pub(crate) fn words(&self) -> usize {
        self.sequences_at as usize + self.sequences as usize
    }

    #[inline(always)]
    pub(crate) fn bucket_of(&self, page: PageId) -> u32 {
        bucket_of(page.0, self.entries as usize) as u32
    }

    /// Where the word of a bucket is: the first entry of its chain.
    #[inline(always)]
    pub(crate) fn at_bucket(&self, bucket: u32) -> usize {
        WINDOW_WORDS + SLOT_WORDS * self.entries as usize + bucket as usize
    }

    /// Where the sequence number of a bucket is. `None`: hits take the latch.
    #[inline(always)]
    pub(crate) fn at_sequence(&self, bucket: u32) -> Option<u32> {
        let mask = self.sequences.checked_sub(1)?;
        Some(self.sequences_at + (bucket & mask))
    }

    /// The entry, if there is one.
    #[inline(always)]
    pub(crate) fn entry<'r>(&self, words: &'r [AtomicU32], at: u32) -> Option<Slot<'r>> {
        let first = WINDOW_WORDS + SLOT_WORDS * at as usize;
        (at < self.entries).then(|| Slot::of(&words[first..first + SLOT_WORDS]))
    }

    /// The checksum of the page of entry `at`; 0 if none are kept.
    #[inline(always)]
    pub(crate) fn proof(&self, words: &[AtomicU32], at: u32) -> u32 {
        if at < self.proofs { load(&words[(self.proofs_at + at) as usize]) } else { 0 }
    }

    /// Where the reference bit of entry `at` is, and which bit of that word it is. `None`: none are kept.
    #[inline(always)]
    fn at_reference(&self, at: u32) -> Option<(usize, u32)> {
        let is_kept = at < self.referenced;
        is_kept.then(|| ((self.referenced_at + at / u32::BITS) as usize, 1 << (at % u32::BITS)))
    }

    /// The page of entry `at` was fetched.
    #[inline(always)]
    pub(crate) fn refer(&self, words: &[AtomicU32], at: u32) {
        if let Some((word, bit)) = self.at_reference(at) {
            set_bits(&words[word], bit);
        }
    }
}

/// See the module's header.
#[derive(Clone, Copy)]
pub(crate) struct Index<'r> {
    entries: Entries<'r>,
    /// First entry of each chain.
    buckets: &'r [AtomicU32],
    /// All words.
    words: &'r [AtomicU32],
    plan: IndexPlan,
}

impl<'r> Index<'r> {
    /// Attaches to its words, which are as many as `plan` says.
    #[inline(always)]
    pub(crate) fn attach(words: &'r [AtomicU32], plan: &IndexPlan) -> Self {
        let (entries, rest) = words[WINDOW_WORDS..].split_at(SLOT_WORDS * plan.entries as usize);
        let buckets = &rest[..plan.entries as usize];
        Self { entries: Entries::of(entries), buckets, words, plan: *plan }
    }

    /// As [`Index::attach`], for a step under the latch.
    #[inline(always)]
    pub(crate) fn attach_to_change(words: &'r [AtomicU32], plan: &IndexPlan) -> Self {
        step_begins();
        Self::attach(words, plan)
    }

    #[inline(always)]
    fn word(&self, at: u32) -> &'r AtomicU32 {
        &self.words[at as usize]
    }

    /// Entries, those of slots and of staging frames.
    #[inline(always)]
    pub(crate) fn len(&self) -> u32 {
        self.plan.entries
    }

    #[inline(always)]
    pub(crate) fn entry(&self, at: u32) -> Slot<'r> {
        self.entries.at(at)
    }

    /// The entry, if there is one.
    #[inline(always)]
    pub(crate) fn get(&self, at: u32) -> Option<Slot<'r>> {
        self.entries.get(at as usize)
    }

    /// The first entries, as many as `count`.
    pub(crate) fn first(&self, count: u32) -> Entries<'r> {
        self.entries.range(0..count as usize)
    }

    #[inline(always)]
    pub(crate) fn bucket_of(&self, page: PageId) -> u32 {
        bucket_of(page.0, self.buckets.len()) as u32
    }

    /// The first entry of the chain.
    #[inline(always)]
    pub(crate) fn first_of(&self, bucket: u32) -> u32 {
        load(&self.buckets[bucket as usize])
    }

    #[inline(always)]
    pub(crate) fn set_first(&self, bucket: u32, entry: u32) {
        store(&self.buckets[bucket as usize], entry);
    }

    /// The first entries of all chains.
    pub(crate) fn chains(&self) -> impl Iterator<Item = u32> + use<'r> {
        self.buckets.iter().map(load)
    }

    /// Numbers of changes that are under way.
    pub(crate) fn changes(&self) -> usize {
        let numbers = self.words[self.plan.sequences_at as usize..][..self.plan.sequences as usize].iter();
        let is_odd = |sequence: &&AtomicU32| load(sequence) & 1 != 0;
        numbers.chain([self.word(WINDOW_SEQUENCE)]).filter(is_odd).count()
    }

    /// Makes all chains empty.
    pub(crate) fn format(&self) {
        (0..self.plan.entries).for_each(|bucket| self.set_first(bucket, NIL));
        self.first(self.plan.entries).iter().for_each(Slot::clear);
    }

    /// The sequence number of a bucket. `None`: hits take the latch.
    #[inline(always)]
    pub(crate) fn sequence(&self, bucket: u32) -> Option<Sequence<'r>> {
        self.plan.at_sequence(bucket).map(|at| Sequence(self.word(at)))
    }

    /// Makes `change` in the chain of a bucket, so that no reader takes what it finds meanwhile for the
    /// chain.
    #[inline(always)]
    pub(crate) fn change<R>(&self, bucket: u32, change: impl FnOnce() -> R) -> R {
        let Some(sequence) = self.sequence(bucket) else { return change() };
        let begun = sequence.change_begins();
        let result = change();
        sequence.change_ends(begun);
        result
    }

    /// The checksum of the page of entry `at`; 0 if none are kept.
    #[inline(always)]
    pub(crate) fn proof(&self, at: u32) -> u32 {
        self.plan.proof(self.words, at)
    }

    /// Notes the checksum of the page of entry `at`, if any are kept.
    #[inline(always)]
    pub(crate) fn set_proof(&self, at: u32, proof: u32) {
        if at < self.plan.proofs {
            store(self.word(self.plan.proofs_at + at), proof);
        }
    }

    /// The word and the bit of entry `at`. `None`: none are kept.
    #[inline(always)]
    fn reference(&self, at: u32) -> Option<(&'r AtomicU32, u32)> {
        self.plan.at_reference(at).map(|(word, bit)| (&self.words[word], bit))
    }

    /// The page of entry `at` was fetched.
    #[inline(always)]
    pub(crate) fn refer(&self, at: u32) {
        self.plan.refer(self.words, at);
    }

    /// Whether the page of entry `at` was fetched since it entered.
    #[inline(always)]
    pub(crate) fn is_referenced(&self, at: u32) -> bool {
        self.reference(at).is_some_and(|(word, bit)| load(word) & bit != 0)
    }

    /// The page of entry `at` counts as not fetched.
    #[inline(always)]
    pub(crate) fn take_reference(&self, at: u32) {
        if let Some((word, bit)) = self.reference(at) {
            take_bits(word, bit);
        }
    }

    /// The page of entry `from` is in entry `to` now, alone.
    #[inline(always)]
    pub(crate) fn move_reference(&self, from: u32, to: u32) {
        if self.is_referenced(from) {
            self.take_reference(from);
            self.refer(to);
        } else {
            self.take_reference(to);
        }
    }

    /// Slots have the positions from `released` on, of which the first is in `slot`.
    pub(crate) fn set_window(&self, released: u64, slot: u32) {
        let sequence = Sequence(self.word(WINDOW_SEQUENCE));
        let begun = sequence.change_begins();
        store(self.word(RELEASED_LOW), released as u32);
        store(self.word(RELEASED_HIGH), (released >> 32) as u32);
        store(self.word(RELEASED_SLOT), slot);
        sequence.change_ends(begun);
    }

    /// The positions as [`Index::set_window`] has them. `None`: they are being changed.
    #[inline(always)]
    pub(crate) fn window(&self) -> Option<(u64, u32)> {
        window_of(self.words)
    }
}

/// See [`Index::window`].
#[inline(always)]
pub(crate) fn window_of(words: &[AtomicU32]) -> Option<(u64, u32)> {
    let window: &[AtomicU32; WINDOW_WORDS] = words.first_chunk()?;
    let sequence = Sequence(&window[WINDOW_SEQUENCE as usize]);
    let begun = sequence.read_begins()?;
    let [low, high, slot] = [RELEASED_LOW, RELEASED_HIGH, RELEASED_SLOT].map(|at| load(&window[at as usize]));
    sequence.is_unchanged(begun).then_some((u64::from(high) << 32 | u64::from(low), slot))
}
