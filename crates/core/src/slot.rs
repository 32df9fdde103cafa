//! One slot of the directory: 12 bytes. With one 4-byte index bucket for each slot, that makes the 16 bytes
//! of docs/DESIGN.md §3.
//!
//! The table has an entry for each flash slot, `0 .. slots`, and then one for each staging frame, so that the
//! index finds staged pages and pages on flash alike.

use crate::PageId;
use crate::words::{AtomicU32, load, store};
use std::ops::Range;

/// End of a chain or list. Links are 28 bits wide.
pub(crate) const NIL: u32 = 0x0fff_ffff;
/// Largest index that a link can hold.
pub(crate) const LINK_MAX: u32 = NIL - 1;
const LINK_MASK: u32 = NIL;

/// The newest durable version of its page.
pub(crate) const VALID: u32 = 1 << 28;
/// Newer than the disk copy.
pub(crate) const DIRTY: u32 = 1 << 29;
/// Slot placement: a write, destage or cleaning of the slot is under way.
pub(crate) const BUSY: u32 = 1 << 31;
/// Log placement: the slot holds a page, valid or superseded.
pub(crate) const HELD: u32 = 1 << 31;

/// Words of an entry.
pub(crate) const SLOT_WORDS: usize = 3;

/// Where a page id has its halves, and where the link is: bits 0–27 of it are the next entry in the index
/// chain (or in the list of free slots), bits 28–31 are flags; bit 30 is not used.
const LOW: usize = 0;
const HIGH: usize = 1;
const LINK: usize = 2;

/// Directory entry in its place: a page id, flags and the link of its index chain.
#[derive(Clone, Copy)]
pub(crate) struct Slot<'r>(&'r [AtomicU32; SLOT_WORDS]);

/// What an entry was at a moment.
#[derive(Clone, Copy)]
pub(crate) struct Content {
    page: PageId,
    link: u32,
}

impl Content {
    pub(crate) fn page(&self) -> PageId {
        self.page
    }
    pub(crate) fn next(&self) -> u32 {
        self.link & LINK_MASK
    }
    pub(crate) fn has(&self, flag: u32) -> bool {
        self.link & flag != 0
    }
    /// The bits of `flags` that are set.
    pub(crate) fn flags(&self, flags: u32) -> u32 {
        self.link & flags
    }
}

/// Entries that follow each other.
#[derive(Clone, Copy)]
pub(crate) struct Entries<'r>(&'r [[AtomicU32; SLOT_WORDS]]);

impl<'r> Entries<'r> {
    /// The entries that these words are.
    #[inline(always)]
    pub(crate) fn of(words: &'r [AtomicU32]) -> Self {
        Self(words.as_chunks().0)
    }
    #[inline(always)]
    pub(crate) fn at(self, at: u32) -> Slot<'r> {
        Slot(&self.0[at as usize])
    }
    /// The entry, if there is one.
    #[inline(always)]
    pub(crate) fn get(self, at: usize) -> Option<Slot<'r>> {
        self.0.get(at).map(Slot)
    }
    pub(crate) fn len(self) -> usize {
        self.0.len()
    }
    pub(crate) fn iter(self) -> impl ExactSizeIterator<Item = Slot<'r>> + use<'r> {
        self.0.iter().map(Slot)
    }
    /// Those of the range.
    pub(crate) fn range(self, range: Range<usize>) -> Self {
        Self(&self.0[range])
    }
}

impl<'r> Slot<'r> {
    /// The entry that these words are.
    #[inline(always)]
    pub(crate) fn of(words: &'r [AtomicU32]) -> Self {
        Self(words.first_chunk().expect("an entry has all of its words"))
    }
    /// All of it, as it is now.
    #[inline(always)]
    pub(crate) fn content(self) -> Content {
        Content { page: self.page(), link: load(&self.0[LINK]) }
    }
    #[inline(always)]
    pub(crate) fn page(self) -> PageId {
        PageId(u64::from(load(&self.0[HIGH])) << 32 | u64::from(load(&self.0[LOW])))
    }
    /// Whether it is that of `page`.
    #[inline(always)]
    pub(crate) fn is_of(self, page: PageId) -> bool {
        load(&self.0[LOW]) == page.0 as u32 && load(&self.0[HIGH]) == (page.0 >> 32) as u32
    }
    #[inline(always)]
    pub(crate) fn set(self, page: PageId, flags: u32) {
        self.set_linked(page, flags, NIL);
    }
    /// As [`Slot::set`], before the entry `next`.
    #[inline(always)]
    pub(crate) fn set_linked(self, page: PageId, flags: u32, next: u32) {
        store(&self.0[LOW], page.0 as u32);
        store(&self.0[HIGH], (page.0 >> 32) as u32);
        store(&self.0[LINK], next | flags);
    }
    pub(crate) fn clear(self) {
        self.set(PageId(0), 0);
    }
    #[inline(always)]
    pub(crate) fn next(self) -> u32 {
        load(&self.0[LINK]) & LINK_MASK
    }
    #[inline(always)]
    pub(crate) fn set_next(self, next: u32) {
        store(&self.0[LINK], load(&self.0[LINK]) & !LINK_MASK | next);
    }
    #[inline(always)]
    pub(crate) fn has(self, flag: u32) -> bool {
        load(&self.0[LINK]) & flag != 0
    }
    #[inline(always)]
    pub(crate) fn raise(self, flags: u32) {
        store(&self.0[LINK], load(&self.0[LINK]) | flags);
    }
    #[inline(always)]
    pub(crate) fn lower(self, flags: u32) {
        store(&self.0[LINK], load(&self.0[LINK]) & !flags);
    }
}
