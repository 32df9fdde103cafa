//! The catalog: a tree with the roots of all tables by their names.

use crate::btree::descend::Target;
use crate::btree::ground::Ground;
use crate::btree::rows::Rows;
use crate::btree::split::{Splitter, write_pinned};
use crate::page::meta::{CATALOG_ROOT, META_PAGE};
use crate::page::node::{self, Node, SLOT_BYTES};
use crate::page::op::PageOp;
use crate::page::{bitmap, meta};
use crate::wal::{RecordKind, Room, Wal};
use crate::work::Work;
use crate::{StoreError, Table, TxnId};
use std::sync::Arc;

/// Maximum length of a table name, in bytes.
pub const TABLE_NAME_MAX: usize = 64;

/// The error for a row of the catalog that is none.
pub(crate) fn nonsense_in_catalog(name: &[u8]) -> StoreError {
    StoreError::Corrupt {
        place: format!("catalog, table {:?}", String::from_utf8_lossy(name)),
        expected: "the number of a page".into(),
        found: "a row of another length".into(),
    }
}

/// See the module's header.
pub(crate) struct Catalog {
    ground: Ground,
    wal: Arc<Wal>,
    rows: Arc<Rows>,
    splitter: Arc<Splitter>,
}

impl Catalog {
    pub(crate) fn new(ground: &Ground, wal: Arc<Wal>, rows: Arc<Rows>, splitter: Arc<Splitter>) -> Catalog {
        Catalog { ground: ground.clone(), wal, rows, splitter }
    }

    /// The table of that name.
    pub(crate) fn find(&self, name: &str) -> Result<Option<Table>, StoreError> {
        let mut work = Work::default();
        let found = self.rows.get(&mut work, CATALOG_ROOT, name.as_bytes(), Table::from_row)?;
        found.map(|table| table.ok_or_else(|| nonsense_in_catalog(name.as_bytes()))).transpose()
    }

    /// Writes the first pages: meta, bitmap, catalog.
    pub(crate) fn format(&self) -> Result<(), StoreError> {
        let mut record = Vec::new();
        let mut meta_page = self.ground.pool.fix_new(META_PAGE)?;
        let mut bitmap_page = self.ground.pool.fix_new(bitmap::bitmap_of_group(0, self.ground.page_bytes))?;
        let mut catalog = self.ground.pool.fix_new(CATALOG_ROOT)?;
        meta::format(meta_page.change());
        bitmap::format(bitmap_page.change(), 0);
        bitmap::set(bitmap_page.change(), CATALOG_ROOT.0, true);
        node::format(catalog.change(), 0, CATALOG_ROOT);
        let room = Room::kept();
        let mut mtr = self.ground.mtrs.begin_system(&room, &mut record);
        mtr.replaced(meta_page);
        mtr.replaced(bitmap_page);
        mtr.replaced(catalog);
        mtr.commit(RecordKind::System, TxnId::SYSTEM, None);
        Ok(())
    }

    /// One record allocates the root, formats it and inserts it into the catalog.
    pub(crate) fn create(&self, name: &str) -> Result<Table, StoreError> {
        if name.is_empty() || name.len() > TABLE_NAME_MAX {
            return Err(StoreError::Config(format!(
                "a table's name has 1 to {TABLE_NAME_MAX} bytes; {name:?} has {}",
                name.len()
            )));
        }
        let mut work = Work::default();
        let key = name.as_bytes();
        loop {
            {
                let _lock = self.ground.space.modify();
                let room = self.ground.log_room.for_step()?;
                self.ground.disk_room.check_locked(1)?;
                let _permit = self.ground.pool.enter();
                let allocation = self.ground.allocator.allocate(&mut work.record, &room)?;
                let bit = allocation.op();
                let root = allocation.page;
                let mut page = self.ground.pool.fix_new(root)?;
                let leaf = self.ground.descent.leaf_exclusive(&mut work, CATALOG_ROOT, Target::Key(key))?;
                let value = root.0.to_le_bytes();
                let Err(slot) = Node(&leaf).find(key) else {
                    return Err(StoreError::TableExists(name.to_owned()));
                };
                if key.len() + value.len() + SLOT_BYTES <= Node(&leaf).free() {
                    node::format(page.change(), 0, root);
                    let bitmap_page = write_pinned(allocation.bitmap)?;
                    let mut mtr = self.ground.mtrs.begin_system(&room, &mut work.record);
                    mtr.change(leaf, &[PageOp::Insert { slot: slot as u16, key, value: &value }]);
                    mtr.replaced(page);
                    mtr.change(bitmap_page, &[bit]);
                    let (lsn, _) = mtr.commit(RecordKind::System, TxnId::SYSTEM, None);
                    self.ground.space.allocated(root);
                    self.wal.flush(lsn)?;
                    return Ok(Table { id: root.0 });
                }
            }
            self.splitter.make_room(&mut work, CATALOG_ROOT, key, key.len() + 4 + SLOT_BYTES, false)?;
        }
    }
}
