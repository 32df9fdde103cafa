//! What proves the pages on flash: one **word** of four bytes for each. A native page has its checksum in its
//! header, and its word is the number of the write that wrote it: a part of its stamp. A raw page is a
//! client's bytes without a header, and its word is their checksum, keyed with page id and population.
//!
//! The words of a fragment are in a **block of proofs**, which follows its pages on flash: a population
//! writes both in one request. Memory has the words of some fragments, the **lines**; a read of a page of
//! another fragment reads the block at the same time as the page. If a line has room for every fragment
//! ([`FragmentOptions::proofs_kept`](super::FragmentOptions::proofs_kept)), flash has no blocks of proofs.
//!
//! Invariants:
//! - A block is believed only if it is undamaged and has the number that memory expects of it. Each write of
//!   a block has a number of its own, modulo 2^32. So no older block passes, nor that of another fragment or
//!   open.
//! - The word of a page that is valid on flash is in its fragment's line. Without a line it is in the block.
//! - A line that has changed is not given to another fragment before its block is on flash. Changed lines are
//!   written with later writes-through, so that half of the lines can be given away.
//! - A block is not written while its fragment is populated: its writer holds the fragment
//!   ([`Fragments::hold`](entresol_core::Fragments::hold)).

use entresol_core::{FlashCopy, SlotId};

/// A copy on flash: its place, and what proves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProvableCopy {
    pub slot: SlotId,
    /// The number of the population that wrote its fragment.
    pub population: u32,
    /// The number of its fragment's block of proofs.
    pub block: u32,
    /// See the module's header. `None`: it is in the block.
    pub word: Option<u32>,
}

/// A block of proofs that is to be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cleaning {
    /// The first slot of its fragment.
    pub slot: SlotId,
    pub number: u32,
    line: u32,
}

/// Bytes of DRAM for each fragment on flash: where its words are.
pub(super) const PLACE_BYTES: usize = size_of::<Place>();
/// Bytes of DRAM of a line in addition to its words.
pub(super) const LINE_BYTES: usize = size_of::<Line>();

/// No line, no fragment.
const NONE: u32 = u32::MAX;
/// Most lines that are looked at in the search for one to give away or to write.
const LOOKED_AT_MAX: usize = 64;

/// Where the words of a fragment are.
#[derive(Clone, Copy)]
struct Place {
    /// Its line, or [`NONE`].
    line: u32,
    /// The number of its block on flash.
    block: u32,
}

/// Has been used since the hand passed.
const USED: u32 = 1;
/// The block on flash has older words.
const CHANGED: u32 = 2;
/// Its block is being written.
const WRITING: u32 = 4;

#[derive(Clone, Copy)]
struct Line {
    /// The fragment on flash whose words it has, or [`NONE`].
    fragment: u32,
    flags: u32,
}

impl Line {
    const FREE: Line = Line { fragment: NONE, flags: 0 };

    fn has(&self, flags: u32) -> bool {
        self.flags & flags != 0
    }
}

/// See the module's header.
pub(super) struct Proofs {
    /// Pages of a fragment.
    pages: usize,
    /// The number of the next write.
    next: u32,
    places: Box<[Place]>,
    lines: Box<[Line]>,
    /// By line.
    words: Box<[u32]>,
    /// Changed lines.
    changed: u32,
    /// Where the search for a line to give away continues, and that for one to write.
    hands: [usize; 2],
}

impl Proofs {
    /// For `fragments` fragments of `pages` pages on flash, with `lines` lines.
    pub(super) fn new(fragments: u32, pages: u32, lines: u32) -> Self {
        let is_all = lines >= fragments;
        let lines = lines.min(fragments);
        let place = |fragment| Place { line: if is_all { fragment } else { NONE }, block: 0 };
        let line = |fragment| if is_all { Line { fragment, flags: 0 } } else { Line::FREE };
        Self {
            pages: pages as usize,
            next: 0,
            places: (0..fragments).map(place).collect(),
            lines: (0..lines).map(line).collect(),
            words: vec![0; lines as usize * pages as usize].into(),
            changed: 0,
            hands: [0; 2],
        }
    }

    /// Every fragment has a line, and flash has no blocks.
    fn are_all_kept(&self) -> bool {
        self.lines.len() == self.places.len()
    }

    fn place_of(&self, slot: SlotId) -> (usize, usize) {
        (slot.0 as usize / self.pages, slot.0 as usize % self.pages)
    }

    fn line_of(&self, fragment: usize) -> Option<usize> {
        let line = self.places[fragment].line;
        (line != NONE).then_some(line as usize)
    }

    fn words_of(&mut self, line: usize) -> &mut [u32] {
        &mut self.words[line * self.pages..][..self.pages]
    }

    fn number(&mut self) -> u32 {
        self.next = self.next.wrapping_add(1);
        self.next
    }

    /// The copy with what is known of its proof.
    pub(super) fn of(&self, copy: FlashCopy) -> ProvableCopy {
        let (fragment, offset) = self.place_of(copy.slot);
        let word = self.line_of(fragment).map(|line| self.words[line * self.pages + offset]);
        let block = self.places[fragment].block;
        ProvableCopy { slot: copy.slot, population: copy.population, block, word }
    }

    /// The line of the fragment in this place is in use.
    pub(super) fn note_use(&mut self, slot: SlotId) {
        if let Some(line) = self.line_of(self.place_of(slot).0) {
            self.lines[line].flags |= USED;
        }
    }

    /// The number of the block that has the words of the fragment in this place. `None`: memory has them.
    pub(super) fn missing(&self, slot: SlotId) -> Option<u32> {
        let (fragment, _) = self.place_of(slot);
        self.line_of(fragment).is_none().then(|| self.places[fragment].block)
    }

    /// Begins a write-through of a page. Returns its new version.
    pub(super) fn begin_write(&mut self, copy: FlashCopy) -> ProvableCopy {
        let number = self.number();
        ProvableCopy { word: Some(number), ..self.of(copy) }
    }

    /// The page in `slot`, which is not valid yet, has this word. False: its fragment has no line.
    pub(super) fn prove(&mut self, slot: SlotId, word: u32) -> bool {
        let (fragment, offset) = self.place_of(slot);
        let Some(line) = self.line_of(fragment) else { return false };
        self.words_of(line)[offset] = word;
        let is_new = !self.are_all_kept() && !self.lines[line].has(CHANGED);
        if is_new {
            self.lines[line].flags |= CHANGED;
            self.changed += 1;
        }
        true
    }

    /// Begins a population at `first`, the slot of its first page. Returns its first page.
    pub(super) fn begin_population(&mut self, first: FlashCopy) -> ProvableCopy {
        let number = self.number();
        let (fragment, _) = self.place_of(first.slot);
        if !self.are_all_kept() {
            self.drop_line(fragment);
        }
        self.places[fragment].block = number;
        ProvableCopy { word: Some(number), ..self.of(first) }
    }

    /// Memory forgets the words of a fragment.
    fn drop_line(&mut self, fragment: usize) {
        let Some(line) = self.line_of(fragment) else { return };
        debug_assert!(!self.lines[line].has(WRITING), "the writer of a block holds its fragment");
        self.changed -= u32::from(self.lines[line].has(CHANGED));
        self.lines[line] = Line::FREE;
        self.places[fragment].line = NONE;
    }

    /// A population at `first` is complete. Its block is on flash, if there are blocks.
    pub(super) fn populated(&mut self, first: SlotId, words: &[u32]) {
        if self.are_all_kept() {
            let (fragment, _) = self.place_of(first);
            self.words_of(fragment)[..words.len()].copy_from_slice(words);
        }
    }

    /// These are the words of the block with this number, of the fragment of `slot`. Memory keeps them, if
    /// that is still its block.
    pub(super) fn keep(&mut self, slot: SlotId, number: u32, words: impl Iterator<Item = u32>) {
        if self.missing(slot) != Some(number) {
            return;
        }
        let Some(line) = self.free_line() else { return };
        let (fragment, _) = self.place_of(slot);
        self.lines[line] = Line { fragment: fragment as u32, flags: USED };
        self.places[fragment].line = line as u32;
        self.words_of(line).iter_mut().zip(words).for_each(|(kept, word)| *kept = word);
    }

    /// A line without a fragment: by second chance, an unchanged one of those looked at.
    fn free_line(&mut self) -> Option<usize> {
        let mut used = None;
        for _ in 0..LOOKED_AT_MAX.min(2 * self.lines.len()) {
            let at = self.pass(0);
            let line = &mut self.lines[at];
            if line.fragment == NONE {
                return Some(at);
            }
            if line.has(CHANGED | WRITING) {
                continue;
            }
            if !line.has(USED) {
                used = Some(at);
                break;
            }
            line.flags &= !USED;
            used = used.or(Some(at));
        }
        let at = used?;
        self.drop_line(self.lines[at].fragment as usize);
        Some(at)
    }

    /// The line at a hand, which moves on.
    fn pass(&mut self, hand: usize) -> usize {
        let at = self.hands[hand];
        self.hands[hand] = (at + 1) % self.lines.len();
        at
    }

    /// Changed lines that are too many.
    pub(super) fn excess(&self) -> usize {
        (self.changed as usize).saturating_sub(self.lines.len() / 2)
    }

    /// Begins to write the block of a changed line. Its words are in `words` then. `hold`: holds a fragment.
    pub(super) fn begin_cleaning(
        &mut self,
        hold: impl FnOnce(SlotId),
        words: impl FnOnce(&[u32]),
    ) -> Option<Cleaning> {
        for _ in 0..LOOKED_AT_MAX.min(self.lines.len()) {
            let at = self.pass(1);
            if !self.lines[at].has(CHANGED) || self.lines[at].has(WRITING) {
                continue;
            }
            let slot = SlotId(self.lines[at].fragment * self.pages as u32);
            self.lines[at].flags = self.lines[at].flags & !CHANGED | WRITING;
            self.changed -= 1;
            hold(slot);
            words(self.words_of(at));
            return Some(Cleaning { slot, number: self.number(), line: at as u32 });
        }
        None
    }

    /// The block is on flash.
    pub(super) fn cleaned(&mut self, cleaning: Cleaning) {
        let line = &mut self.lines[cleaning.line as usize];
        line.flags &= !WRITING;
        self.places[line.fragment as usize].block = cleaning.number;
    }

    /// Verifies the invariants.
    pub(super) fn check(&self) {
        for (fragment, place) in self.places.iter().enumerate().filter(|(_, place)| place.line != NONE) {
            assert_eq!(self.lines[place.line as usize].fragment as usize, fragment, "the line is its own");
        }
        let count = |is: fn(&Line) -> bool| self.lines.iter().filter(|line| is(line)).count();
        let placed = self.places.iter().filter(|place| place.line != NONE).count();
        assert_eq!(count(|line| line.fragment != NONE), placed, "lines that a fragment has");
        assert_eq!(count(|line| line.has(CHANGED)), self.changed as usize, "changed lines");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: u32 = 4;

    fn copy(fragment: u32, offset: u32) -> FlashCopy {
        FlashCopy { slot: SlotId(fragment * PAGES + offset), population: 1 }
    }

    #[test]
    fn each_write_has_a_number_of_its_own() {
        let mut proofs = Proofs::new(3, PAGES, 3);
        let first = proofs.begin_population(copy(1, 0));
        proofs.populated(first.slot, &[first.word.unwrap(); 4]);
        assert_eq!(proofs.of(copy(1, 2)).word, first.word, "pages of one population have one number");
        let mut numbers = vec![first.word];
        for _ in 0..1000 {
            let next = proofs.begin_write(copy(1, 2));
            assert!(proofs.prove(next.slot, next.word.unwrap()));
            assert_eq!(proofs.of(copy(1, 2)), next);
            numbers.push(next.word);
        }
        assert_eq!(proofs.of(copy(1, 1)).word, first.word, "a write counts for its own page");
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 1001);
        assert_eq!(proofs.excess(), 0, "without blocks there is nothing to write");
        proofs.check();
    }

    /// 1. Two lines are of fragments 0 and 1. 2. Fragment 0's changes. 3. Fragment 2 gets the other line.
    /// 4. The changed line is written, and then given away. 5. Only its new block is believed.
    #[test]
    fn a_changed_line_is_written_before_it_is_given_away() {
        let mut proofs = Proofs::new(4, PAGES, 2);
        let blocks: Vec<u32> = (0..4).map(|at| proofs.begin_population(copy(at, 0)).block).collect();
        let keep = |proofs: &mut Proofs, fragment: u32, number, word| {
            proofs.keep(copy(fragment, 0).slot, number, std::iter::repeat_n(word, 4));
            proofs.check();
            proofs.of(copy(fragment, 3)).word
        };
        assert_eq!(proofs.of(copy(0, 1)).word, None);
        assert!(!proofs.prove(copy(0, 1).slot, 5), "there is no line");
        assert_eq!(keep(&mut proofs, 0, blocks[0] ^ 1, 6), None, "the number of another block");
        assert_eq!(keep(&mut proofs, 0, blocks[0], 7), Some(7));
        assert_eq!(keep(&mut proofs, 0, blocks[0], 8), Some(7), "memory is not older than the block");
        assert_eq!(keep(&mut proofs, 1, blocks[1], 9), Some(9));
        assert!(proofs.prove(copy(0, 1).slot, 10));
        assert_eq!(keep(&mut proofs, 2, blocks[2], 11), Some(11));
        assert_eq!(keep(&mut proofs, 3, blocks[3], 12), Some(12));
        assert_eq!(proofs.of(copy(0, 1)).word, Some(10), "it has changed");
        assert!(proofs.prove(copy(3, 0).slot, 13));
        assert_eq!(proofs.excess(), 1);
        assert_eq!(keep(&mut proofs, 2, blocks[2], 14), None, "both have changed");
        let (mut held, mut words) = (None, Vec::new());
        let cleaning = proofs
            .begin_cleaning(|slot| held = Some(slot), |all| words = all.to_vec())
            .expect("one has changed");
        assert_eq!((held, words), (Some(copy(0, 0).slot), vec![7, 10, 7, 7]));
        assert_eq!(keep(&mut proofs, 2, blocks[2], 14), None, "one has changed, and one is being written");
        assert!(proofs.prove(copy(0, 2).slot, 15), "meanwhile it changes again");
        proofs.cleaned(cleaning);
        assert_eq!(keep(&mut proofs, 2, blocks[2], 14), None);
        let again = proofs.begin_cleaning(|_| {}, |_| {}).expect("two have changed");
        proofs.cleaned(again);
        assert_eq!(keep(&mut proofs, 2, blocks[2], 14), Some(14));
        let [first, other] = [copy(0, 0), copy(3, 0)];
        let gone = if proofs.of(first).word.is_none() { first } else { other };
        let number = proofs.missing(gone.slot).expect("one of the two was given away");
        assert!(number != blocks[0] && number != blocks[3], "its block is the one written last");
    }

    #[test]
    fn what_a_population_overwrites_has_no_line() {
        let mut proofs = Proofs::new(2, PAGES, 1);
        let old = proofs.begin_population(copy(1, 0));
        proofs.keep(old.slot, old.block, std::iter::repeat(3));
        assert!(proofs.prove(copy(1, 3).slot, 4));
        let new = proofs.begin_population(copy(1, 0));
        proofs.keep(old.slot, old.block, std::iter::repeat(3));
        assert_eq!(proofs.of(copy(1, 3)).word, None);
        assert_eq!(proofs.missing(new.slot), Some(new.block));
        assert_eq!(proofs.excess(), 0);
        proofs.check();
    }
}
