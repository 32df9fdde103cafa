//! The pages of the store as far as they are known in memory: its end, its free pages, and the right to
//! change these.
//!
//! Invariant: pages are allocated and freed only by structure modifications, which hold the modification
//! lock, and in the same log record that links or unlinks them. The hints here may be wrong: the bitmap
//! decides.

use crate::PageNumber;
use crate::page::bitmap;
use entresol_runtime::sync::{Mutex, MutexGuard, Rank, TinyMutex};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

/// See the module's header.
pub(crate) struct Space {
    page_bytes: usize,
    /// Structure modifications and allocations are made one at a time.
    modification: Mutex<()>,
    /// Groups that may have free pages, each with a bit below which no page is free.
    hints: TinyMutex<BTreeMap<u32, u32>>,
    groups: AtomicU32,
    /// One more than the highest page ever allocated, as far as known.
    end: AtomicU32,
    /// Pages allocated since the store was opened.
    allocations: AtomicU64,
    /// Pages that fit on the disk.
    capacity: u64,
    free: FreePages,
}

/// Number of pages that can still be allocated; a lower bound until they have been counted. Changes under the
/// modification lock.
pub(crate) struct FreePages {
    number: AtomicU64,
    is_counted: AtomicBool,
}

impl FreePages {
    pub(crate) fn number(&self) -> u64 {
        self.number.load(Relaxed)
    }

    pub(crate) fn is_counted(&self) -> bool {
        self.is_counted.load(Relaxed)
    }

    /// Sets the number after a count.
    pub(crate) fn counted(&self, number: u64) {
        self.number.store(number, Relaxed);
        self.is_counted.store(true, Relaxed);
    }

    fn take(&self, pages: u64) {
        self.number.store(self.number().saturating_sub(pages), Relaxed);
    }

    fn add_one(&self) {
        self.number.fetch_add(1, Relaxed);
    }
}

/// Page numbers stay below this.
const PAGES_MAX: u64 = u32::MAX as u64 - 1;

/// Number of bitmap pages for the groups after the first `groups`.
pub(crate) fn bitmaps_to_come(groups: u32, capacity: u64, page_bytes: usize) -> u64 {
    let group_pages = u64::from(bitmap::group_pages(page_bytes));
    capacity.saturating_sub(u64::from(groups) * group_pages).div_ceil(group_pages)
}

impl Space {
    /// `groups` are in use; `end` is one more than the highest allocated page; the disk has room for
    /// `capacity` pages.
    pub(crate) fn new(groups: u32, end: u32, capacity: u64, page_bytes: usize) -> Space {
        let capacity = capacity.min(PAGES_MAX);
        let behind = capacity.saturating_sub(end.into());
        let free = behind.saturating_sub(bitmaps_to_come(groups, capacity, page_bytes));
        Space {
            page_bytes,
            modification: Mutex::new(Rank::Modification, ()),
            capacity,
            free: FreePages { number: AtomicU64::new(free), is_counted: AtomicBool::new(false) },
            hints: TinyMutex::new(Rank::SpaceHints, (0..groups).map(|group| (group, 0)).collect()),
            groups: AtomicU32::new(groups),
            end: AtomicU32::new(end),
            allocations: AtomicU64::new(0),
        }
    }

    /// The modification lock: structure modifications and allocations are made one at a time.
    pub(crate) fn modify(&self) -> MutexGuard<'_, ()> {
        self.modification.lock()
    }

    /// Bytes of a page.
    pub(crate) fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    pub(crate) fn groups(&self) -> u32 {
        self.groups.load(Relaxed)
    }

    /// One more than the highest page ever allocated.
    pub(crate) fn end(&self) -> u32 {
        self.end.load(Relaxed)
    }

    /// Pages allocated individually since the store was opened: by splits, growth of roots, new tables.
    pub(crate) fn allocations(&self) -> u64 {
        self.allocations.load(Relaxed)
    }

    /// Called after a bulk load, or a new group, has taken the pages up to `end`; `taken` of these are not
    /// bitmaps.
    pub(crate) fn grown(&self, groups: u32, end: u32, taken: u64) {
        let before = self.groups.swap(groups, Relaxed);
        self.hints.lock().extend((before..groups).map(|group| (group, 0)));
        self.end.fetch_max(end, Relaxed);
        self.free.take(taken);
    }

    /// The number of free pages.
    pub(crate) fn free(&self) -> &FreePages {
        &self.free
    }

    /// Pages that fit on the disk.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// A group that may have free pages, and a bit below which none is free.
    pub(crate) fn hint(&self) -> Option<(u32, u32)> {
        self.hints.lock().first_key_value().map(|(group, bit)| (*group, *bit))
    }

    /// Called when a search has found no free page in the group.
    pub(crate) fn forget_hint(&self, group: u32) {
        self.hints.lock().remove(&group);
    }

    /// Called after the record that allocated a page is logged.
    pub(crate) fn allocated(&self, page: PageNumber) {
        let (group, bit) = bitmap::place(page, self.page_bytes);
        self.hints.lock().insert(group, bit + 1);
        self.end.fetch_max(page.0 + 1, Relaxed);
        self.free.take(1);
        self.allocations.fetch_add(1, Relaxed);
    }

    /// Called after the record that freed `page` is logged.
    pub(crate) fn freed(&self, page: PageNumber) {
        let (group, bit) = bitmap::place(page, self.page_bytes);
        self.free.add_one();
        let mut hints = self.hints.lock();
        let hint = hints.entry(group).or_insert(bit);
        *hint = (*hint).min(bit);
    }
}
