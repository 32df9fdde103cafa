//! Bottom-up construction of a tree from sorted rows.
//!
//! The pages are after all pages that were ever allocated, and are written to the layer at once, unlogged.
//! When the layer has made them durable, one record allocates all of them and writes the topmost page into
//! the root. A crash before that record leaves the table empty and the pages unallocated.
//!
//! Invariant: no record since the redo point names a page after the end of the store. So redo does not change
//! loaded pages, although their LSN is older than every record. The reasons: the end never shrinks while the
//! store is open, and opening makes a checkpoint. Where a log is kept for the loss of the flash, checkpoints
//! before and after the load bring the horizon past every record that precedes them.

use super::ground::Ground;
use super::split::separator;
use crate::page::node::{self, NODE_HEADER_BYTES, Node, NodeMut, SLOT_BYTES, max_key, max_row};
use crate::page::op::PageOp;
use crate::page::{bitmap, meta};
use crate::pool::Pool;
use crate::wal::{RecordKind, Wal};
use crate::work::Work;
use crate::{PageNumber, StoreError, TxnId};
use entresol_core::Lsn;
use entresol_engine::Victim;
use entresol_format::page::header_mut;
use std::sync::Arc;
use zerocopy::little_endian::U64;

/// LSN of loaded pages: older than every record.
const LOADED_LSN: Lsn = Lsn(1);

/// One level of the tree under construction: its rightmost page, not yet evicted to the layer.
struct Level {
    page: Vec<u8>,
    /// Least key of the page.
    first: Vec<u8>,
    /// The page's number, if it was needed before the page's eviction.
    number: PageNumber,
}

struct Loader<'a> {
    ground: &'a Ground,
    wal: &'a Wal,
    root: PageNumber,
    levels: Vec<Level>,
    /// Last key of the last leaf that was evicted to the layer.
    last_key: Option<Vec<u8>>,
    /// Next page to allocate.
    next: u32,
    capacity: usize,
}

/// Loads tables.
pub(crate) struct BulkLoader {
    ground: Ground,
    wal: Arc<Wal>,
}

impl BulkLoader {
    pub(crate) fn new(ground: &Ground, wal: Arc<Wal>) -> BulkLoader {
        BulkLoader { ground: ground.clone(), wal }
    }

    /// Fills the empty tree at `root`. `rows` writes the next key and value into its arguments, or returns
    /// false.
    pub(crate) fn load(
        &self,
        work: &mut Work,
        root: PageNumber,
        fill: f64,
        rows: &mut dyn FnMut(&mut Vec<u8>, &mut Vec<u8>) -> bool,
    ) -> Result<u64, StoreError> {
        let refuse = |reason: String| StoreError::BulkLoad { table: root.0, reason };
        if !(0.5..=1.0).contains(&fill) {
            return Err(refuse(format!("fill is {fill}; allowed is 0.5 ..= 1.0")));
        }
        let _lock = self.ground.space.modify();
        {
            let page = self.ground.pool.fix_shared(root)?;
            super::descend::check_node(&page, root)?;
            if Node(&page).level() > 0 || Node(&page).count() > 0 {
                return Err(refuse("the table is not empty".into()));
            }
        }
        // If the log is kept for the loss of the flash, it must not name these pages: an earlier session may
        // have used their numbers.
        self.ground.log_room.settle()?;
        let first_new = self.ground.space.end();
        let mut loader = Loader {
            ground: &self.ground,
            wal: &self.wal,
            root,
            levels: Vec::new(),
            last_key: None,
            next: first_new,
            capacity: ((self.ground.page_bytes - NODE_HEADER_BYTES) as f64 * fill) as usize,
        };
        loader.add_level();
        let (max_key, max_row) = (max_key(self.ground.page_bytes), max_row(self.ground.page_bytes));
        let (mut key, mut value, mut before) = (Vec::new(), Vec::new(), Vec::new());
        let mut count = 0;
        loop {
            key.clear();
            value.clear();
            if !rows(&mut key, &mut value) {
                break;
            }
            if key.len() > max_key || key.len() + value.len() > max_row {
                return Err(StoreError::RowTooLarge { key: key.len(), value: value.len(), max_key, max_row });
            }
            if count > 0 && key <= before {
                return Err(refuse(format!(
                    "row {count} has key {key:02x?}, not above {before:02x?} before it"
                )));
            }
            loader.add(0, &key, &value)?;
            std::mem::swap(&mut key, &mut before);
            count += 1;
        }
        if count > 0 {
            loader.finish(work)?;
        }
        Ok(count)
    }
}

impl Loader<'_> {
    fn add_level(&mut self) {
        let mut page = vec![0; self.ground.page_bytes];
        node::format(&mut page, self.levels.len() as u16, self.root);
        self.levels.push(Level { page, first: Vec::new(), number: PageNumber::NONE });
    }

    /// The next page number that is not a bitmap's.
    fn take_number(&mut self) -> Result<PageNumber, StoreError> {
        let taken = self.next - self.ground.space.end();
        self.ground.disk_room.check_locked(u64::from(taken) + 1)?;
        let (group, _) = bitmap::place(PageNumber(self.next), self.ground.page_bytes);
        if bitmap::bitmap_of_group(group, self.ground.page_bytes).0 == self.next {
            self.next += 1;
        }
        self.ground.disk_room.check_on_disk(self.next.into())?;
        self.next += 1;
        Ok(PageNumber(self.next - 1))
    }

    /// Adds a cell at the right end of a level.
    fn add(&mut self, level: usize, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let need = key.len() + value.len() + SLOT_BYTES;
        let node = Node(&self.levels[level].page);
        let count = node.count();
        // At least two cells in a page, so each level is smaller than the one below.
        if count >= 2 && (node.used() + need > self.capacity || need > node.free()) {
            self.turn_page(level)?;
            return self.add(level, key, value);
        }
        let at = &mut self.levels[level];
        if count == 0 {
            let least = match (&self.last_key, level) {
                (Some(last), 0) => separator(last, key),
                _ => key,
            };
            at.first.clear();
            at.first.extend_from_slice(least);
        }
        let key = if level > 0 && count == 0 { b"".as_slice() } else { key };
        NodeMut(&mut at.page).insert(count, key, value);
        Ok(())
    }

    /// Evicts the level's page and begins the next one.
    fn turn_page(&mut self, level: usize) -> Result<(), StoreError> {
        let number = self.number_of(level)?;
        let next = if level == 0 { self.take_number()? } else { PageNumber::NONE };
        if level == 0 {
            let leaf = &mut self.levels[0].page;
            NodeMut(leaf).set_right(next);
            let last = Node(leaf).key(Node(leaf).count() - 1);
            let kept = self.last_key.get_or_insert_default();
            kept.clear();
            kept.extend_from_slice(last);
        }
        self.close_page(level, number)?;
        let at = &mut self.levels[level];
        node::format(&mut at.page, level as u16, self.root);
        at.number = next;
        if level == 0 {
            NodeMut(&mut at.page).set_left(number);
        }
        Ok(())
    }

    fn number_of(&mut self, level: usize) -> Result<PageNumber, StoreError> {
        let number = self.levels[level].number;
        if number.is_some() { Ok(number) } else { self.take_number() }
    }

    /// Evicts the level's page and adds it to the level above.
    fn close_page(&mut self, level: usize, number: PageNumber) -> Result<(), StoreError> {
        NodeMut(&mut self.levels[level].page).forget_run();
        evict_page(&self.ground.pool, number, &mut self.levels[level].page)?;
        if self.levels.len() == level + 1 {
            self.add_level();
        }
        let first = std::mem::take(&mut self.levels[level].first);
        self.add(level + 1, &first, &number.0.to_le_bytes())?;
        self.levels[level].first = first;
        Ok(())
    }

    /// Closes all levels except the topmost, moves that into the root, and allocates the pages.
    fn finish(mut self, work: &mut Work) -> Result<(), StoreError> {
        let mut level = 0;
        while level + 1 < self.levels.len() {
            let number = self.number_of(level)?;
            self.close_page(level, number)?;
            level += 1;
        }
        let ground = self.ground;
        let page_bytes = ground.page_bytes;
        let group_pages = bitmap::group_pages(page_bytes);
        let old_groups = ground.space.groups();
        let new_groups = self.next.div_ceil(group_pages).max(old_groups);
        // The bitmap of the last group counts, even if no page after it was taken.
        self.next = self.next.max(bitmap::bitmap_of_group(new_groups - 1, page_bytes).0 + 1);
        ground.disk_room.check_on_disk(u64::from(self.next) - 1)?;
        let first_new = ground.space.end();
        for group in old_groups..new_groups {
            let mut page = vec![0; page_bytes];
            bitmap::format(&mut page, group);
            let end = (self.next - group * group_pages).min(group_pages);
            for bit in 0..end {
                bitmap::set(&mut page, bit, true);
            }
            evict_page(&ground.pool, bitmap::bitmap_of_group(group, page_bytes), &mut page)?;
        }
        ground.pool.layer().checkpoint()?;
        // What is not in the log must be on disk if the flash may be lost.
        ground.log_room.settle()?;
        let room = ground.log_room.for_step()?;
        let mut root = ground.pool.fix_exclusive(self.root)?;
        if Node(&root).level() > 0 || Node(&root).count() > 0 {
            return Err(StoreError::BulkLoad {
                table: self.root.0,
                reason: "rows were inserted while it was being loaded".into(),
            });
        }
        // All steps that can fail are before the first change.
        let meta = ground.pool.fix_exclusive(meta::META_PAGE)?;
        let last = old_groups - 1;
        let bits = ground.pool.fix_exclusive(bitmap::bitmap_of_group(last, page_bytes))?;
        let top = &self.levels[level].page;
        let behind = entresol_format::page::PAGE_HEADER_BYTES;
        node::format(root.change(), level as u16, self.root);
        root.change()[behind..].copy_from_slice(&top[behind..]);
        NodeMut(root.change()).forget_run();
        let first = first_new - last * group_pages;
        let count = (self.next - last * group_pages).min(group_pages).saturating_sub(first);
        let mut mtr = ground.mtrs.begin_system(&room, &mut work.record);
        mtr.replaced(root);
        mtr.change(meta, &[PageOp::Word { at: meta::GROUPS_OFFSET as u16, value: new_groups }]);
        mtr.change(bits, &[PageOp::Bits { first, count, allocated: true }]);
        let (lsn, _) = mtr.commit(RecordKind::System, TxnId::SYSTEM, None);
        let bitmaps = new_groups - old_groups;
        ground.space.grown(new_groups, self.next, u64::from(self.next - first_new - bitmaps));
        self.wal.flush(lsn)
    }
}

/// Evicts a page to the layer that was never in the pool.
fn evict_page(pool: &Pool, number: PageNumber, page: &mut [u8]) -> Result<(), StoreError> {
    let head = header_mut(page);
    head.page = U64::new(number.id().0);
    head.lsn = U64::new(LOADED_LSN.0);
    let victim = Victim { page: number.id(), lsn: LOADED_LSN, dirty: true, fdirty: true };
    pool.layer().evict(victim, page)?;
    Ok(())
}
