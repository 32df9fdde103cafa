//! The undo need: the maximum number of log bytes and disk pages that rollbacks may take.
//!
//! A transaction's need is counted when it changes a row. It assumes the worst case for the row's leaf at the
//! time when the change is undone:
//!
//! 1. The compensation record repeats the old row, and may contain an image of the leaf.
//! 2. A restored row may split its leaf, and a removed row may leave it empty. This changes the leaf, its
//!    siblings or a new page, the parent, and a bitmap page.
//! 3. A second change of the same leaf needs no further images, unless other transactions split the leaf
//!    between the two. So each split since the oldest active transaction began adds [`IMAGES_OF_SPLIT`].
//! 4. A page has at most one image, because no checkpoint moves the redo point unless the whole need fits
//!    again ([`crate::log_room`]). So images beyond the number of the store's pages do not count.
//! 5. Pages that were changed since the last flush of the log are evicted last ([`crate::pool`]). So an
//!    eviction flushes the log, and pads a sector, only after [`UNPINNED_FRAMES`] pages have changed. Each
//!    changed page counts its share of that padding.
//! 6. A transaction ends with one record, and the flush of a commit pads one sector.

use crate::pool::UNPINNED_FRAMES;
use crate::wal::record::RECORD_HEADER_BYTES;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes of a compensation in addition to its undo entry: header, next record to undo, page, length, padding.
const COMPENSATION_BYTES: usize = RECORD_HEADER_BYTES + 8 + 8 + 16;
/// Images if the structure of the tree does not change: the leaf.
const IMAGES_IN_PLACE: u64 = 1;
/// Images when a page splits or is freed: the page, its siblings or the new page, the parent, the bitmap
/// page.
const IMAGES_OF_STRUCTURE: u64 = 5;
/// Images for a split of a leaf with changed rows: the new leaf, and the page that is split.
pub(crate) const IMAGES_OF_SPLIT: u64 = 2;
/// Log bytes for new pages, per byte of the rows for which they are allocated. A page is at least half full,
/// and the page that was split is logged with it.
const NEW_PAGES_FACTOR: u64 = 4;
/// Bytes of an image record in addition to the page.
const IMAGE_OVERHEAD: u64 = 64;
/// Bytes of the record of a commit or an end.
const END_BYTES: u64 = 48;

/// The effect of an undo on its leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reshaping {
    /// The free space stays the same.
    None,
    /// A row is removed; the leaf may become empty.
    Shrinks,
    /// A row is restored, or gets longer, by this many bytes; the leaf may have to be split.
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

/// The maximum need of a rollback.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UndoNeed {
    /// Bytes of compensations, without images.
    record_bytes: u64,
    /// Bytes of restored rows.
    grown_bytes: u64,
    /// Images of pages.
    images: u64,
    /// Leaves into which rows are restored.
    leaves: u64,
    /// Number of transactions that end.
    ends: u64,
}

impl UndoNeed {
    /// The need of one change, whose undo entry has `undo_bytes`. `seen`: an earlier change was on the same
    /// page.
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

    /// Adds the transaction's last record.
    pub(crate) fn with_end(self) -> UndoNeed {
        UndoNeed { ends: 1, ..self }
    }

    /// The need in bytes of log, if there have been `splits` splits since.
    pub(crate) fn log_bytes(self, splits: u64, sizes: Sizes) -> u64 {
        let images = self.images + if self.images > 0 { splits * IMAGES_OF_SPLIT } else { 0 };
        self.record_bytes
            + NEW_PAGES_FACTOR * self.grown_bytes
            + images.min(sizes.pages) * (sizes.page_bytes + IMAGE_OVERHEAD)
            + images * padding_share(sizes.sector)
            + self.ends * (END_BYTES + sizes.sector)
    }

    /// The need in pages of the disk, if there have been `splits` splits since.
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

/// The sum of the needs of many changes, of one transaction or of all active ones.
#[derive(Debug, Default)]
pub(crate) struct UndoNeeds {
    record_bytes: AtomicU64,
    grown_bytes: AtomicU64,
    images: AtomicU64,
    leaves: AtomicU64,
    ends: AtomicU64,
}

impl UndoNeeds {
    /// Adds one change.
    pub(crate) fn add(&self, need: UndoNeed) {
        self.each(need, |sum, part| {
            sum.fetch_add(part, Relaxed);
        });
    }

    /// Subtracts the need of a transaction that has ended.
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
