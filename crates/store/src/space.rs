//! The free pages: allocation from the bitmap pages.
//!
//! Invariant: pages are allocated and freed only by structure modifications, which hold the core's
//! modification lock, and in the same log record that links or unlinks them. The hints here may be wrong: the
//! bitmap decides.

use crate::core::Core;
use crate::page::meta::{GROUPS_OFFSET, META_PAGE};
use crate::page::op::PageOp;
use crate::page::{PageKind, bitmap, kind};
use crate::pool::Pin;
use crate::wal::RecordKind;
use crate::wal::Room;
use crate::{PageNumber, StoreError, TxnId};
use entresol_runtime::sync::{Rank, TinyMutex};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

/// See the module's header.
pub(crate) struct Space {
    /// Groups that may have free pages, each with a bit below which no page is free.
    hints: TinyMutex<BTreeMap<u32, u32>>,
    groups: AtomicU32,
    /// One more than the highest page ever allocated, as far as known.
    end: AtomicU32,
    /// Pages allocated since the store was opened.
    allocations: AtomicU64,
    /// Pages that fit on the disk.
    capacity: u64,
    /// Number of pages that can still be allocated; a lower bound while `is_counted` is false. Changes under
    /// the modification lock.
    free: AtomicU64,
    is_counted: AtomicBool,
}

/// A free page chosen for allocation: its bit must be set in the record that links it. No other task can
/// choose it while the modification lock is held.
pub(crate) struct Allocation<'a> {
    pub page: PageNumber,
    /// The bitmap page, to be latched last.
    pub bitmap: Pin<'a>,
    /// The bit.
    pub bit: u32,
}

impl Allocation<'_> {
    /// The change of the bitmap page.
    pub(crate) fn op(&self) -> PageOp<'static> {
        PageOp::Bits { first: self.bit, count: 1, allocated: true }
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
            capacity,
            free: AtomicU64::new(free),
            is_counted: AtomicBool::new(false),
            hints: TinyMutex::new(Rank::SpaceHints, (0..groups).map(|group| (group, 0)).collect()),
            groups: AtomicU32::new(groups),
            end: AtomicU32::new(end),
            allocations: AtomicU64::new(0),
        }
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
        self.take_free(taken);
    }

    /// Number of pages that can be allocated; a lower bound until they have been counted.
    pub(crate) fn free(&self) -> u64 {
        self.free.load(Relaxed)
    }

    /// Pages that fit on the disk.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    pub(crate) fn is_counted(&self) -> bool {
        self.is_counted.load(Relaxed)
    }

    /// Sets the number of free pages after a count.
    pub(crate) fn counted(&self, free: u64) {
        self.free.store(free, Relaxed);
        self.is_counted.store(true, Relaxed);
    }

    fn take_free(&self, pages: u64) {
        self.free.store(self.free().saturating_sub(pages), Relaxed);
    }

    fn hint(&self) -> Option<(u32, u32)> {
        self.hints.lock().first_key_value().map(|(group, bit)| (*group, *bit))
    }
}

impl Core {
    /// Chooses a free page and pins its bitmap page. The caller holds the modification lock and no latches.
    pub(crate) fn allocate(
        &self,
        record: &mut Vec<u8>,
        room: &Room<'_>,
    ) -> Result<Allocation<'_>, StoreError> {
        let page_bytes = self.page_bytes();
        loop {
            let Some((group, from)) = self.space.hint() else {
                self.add_group(record, room)?;
                continue;
            };
            let number = bitmap::bitmap_of_group(group, page_bytes);
            let bitmap = self.pool.fix_shared(number)?;
            check_bitmap(&bitmap, number)?;
            match bitmap::first_free(&bitmap, from) {
                Some(bit) => {
                    let page = PageNumber(group * bitmap::group_pages(page_bytes) + bit);
                    self.check_on_disk(page.0.into())?;
                    return Ok(Allocation { page, bitmap: bitmap.unlatch(), bit });
                }
                None => {
                    self.space.hints.lock().remove(&group);
                }
            }
        }
    }

    /// Pins the bitmap page of `page`, for a later free of `page`.
    pub(crate) fn bitmap_for(&self, page: PageNumber) -> Result<Pin<'_>, StoreError> {
        let (group, _) = bitmap::place(page, self.page_bytes());
        let number = bitmap::bitmap_of_group(group, self.page_bytes());
        let bitmap = self.pool.fix_shared(number)?;
        check_bitmap(&bitmap, number)?;
        Ok(bitmap.unlatch())
    }

    /// Called after the record that allocated a page is logged.
    pub(crate) fn allocated(&self, page: PageNumber) {
        let (group, bit) = bitmap::place(page, self.page_bytes());
        self.space.hints.lock().insert(group, bit + 1);
        self.space.end.fetch_max(page.0 + 1, Relaxed);
        self.space.take_free(1);
        self.space.allocations.fetch_add(1, Relaxed);
    }

    /// Called after the record that freed `page` is logged.
    pub(crate) fn freed(&self, page: PageNumber) {
        let (group, bit) = bitmap::place(page, self.page_bytes());
        self.space.free.fetch_add(1, Relaxed);
        let mut hints = self.space.hints.lock();
        let hint = hints.entry(group).or_insert(bit);
        *hint = (*hint).min(bit);
    }

    fn add_group(&self, record: &mut Vec<u8>, room: &Room<'_>) -> Result<(), StoreError> {
        let group = self.space.groups();
        self.check_on_disk(u64::from(group) * u64::from(bitmap::group_pages(self.page_bytes())) + 1)?;
        let number = bitmap::bitmap_of_group(group, self.page_bytes());
        let meta = self.pool.fix_exclusive(META_PAGE)?;
        let mut page = self.pool.fix_new(number)?;
        bitmap::format(page.change(), group);
        let mut mtr = self.system_mtr(room, record);
        mtr.change(meta, &[PageOp::Word { at: GROUPS_OFFSET as u16, value: group + 1 }]);
        mtr.replaced(page);
        mtr.commit(RecordKind::System, TxnId::SYSTEM, None);
        // The first page of the group stays free: it is allocated next.
        self.space.grown(group + 1, number.0 + 1, 0);
        Ok(())
    }
}

/// Refuses a page that is not a bitmap page.
pub(crate) fn check_bitmap(page: &[u8], number: PageNumber) -> Result<(), StoreError> {
    if kind(page) != PageKind::Bitmap as u16 {
        return Err(StoreError::WrongKind { page: number, expected: "a bitmap page", found: kind(page) });
    }
    Ok(())
}
