//! Allocation of pages from the bitmap pages.
//!
//! The callers hold the modification lock ([`crate::space`]).

use crate::disk_room::DiskRoom;
use crate::mtr::Mtrs;
use crate::page::bitmap;
use crate::page::meta::{GROUPS_OFFSET, META_PAGE};
use crate::page::op::PageOp;
use crate::pool::{Pin, Pool};
use crate::space::Space;
use crate::wal::{RecordKind, Room};
use crate::{PageNumber, StoreError, TxnId};
use std::sync::Arc;

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

/// Chooses free pages, and adds groups of pages.
pub(crate) struct Allocator {
    pool: Arc<Pool>,
    mtrs: Mtrs,
    space: Arc<Space>,
    disk_room: Arc<DiskRoom>,
}

impl Allocator {
    pub(crate) fn new(pool: Arc<Pool>, mtrs: Mtrs, space: Arc<Space>, disk_room: Arc<DiskRoom>) -> Allocator {
        Allocator { pool, mtrs, space, disk_room }
    }

    /// Chooses a free page and pins its bitmap page. The caller holds the modification lock and no latches.
    pub(crate) fn allocate(
        &self,
        record: &mut Vec<u8>,
        room: &Room<'_>,
    ) -> Result<Allocation<'_>, StoreError> {
        let page_bytes = self.space.page_bytes();
        loop {
            let Some((group, from)) = self.space.hint() else {
                self.add_group(record, room)?;
                continue;
            };
            let number = bitmap::bitmap_of_group(group, page_bytes);
            let bitmap = self.pool.fix_shared(number)?;
            bitmap::check(&bitmap, number)?;
            match bitmap::first_free(&bitmap, from) {
                Some(bit) => {
                    let page = PageNumber(group * bitmap::group_pages(page_bytes) + bit);
                    self.disk_room.check_on_disk(page.0.into())?;
                    return Ok(Allocation { page, bitmap: bitmap.unlatch(), bit });
                }
                None => {
                    self.space.forget_hint(group);
                }
            }
        }
    }

    /// Pins the bitmap page of `page`, for a later free of `page`.
    pub(crate) fn bitmap_for(&self, page: PageNumber) -> Result<Pin<'_>, StoreError> {
        let (group, _) = bitmap::place(page, self.space.page_bytes());
        let number = bitmap::bitmap_of_group(group, self.space.page_bytes());
        let bitmap = self.pool.fix_shared(number)?;
        bitmap::check(&bitmap, number)?;
        Ok(bitmap.unlatch())
    }

    fn add_group(&self, record: &mut Vec<u8>, room: &Room<'_>) -> Result<(), StoreError> {
        let group = self.space.groups();
        self.disk_room
            .check_on_disk(u64::from(group) * u64::from(bitmap::group_pages(self.space.page_bytes())) + 1)?;
        let number = bitmap::bitmap_of_group(group, self.space.page_bytes());
        let meta = self.pool.fix_exclusive(META_PAGE)?;
        let mut page = self.pool.fix_new(number)?;
        bitmap::format(page.change(), group);
        let mut mtr = self.mtrs.begin_system(room, record);
        mtr.change(meta, &[PageOp::Word { at: GROUPS_OFFSET as u16, value: group + 1 }]);
        mtr.replaced(page);
        mtr.commit(RecordKind::System, TxnId::SYSTEM, None);
        // The first page of the group stays free: it is allocated next.
        self.space.grown(group + 1, number.0 + 1, 0);
        Ok(())
    }
}
