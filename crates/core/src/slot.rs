//! One slot of the directory: 12 bytes. With one 4-byte index bucket for each slot, that makes the 16 bytes
//! of docs/DESIGN.md §3.
//!
//! The table has an entry for each flash slot, `0 .. slots`, and then one for each staging frame, so that the
//! index finds staged pages and pages on flash alike.

use crate::PageId;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// End of a chain or list. Links are 28 bits wide.
pub(crate) const NIL: u32 = 0x0fff_ffff;
/// Largest index that a link can hold.
pub(crate) const LINK_MAX: u32 = NIL - 1;
const LINK_MASK: u32 = NIL;

/// The newest durable version of its page.
pub(crate) const VALID: u32 = 1 << 28;
/// Newer than the disk copy.
pub(crate) const DIRTY: u32 = 1 << 29;
/// Fetched since it entered.
pub(crate) const REFERENCED: u32 = 1 << 30;
/// Slot placement: a write, destage or cleaning of the slot is under way.
pub(crate) const BUSY: u32 = 1 << 31;
/// Log placement: the slot holds a page, valid or superseded.
pub(crate) const HELD: u32 = 1 << 31;

/// Directory entry: a page id, four flags and the link of its index chain.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Slot {
    page_low: u32,
    page_high: u32,
    /// Bits 0–27: next entry in the index chain (or in the list of free slots); bits 28–31: flags.
    link: u32,
}

const _: () = assert!(size_of::<Slot>() == 12);

impl Slot {
    pub(crate) fn page(&self) -> PageId {
        PageId((self.page_high as u64) << 32 | self.page_low as u64)
    }
    pub(crate) fn set(&mut self, page: PageId, flags: u32) {
        self.page_low = page.0 as u32;
        self.page_high = (page.0 >> 32) as u32;
        self.link = NIL | flags;
    }
    pub(crate) fn clear(&mut self) {
        *self = Slot { page_low: 0, page_high: 0, link: NIL };
    }
    pub(crate) fn next(&self) -> u32 {
        self.link & LINK_MASK
    }
    pub(crate) fn set_next(&mut self, next: u32) {
        self.link = self.link & !LINK_MASK | next;
    }
    pub(crate) fn has(&self, flag: u32) -> bool {
        self.link & flag != 0
    }
    /// The bits of `flags` that are set.
    pub(crate) fn flags(&self, flags: u32) -> u32 {
        self.link & flags
    }
    pub(crate) fn raise(&mut self, flags: u32) {
        self.link |= flags;
    }
    pub(crate) fn lower(&mut self, flags: u32) {
        self.link &= !flags;
    }
}
