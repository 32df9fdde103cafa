//! The order of work on a page, if no user above keeps it: a block device's users read and write as they
//! like. A page that was read from disk does not enter the flash if it was written, or forgotten, since its
//! read began. Else the older version would be served from then on.
//!
//! A counter for each of many groups of pages is raised by each write and each request to forget, under the
//! partition's latch. So two pages may share one; then a population is dropped for nothing. While a page is
//! being written to disk past the flash, no read of it enters.

use super::board::{BoardRef, ORDER_PLACES};
use entresol_core::PageId;
use entresol_shm::atomic::{AtomicU32, Ordering::Relaxed};

const _: () = assert!(ORDER_PLACES == 1 << 12, "the upper bits of a page's hash are its place");

/// The counters, on the board of a cache that keeps the order itself.
#[derive(Clone)]
pub(crate) struct PageOrder(Option<BoardRef>);

/// What a counter was when a read began.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReadTicket(u32);

fn place_of(page: PageId) -> usize {
    (page.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize
}

/// The places of the pages from `first` to `last`; a place may be named more than once. Of a long range, all
/// places there are.
fn places_of((first, last): (PageId, PageId)) -> impl Iterator<Item = usize> {
    let is_long = last.0 - first.0 >= ORDER_PLACES as u64;
    let (first, last) = if is_long { (0, ORDER_PLACES as u64 - 1) } else { (first.0, last.0) };
    (first..=last).map(move |at| if is_long { at as usize } else { place_of(PageId(at)) })
}

impl PageOrder {
    /// With `kept` false the cache's owner keeps the order.
    pub(super) fn new(board: BoardRef, kept: bool) -> Self {
        Self(kept.then_some(board))
    }

    fn counter(&self, page: PageId) -> Option<&AtomicU32> {
        self.0.as_ref().map(|board| &board.order[place_of(page)])
    }

    /// `page` is written or forgotten. To be called under the partition's latch.
    pub(crate) fn changes(&self, page: PageId) {
        if let Some(counter) = self.counter(page) {
            counter.fetch_add(1, Relaxed);
        }
    }

    /// A write of `page` to disk begins, past the flash. To be called under the partition's latch, as is the
    /// next one.
    pub(crate) fn write_begins(&self, page: PageId) {
        if let Some(board) = &self.0 {
            self.changes(page);
            board.writing[place_of(page)].fetch_add(1, Relaxed);
        }
    }

    /// It has ended.
    pub(crate) fn write_ends(&self, page: PageId) {
        if let Some(board) = &self.0 {
            self.changes(page);
            board.writing[place_of(page)].fetch_sub(1, Relaxed);
        }
    }

    /// As [`PageOrder::write_begins`], of the pages from `first` to `last`.
    pub(crate) fn writes_begin(&self, pages: (PageId, PageId)) {
        if let Some(board) = &self.0 {
            places_of(pages).for_each(|place| {
                board.order[place].fetch_add(1, Relaxed);
                board.writing[place].fetch_add(1, Relaxed);
            });
        }
    }

    /// They have ended.
    pub(crate) fn writes_end(&self, pages: (PageId, PageId)) {
        if let Some(board) = &self.0 {
            places_of(pages).for_each(|place| {
                board.order[place].fetch_add(1, Relaxed);
                board.writing[place].fetch_sub(1, Relaxed);
            });
        }
    }

    /// All pages are.
    pub(crate) fn all_change(&self) {
        for counter in self.0.iter().flat_map(|board| &board.order) {
            counter.fetch_add(1, Relaxed);
        }
    }

    /// A read of `page` begins. To be called under the partition's latch, as is the next one.
    pub(crate) fn read_begins(&self, page: PageId) -> ReadTicket {
        ReadTicket(self.counter(page).map_or(0, |counter| counter.load(Relaxed)))
    }

    /// Whether nothing has changed since, and the page is not being written.
    pub(crate) fn is_current(&self, page: PageId, ticket: ReadTicket) -> bool {
        let is_written = self.0.as_ref().is_some_and(|board| board.writing[place_of(page)].load(Relaxed) > 0);
        self.read_begins(page) == ticket && !is_written
    }
}
