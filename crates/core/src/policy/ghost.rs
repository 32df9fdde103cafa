//! Ghosts: what is remembered of pages that are not on flash, a word each, or half a word without notes on
//! them. A table of sets with [`WAYS`] entries; a full set forgets its oldest entry. A page is known by 16
//! bits of its hash, so about one page in 8,000 is taken for another one.
//!
//! Invariants: in each set the entries come first, from the newest to the oldest, then the empty words. No
//! set has two entries of one fingerprint. An empty word is 0, and a fingerprint never is.

use crate::PageId;
use crate::hash::bucket_of;
use crate::sections::{Carver, Plain, SectionPlan};
use crate::violation::{Violation, same};
use std::ops::Range;

/// Entries of a set.
pub(super) const WAYS: u32 = 8;
/// The fingerprint is above so many bits; the policy's note on the page is below.
const NOTE_BITS: u32 = 16;
const NOTE_MASK: u32 = (1 << NOTE_BITS) - 1;

/// Words of a table for `pages` pages.
pub(super) const fn words_for(pages: u32) -> u32 {
    let sets = pages.div_ceil(WAYS);
    if sets == 0 { WAYS } else { sets * WAYS }
}

/// An entry of the table: a page's fingerprint, and the policy's note on the page, if there is room for one.
pub(super) trait Word: Plain + Copy + Default + PartialEq {
    /// The entry of a page.
    fn new(fingerprint: u16, note: u16) -> Self;
    /// 0: the entry is empty.
    fn fingerprint(self) -> u16;
    /// 0, if there is no room.
    fn note(self) -> u16;
}

impl Word for u32 {
    fn new(fingerprint: u16, note: u16) -> Self {
        u32::from(fingerprint) << NOTE_BITS | u32::from(note)
    }

    fn fingerprint(self) -> u16 {
        (self >> NOTE_BITS) as u16
    }

    fn note(self) -> u16 {
        self as u16
    }
}

impl Word for u16 {
    fn new(fingerprint: u16, _note: u16) -> Self {
        fingerprint
    }

    fn fingerprint(self) -> u16 {
        self
    }

    fn note(self) -> u16 {
        0
    }
}

/// The remembered pages.
pub(super) struct Ghosts<'r, W = u32>(&'r mut [W]);

/// The set and the fingerprint of a page.
#[derive(Clone, Copy)]
pub(super) struct Place {
    first: usize,
    fingerprint: u16,
}

impl<'r, W: Word> Ghosts<'r, W> {
    /// Attaches to its section, which was planned as `plan` with [`words_for`]. `None`: the region is too
    /// short.
    #[inline(always)]
    pub(super) fn attach(plan: &SectionPlan, carver: &mut Carver<'r, '_>) -> Option<Self> {
        carver.take(plan).map(Self)
    }

    pub(super) fn place_of(&self, page: PageId) -> Place {
        let set = bucket_of(page.0, self.0.len() / WAYS as usize);
        let hash = (page.0 ^ page.0 >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Place { first: set * WAYS as usize, fingerprint: ((hash >> 48) as u16).max(1) }
    }

    fn set(&self, place: Place) -> &[W; WAYS as usize] {
        self.0[place.first..].first_chunk().expect("a whole set")
    }

    fn set_mut(&mut self, place: Place) -> &mut [W; WAYS as usize] {
        self.0[place.first..].first_chunk_mut().expect("a whole set")
    }

    /// A bit for the word of a page, if it is remembered. All words of the set are compared: a search would
    /// mispredict its end.
    #[inline(always)]
    fn ways_of(&self, place: Place) -> u32 {
        let equal = |word: &W| u32::from(word.fingerprint() == place.fingerprint);
        self.set(place).iter().zip(0..).fold(0, |ways, (word, way)| ways | equal(word) << way)
    }

    fn way_of(&self, place: Place) -> Option<usize> {
        let ways = self.ways_of(place);
        (ways != 0).then_some(ways.trailing_zeros() as usize)
    }

    /// Forgets a page. Returns the note on it, if it was remembered.
    pub(super) fn take(&mut self, place: Place) -> Option<u16> {
        let way = self.way_of(place)?;
        let set = self.set_mut(place);
        let note = set[way].note();
        for at in 0..WAYS as usize - 1 {
            set[at] = if at < way { set[at] } else { set[at + 1] };
        }
        set[WAYS as usize - 1] = W::default();
        Some(note)
    }

    /// Remembers a page as the newest of its set, with a note made from the one on it so far, if there is
    /// one. Returns the note on the other page that is forgotten for it, if there is one.
    pub(super) fn remember(&mut self, place: Place, make: impl FnOnce(Option<u16>) -> u16) -> Option<u16> {
        let known = self.way_of(place);
        let way = known.unwrap_or(WAYS as usize - 1);
        let set = self.set_mut(place);
        let last = set[way];
        for at in (1..WAYS as usize).rev() {
            set[at] = if at <= way { set[at - 1] } else { set[at] };
        }
        set[0] = W::new(place.fingerprint, make(known.map(|_| last.note())));
        (known.is_none() && last != W::default()).then_some(last.note())
    }

    pub(super) fn check(&self) -> Result<(), Violation> {
        for (at, set) in self.0.chunks_exact(WAYS as usize).enumerate() {
            let used = set.iter().take_while(|word| **word != W::default()).count();
            let sparse = set[used..].iter().any(|word| *word != W::default());
            same(|| format!("a gap in set {at} of the ghosts"), false, sparse)?;
            let twice =
                |way: usize| set[..way].iter().any(|word| word.fingerprint() == set[way].fingerprint());
            same(|| format!("a page twice in set {at} of the ghosts"), false, (0..used).any(twice))?;
        }
        Ok(())
    }
}

impl Ghosts<'_> {
    /// The note on a page, if it is remembered.
    pub(super) fn note(&self, place: Place) -> Option<u16> {
        self.way_of(place).map(|way| self.set(place)[way] as u16)
    }

    /// Replaces the note on a page by the answer of `change`, if the page is remembered. `change` gets a note
    /// and whether it is the page's; if not, its answer is dropped. The page stays as old as it is. There is
    /// no branch, since one that depends on the page would often be mispredicted.
    #[inline(always)]
    pub(super) fn change(&mut self, place: Place, change: impl FnOnce(u16, bool) -> u16) {
        let ways = self.ways_of(place);
        let entry = &mut self.set_mut(place)[ways.trailing_zeros() as usize % WAYS as usize];
        let is_remembered = ways != 0;
        let kept = if is_remembered { 0 } else { *entry };
        let changed = *entry & !NOTE_MASK | u32::from(change(*entry as u16, is_remembered));
        *entry = kept | changed & 0u32.wrapping_sub(is_remembered.into());
    }

    /// Words of the table.
    pub(super) fn words(&self) -> usize {
        self.0.len()
    }

    /// Changes the notes in these words of the table that are in use.
    pub(super) fn update(&mut self, words: Range<usize>, mut change: impl FnMut(u16) -> u16) {
        for entry in self.0[words].iter_mut().filter(|word| **word != 0) {
            *entry = *entry & !NOTE_MASK | u32::from(change(*entry as u16));
        }
    }
}
