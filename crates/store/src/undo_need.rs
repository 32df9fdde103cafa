//! What rolling back may need: bytes of log and pages of the disk.
//!
//! A transaction's need is counted when it changes a row, for the worst that can have become of the row's
//! leaf by the time the change is undone:
//!
//! 1. The compensation record repeats the old row, and may carry an image of the leaf.
//! 2. A row that comes back may split its leaf, and a row that is removed may leave it empty. This changes
//!    the leaf, its siblings or a new page, the parent, and a bitmap page.
//! 3. A second change of the same leaf needs no further images. If others split the leaf in between, it does:
//!    each split since the oldest active transaction began adds [`IMAGES_OF_SPLIT`].
//! 4. A page has at most one image, for no checkpoint moves the redo point unless the whole need fits again
//!    ([`crate::log_room`]). So images beyond the number of the store's pages do not count.
//! 5. Pages that were changed since the last flush of the log are evicted last ([`crate::pool`]). An eviction
//!    therefore flushes the log, and pads a sector, only after [`UNPINNED_FRAMES`] pages have changed: each
//!    changed page pays its share.
//! 6. A transaction ends with one record, and the flush of a commit pads one sector.

use crate::pool::UNPINNED_FRAMES;
use crate::wal::record::RECORD_HEADER_BYTES;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes of a compensation besides what its undo entry has: header, next record to undo, page, length,
/// padding.
const COMPENSATION_BYTES: usize = RECORD_HEADER_BYTES + 8 + 8 + 16;
/// Images when the tree keeps its shape: the leaf.
const IMAGES_IN_PLACE: u64 = 1;
/// Images when a page splits or is freed: the page, its siblings or the new page, the parent, the bitmap
/// page.
const IMAGES_OF_STRUCTURE: u64 = 5;
/// Images for a split of a leaf that changed rows lie on: the new leaf, and the page that it is split into.
pub(crate) const IMAGES_OF_SPLIT: u64 = 2;
/// Log for new pages, per byte of the rows that they are made for: a page is at least half full, and the page
/// that was split is logged with it.
const NEW_PAGES_FACTOR: u64 = 4;
/// Bytes of an image record besides the page.
const IMAGE_OVERHEAD: u64 = 64;
/// Bytes of the record of a commit or an end.
const END_BYTES: u64 = 48;

/// What undoing a change does to its leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reshaping {
    /// Its free space stays the same.
    None,
    /// A row is removed; the leaf may become empty.
    Shrinks,
    /// A row comes back, or gets longer, by so many bytes; the leaf may have to be split.
    Grows(usize),
}

/// The sizes that a need depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Pages of the store.
    pub pages: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Bytes of a sector of the log.
    pub sector: u64,
}

/// Most that a rollback may take.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UndoNeed {
    /// Bytes of compensations, images aside.
    record_bytes: u64,
    /// Bytes of rows that come back.
    grown_bytes: u64,
    /// Images of pages.
    images: u64,
    /// Leaves that rows come back to.
    leaves: u64,
    /// Transactions that end.
    ends: u64,
}

impl UndoNeed {
    /// For one change, whose undo entry has `undo_bytes`; `seen`: a change before it was of the same page.
    pub(crate) fn of_change(undo_bytes: usize, reshaping: Reshaping, seen: bool) -> UndoNeed {
        let images = match (seen, reshaping) {
            (true, _) => 0,
            (false, Reshaping::None) => IMAGES_IN_PLACE,
            (false, _) => IMAGES_OF_STRUCTURE,
        };
        let grown_bytes = if let Reshaping::Grows(bytes) = reshaping { bytes as u64 } else { 0 };
        UndoNeed {
            record_bytes: (COMPENSATION_BYTES + undo_bytes) as u64,
            grown_bytes,
            images,
            leaves: u64::from(!seen && grown_bytes > 0),
            ends: 0,
        }
    }

    /// With the transaction's last record.
    pub(crate) fn with_end(self) -> UndoNeed {
        UndoNeed { ends: 1, ..self }
    }

    /// In bytes of log, if `splits` splits have come in between.
    pub(crate) fn log_bytes(self, splits: u64, sizes: Sizes) -> u64 {
        let images = self.images + if self.images > 0 { splits * IMAGES_OF_SPLIT } else { 0 };
        self.record_bytes
            + NEW_PAGES_FACTOR * self.grown_bytes
            + images.min(sizes.pages) * (sizes.page_bytes + IMAGE_OVERHEAD)
            + images * padding_share(sizes.sector)
            + self.ends * (END_BYTES + sizes.sector)
    }

    /// In pages of the disk, if `splits` splits have come in between.
    pub(crate) fn pages(self, splits: u64, page_bytes: u64) -> u64 {
        match self.leaves {
            0 => 0,
            leaves => leaves + splits + (NEW_PAGES_FACTOR * self.grown_bytes).div_ceil(page_bytes),
        }
    }
}

/// Padding of the log that one changed page may cause.
pub(crate) fn padding_share(sector: u64) -> u64 {
    sector / UNPINNED_FRAMES as u64
}

/// Needs of many changes, of one transaction or of all that are active.
#[derive(Debug, Default)]
pub(crate) struct UndoNeeds {
    record_bytes: AtomicU64,
    grown_bytes: AtomicU64,
    images: AtomicU64,
    leaves: AtomicU64,
    ends: AtomicU64,
}

impl UndoNeeds {
    /// One change more.
    pub(crate) fn add(&self, need: UndoNeed) {
        self.each(need, |sum, part| {
            sum.fetch_add(part, Relaxed);
        });
    }

    /// A transaction that has ended needs nothing any more.
    pub(crate) fn subtract(&self, need: UndoNeed) {
        self.each(need, |sum, part| {
            sum.fetch_sub(part, Relaxed);
        });
    }

    fn each(&self, need: UndoNeed, change: impl Fn(&AtomicU64, u64)) {
        let parts = [
            (&self.record_bytes, need.record_bytes),
            (&self.grown_bytes, need.grown_bytes),
            (&self.images, need.images),
            (&self.leaves, need.leaves),
            (&self.ends, need.ends),
        ];
        parts.into_iter().filter(|(_, part)| *part > 0).for_each(|(sum, part)| change(sum, part));
    }

    pub(crate) fn total(&self) -> UndoNeed {
        UndoNeed {
            record_bytes: self.record_bytes.load(Relaxed),
            grown_bytes: self.grown_bytes.load(Relaxed),
            images: self.images.load(Relaxed),
            leaves: self.leaves.load(Relaxed),
            ends: self.ends.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_need_counts_each_page_once() {
        let all = UndoNeeds::default();
        let sizes = Sizes { pages: 100, page_bytes: 4096, sector: 512 };
        let bytes = |pages| all.total().log_bytes(0, Sizes { pages, ..sizes });
        assert_eq!(bytes(100), 0);
        let change = |reshaping, seen| UndoNeed::of_change(28, reshaping, seen);
        let changes = [
            change(Reshaping::None, false).with_end(),
            change(Reshaping::None, true),
            change(Reshaping::Shrinks, false),
            change(Reshaping::Grows(20), false),
        ];
        let mut seen = Vec::new();
        for need in changes {
            all.add(need);
            seen.push(bytes(100));
        }
        let (image, end, pad) = (4096 + 64, 48 + 512, 512 / 16);
        let expected = [
            end + 100 + image + pad,
            end + 200 + image + pad,
            end + 300 + 6 * (image + pad),
            end + 400 + 4 * 20 + 11 * (image + pad),
        ];
        assert_eq!(seen, expected);
        assert_eq!(bytes(3), end + 400 + 4 * 20 + 3 * image + 11 * pad, "a store of three pages");
        let split = all.total().log_bytes(7, sizes) - bytes(100);
        assert_eq!(split, 14 * (image + pad), "seven splits have come in between");
        assert_eq!(all.total().pages(7, 4096), 1 + 7 + 1);
        changes.into_iter().for_each(|need| all.subtract(need));
        assert_eq!(bytes(100), 0);
    }
}
