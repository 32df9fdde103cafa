//! Gives the pages of a source their dense numbers 0, 1, 2 … in the order of their first appearance.
//!
//! Page numbers of real sources are mostly close together: those are looked up in a table by their number,
//! one for each object, at one access to memory. Numbers far away from all others (hashes of names, a file on
//! a huge volume) are hashed.
//!
//! Invariants: equal pages have equal numbers, different pages different ones; tables have at most
//! [`ENTRIES_A_PAGE`] entries for each page that has a number, in addition to [`ENTRIES_AT_FIRST`].

use entresol_core::PageId;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Most distinct pages, so that every dense number and their count fit in 32 bits.
pub(crate) const PAGES_MAX: usize = u32::MAX as usize - 1;
/// Objects below this number may have a table.
const OBJECTS: usize = 1 << 16;
/// Entries of tables, 4 bytes each, that a page pays for: about what it would take in the hash table.
const ENTRIES_A_PAGE: usize = 8;
/// Entries that are there for the asking.
const ENTRIES_AT_FIRST: usize = 1 << 16;
/// No dense number: the page was not seen, or is in `far`.
const NONE: u32 = u32::MAX;

/// The dense numbers of pages seen so far.
#[derive(Debug, Default)]
pub(crate) struct Numbering {
    /// By object, then by page within it.
    near: Vec<Vec<u32>>,
    /// Entries of all tables.
    entries: usize,
    /// Pages that are beyond their object's table.
    far: HashMap<u64, u32, BuildHasherDefault<PageHasher>>,
    pages: Vec<u64>,
}

impl Numbering {
    /// The dense number of `page`, and whether it is new; `None` if it would be one too many.
    #[inline]
    pub fn number(&mut self, page: PageId) -> Option<(u32, bool)> {
        match self.near(page) {
            Some(known) if known != NONE => Some((known, false)),
            _ => self.number_of_rare(page),
        }
    }

    /// Touches the entries of `pages` in memory. Returns a number that depends on all of them, lest the
    /// compiler removes the access.
    #[inline]
    pub fn warm(&self, pages: impl Iterator<Item = PageId>) -> u32 {
        pages.fold(0, |sum, page| sum ^ self.near(page).unwrap_or(0))
    }

    #[inline]
    fn near(&self, page: PageId) -> Option<u32> {
        self.near.get(page.object() as usize)?.get(page.number() as usize).copied()
    }

    /// The number of a page that is new or far away.
    #[inline(never)]
    fn number_of_rare(&mut self, page: PageId) -> Option<(u32, bool)> {
        if let Some(&known) = self.far.get(&page.0) {
            return Some((known, false));
        }
        if self.pages.len() == PAGES_MAX {
            return None;
        }
        let dense = self.pages.len() as u32;
        self.pages.push(page.0);
        match self.entry(page) {
            Some(entry) => *entry = dense,
            None => {
                self.far.insert(page.0, dense);
            }
        }
        Some((dense, true))
    }

    /// The place of a page in its table, which grows if there are pages enough to pay for that.
    fn entry(&mut self, page: PageId) -> Option<&mut u32> {
        let (object, number) = (page.object() as usize, page.number() as usize);
        if object >= OBJECTS {
            return None;
        }
        if object >= self.near.len() {
            self.near.resize_with(object + 1, Vec::new);
        }
        let length = self.near[object].len();
        if number >= length {
            let longer = (number + 1).next_power_of_two();
            if self.entries - length + longer > ENTRIES_AT_FIRST + ENTRIES_A_PAGE * self.pages.len() {
                return None;
            }
            self.entries += longer - length;
            self.near[object].resize(longer, NONE);
            self.draw_near(object as u32);
        }
        self.near[object].get_mut(number)
    }

    /// Moves the pages of `object` from the hash table that its own table, which has just grown, now has room
    /// for: the first that came are often the most popular. Not if that is more work than the growing was.
    fn draw_near(&mut self, object: u32) {
        let table = &mut self.near[object as usize];
        if self.far.len() > table.len() {
            return;
        }
        self.far.retain(|page, dense| {
            let page = PageId(*page);
            let entry = table.get_mut(page.number() as usize).filter(|_| page.object() == object);
            match entry {
                Some(entry) => {
                    *entry = *dense;
                    false
                }
                None => true,
            }
        });
    }

    /// The pages so far by their dense numbers.
    pub fn pages(&self) -> &[u64] {
        &self.pages
    }

    /// The pages by their dense numbers.
    pub fn into_pages(self) -> Vec<u64> {
        self.pages
    }
}

/// Hashes page numbers: they are no adversary's, and there are many.
#[derive(Debug, Default)]
struct PageHasher(u64);

impl Hasher for PageHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // Fibonacci hashing, folded so that both ends of the word depend on all of the number.
        let product = u128::from(self.0 ^ number) * u128::from(0x9E37_79B9_7F4A_7C15_u64);
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use entresol_runtime::rng::Rng;

    /// Numbers `pages` as a plain map does, and returns how many are in tables and how many are hashed.
    fn near_and_far(pages: impl Iterator<Item = PageId>) -> (usize, usize) {
        let (mut numbering, mut model) = (Numbering::default(), HashMap::new());
        for page in pages {
            let next = model.len() as u32;
            let expected = *model.entry(page).or_insert(next);
            assert_eq!(numbering.number(page), Some((expected, expected == next)), "{page}");
        }
        let (seen, far) = (numbering.pages.len(), numbering.far.len());
        assert!(numbering.entries <= ENTRIES_AT_FIRST + ENTRIES_A_PAGE * seen, "{}", numbering.entries);
        assert_eq!(numbering.entries, numbering.near.iter().map(Vec::len).sum::<usize>());
        let pages = numbering.into_pages();
        assert!(pages.iter().enumerate().all(|(dense, page)| model[&PageId(*page)] == dense as u32));
        assert_eq!(pages.len(), model.len());
        (seen - far, far)
    }

    #[test]
    fn pages_that_lie_together_are_in_tables() {
        let mut rng = Rng::new(1);
        let mut random =
            |objects: u64, numbers: u64| PageId::new(rng.below(objects) as u32, rng.below(numbers) as u32);
        let (_, far) = near_and_far((0..200_000).map(|_| random(1, 50_000)));
        assert_eq!(far, 0);
        let (near, far) = near_and_far((0..200_000).map(|_| random(40, 3000)));
        // Only at first, when there are few pages to pay for the tables of forty objects.
        assert!(far < near / 20, "{far} of {near}");
        // Far more at first than there are pages to pay for a table, and all the same in the end.
        let (near, far) = near_and_far((0..2_000_000).map(|at| random(1, 1 << (10 + at / 150_000))));
        assert!(near > 0 && far > 0, "{near} {far}");
    }

    #[test]
    fn pages_that_lie_far_apart_are_hashed() {
        let mut rng = Rng::new(2);
        let (near, far) = near_and_far((0..100_000).map(|_| PageId(rng.next_u64() >> (rng.below(3) * 20))));
        assert!(far > 90_000, "{near} {far}");
        let strides = (0..100_000_u32).map(|at| PageId::new(at % 7, (at % 30_000) << 12 | 5));
        let (near, far) = near_and_far(strides);
        assert!(far > near, "{near} {far}");
        let ends = [0, u64::MAX, u64::from(u32::MAX), 1 << 32, (1 << 48) - 1, 0, u64::MAX];
        near_and_far(ends.into_iter().map(PageId));
    }
}
