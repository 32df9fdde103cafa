//! Room in the log: what clients may fill, and what is kept for rolling them back.
//!
//! The log's oldest part is given back by checkpoints, but nothing that an active transaction may still need for its undo.
//! So there must always be room to roll back whatever is active, now or in a restart, or the store could never be opened
//! again. Of the area
//!
//! - clients' changes may fill a half;
//! - three eighths are kept for rolling back ([`UndoNeed`]);
//! - an eighth is for operations under way when these bounds are reached, ends of transactions, and checkpoints' records.
//!
//! Invariant: once the log since the oldest active transaction fills a half, no checkpoint begins: it would give nothing
//! back, its record would take room, and it would make pages need new images. So from there on, in this life and in
//! restarts after it, a page gets an image at most once before everything is rolled back.

use crate::StoreError;
use crate::core::Core;
use crate::wal::record::RECORD_HEADER_BYTES;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes of a compensation beside its header and what its undo entry has: what to undo next, page, length, padding.
const COMPENSATION_BYTES: usize = RECORD_HEADER_BYTES + 8 + 8 + 16;
/// Images that undoing the change of a row may log if the tree keeps its shape: the leaf's.
const IMAGES_IN_PLACE: u64 = 1;
/// If a page splits or goes: its, that of its neighbour or of the new page, their parent's, and that of the page beyond.
const IMAGES_OF_STRUCTURE: u64 = 4;
/// Log for new pages in proportion to the rows that they were made for: a page is half full at least, and the one that it
/// was split from is logged with it.
const NEW_PAGES_FACTOR: u64 = 4;

/// What undoing a change does to its leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reshaping {
    /// Its free space stays the same.
    None,
    /// A row goes; the leaf may become empty.
    Shrinks,
    /// A row comes back, or gets longer, by so many bytes; the leaf may have to be split.
    Grows(usize),
}

/// Most that a rollback may append to the log.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UndoNeed {
    /// Bytes of compensations, images aside.
    record_bytes: u64,
    /// Bytes of rows that come back.
    grown_bytes: u64,
    /// Images of pages.
    images: u64,
}

impl UndoNeed {
    /// For one change, whose undo entry has `undo_bytes`; `seen`: a change before it was of the same page.
    pub(crate) fn of_change(undo_bytes: usize, reshaping: Reshaping, seen: bool) -> UndoNeed {
        let images = match (seen, reshaping) {
            (true, _) => 0,
            (false, Reshaping::None) => IMAGES_IN_PLACE,
            (false, _) => IMAGES_OF_STRUCTURE,
        };
        let grown_bytes = if let Reshaping::Grows(bytes) = reshaping { bytes } else { 0 };
        UndoNeed {
            record_bytes: (COMPENSATION_BYTES + undo_bytes) as u64,
            grown_bytes: grown_bytes as u64,
            images,
        }
    }

    /// In bytes of log, for a store of `pages`: none of them has an image more than once.
    fn log_bytes(self, pages: u32, page_bytes: u64) -> u64 {
        let images = self.images.min(pages.into()) * page_bytes;
        self.record_bytes + NEW_PAGES_FACTOR * self.grown_bytes + images
    }
}

/// Needs of many changes, of one transaction or of all that are active.
#[derive(Debug, Default)]
pub(crate) struct UndoNeeds {
    record_bytes: AtomicU64,
    grown_bytes: AtomicU64,
    images: AtomicU64,
}

impl UndoNeeds {
    /// One change more.
    pub(crate) fn add(&self, need: UndoNeed) {
        self.record_bytes.fetch_add(need.record_bytes, Relaxed);
        self.grown_bytes.fetch_add(need.grown_bytes, Relaxed);
        self.images.fetch_add(need.images, Relaxed);
    }

    /// A transaction that has ended needs nothing any more.
    pub(crate) fn subtract(&self, need: UndoNeed) {
        self.record_bytes.fetch_sub(need.record_bytes, Relaxed);
        self.grown_bytes.fetch_sub(need.grown_bytes, Relaxed);
        self.images.fetch_sub(need.images, Relaxed);
    }

    pub(crate) fn total(&self) -> UndoNeed {
        UndoNeed {
            record_bytes: self.record_bytes.load(Relaxed),
            grown_bytes: self.grown_bytes.load(Relaxed),
            images: self.images.load(Relaxed),
        }
    }
}

impl Core {
    /// Called before a change, with no latch held: keeps the log from running full. From a third on a checkpoint is made
    /// in the background, if it gives back half of what is used; from half on the caller waits for one.
    pub(crate) fn make_log_room(self: &Arc<Self>) -> Result<(), StoreError> {
        let area = self.wal.area();
        if self.undo_need() > area / 8 * 3 {
            return Err(self.log_full());
        }
        let used = self.wal.used();
        if used < area / 3 {
            return Ok(());
        }
        if used >= area / 2 {
            self.make_checkpoint()?;
            return if self.wal.used() >= area / 2 { Err(self.log_full()) } else { Ok(()) };
        }
        if self.log_held() < used / 2 && !self.checkpoint_wanted.swap(true, Relaxed) {
            let core = self.clone();
            entresol_runtime::spawn("checkpoint for log space", move || {
                // An error is sticky in the log or the layer: the next client sees it.
                let _ = core.make_checkpoint_unless_closed();
                core.checkpoint_wanted.store(false, Relaxed);
            });
        }
        Ok(())
    }

    /// An error if the active transactions hold so much of the log that no checkpoint may be made.
    pub(crate) fn check_log_held(&self) -> Result<(), StoreError> {
        match self.log_held() >= self.wal.area() / 2 {
            true => Err(self.log_full()),
            false => Ok(()),
        }
    }

    /// Bytes of the log that no checkpoint gives back, for an active transaction may need them.
    fn log_held(&self) -> u64 {
        self.active.first().map_or(0, |first| self.wal.end().0.saturating_sub(first.0))
    }

    /// Bytes that rolling back what is active may append.
    fn undo_need(&self) -> u64 {
        self.active.undo_needs().log_bytes(self.space.end(), u64::from(self.options.page_bytes))
    }

    fn log_full(&self) -> StoreError {
        self.wal.full(self.wal.used(), self.undo_need())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_need_counts_each_page_once() {
        let all = UndoNeeds::default();
        let bytes = |pages| all.total().log_bytes(pages, 4096);
        assert_eq!(bytes(100), 0);
        let change = |reshaping, seen| UndoNeed::of_change(28, reshaping, seen);
        let changes = [
            change(Reshaping::None, false),
            change(Reshaping::None, true),
            change(Reshaping::Shrinks, false),
            change(Reshaping::Grows(20), false),
        ];
        let mut seen = Vec::new();
        for need in changes {
            all.add(need);
            seen.push(bytes(100));
        }
        assert_eq!(seen, [100 + 4096, 200 + 4096, 300 + 5 * 4096, 400 + 4 * 20 + 9 * 4096]);
        assert_eq!(bytes(3), 400 + 4 * 20 + 3 * 4096, "a store of three pages");
        changes.into_iter().for_each(|need| all.subtract(need));
        assert_eq!(bytes(100), 0);
    }
}
