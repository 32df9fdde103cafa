//! Creation, open and close of stores; tables.

use crate::btree::descend::Target;
use crate::btree::verify::VerifyReport;
use crate::core::Core;
use crate::page::meta::{CATALOG_ROOT, META_PAGE};
use crate::page::node::{self, Node, SLOT_BYTES, is_node};
use crate::page::op::PageOp;
use crate::page::{bitmap, meta};
use crate::pool::Pool;
use crate::space::Space;
use crate::wal::Room;
use crate::wal::{RecordKind, Wal};
use crate::work::Work;
use crate::{
    CpuModel, Options, PageNumber, Parts, RestartReport, StoreError, StoreMetrics, Table, Txn, TxnId,
    recovery,
};
use entresol_core::{Lsn, PageId};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Maximum length of a table name, in bytes.
pub const TABLE_NAME_MAX: usize = 64;

fn nonsense_in_catalog(name: &[u8]) -> StoreError {
    StoreError::Corrupt {
        place: format!("catalog, table {:?}", String::from_utf8_lossy(name)),
        expected: "the number of a page".into(),
        found: "a row of another length".into(),
    }
}

/// An open store. Cheap to clone; all clones are the same store. A drop of the last clone without
/// [`Store::shutdown`] is a crash: the next open recovers. A checkpoint that is then in progress continues to
/// its end. So the [`Parts`] may be used for another store only when no other owner holds them any more
/// (files are in use for the same time). After a shutdown they may be used at once.
#[derive(Clone)]
pub struct Store {
    core: Arc<Core>,
}

impl Store {
    /// Creates an empty store on a new layer.
    ///
    /// # Errors
    /// [`StoreError::Config`] if options are out of range; if the disk contains a database or the log device
    /// has valuable content, unless [`Options::overwrite`] is set; if a device fails.
    pub fn create(parts: Parts, options: Options) -> Result<Store, StoreError> {
        options.check()?;
        let disk = parts.layer.binding()?;
        if !options.overwrite {
            crate::blank::refuse_unless_free(&*parts.log, Some(&disk))?;
        }
        let disk = disk.disk;
        let bind = |log, session| Ok(parts.layer.bind_log(log, session)?);
        let wal = Arc::new(Wal::create(parts.log, options.page_bytes, disk, bind)?);
        let pool = Pool::new(parts.layer, &options);
        pool.wal_rule().set_wal(wal.clone());
        let (capacity, page_bytes) = (pool.layer().capacity_pages(), options.page_bytes as usize);
        let space = Space::new(1, CATALOG_ROOT.0 + 1, capacity, page_bytes);
        let core = Arc::new(Core::new(options, pool, wal, space, 1));
        core.format()?;
        core.make_checkpoint()?;
        core.start_checkpoints();
        Ok(Store { core })
    }

    /// In a simulation: from now on transactions take processor time. On threads this has no effect.
    ///
    /// # Panics
    /// If it was called before.
    pub fn model_cpu(&self, model: CpuModel) {
        assert!(self.core.cpu.set(model).is_ok(), "the processor is modelled once");
    }

    /// Opens an existing store: ARIES restart, which is short after a clean shutdown.
    pub fn open(parts: Parts, options: Options) -> Result<(Store, RestartReport), StoreError> {
        options.check()?;
        let (core, report) = recovery::restart(&parts, options)
            .inspect_err(|error| tracing::warn!("store not opened: {error}"))?;
        tracing::info!(
            log_bytes = report.log_bytes,
            records = report.records,
            redo_pages = report.redo_fetched,
            losers = report.losers,
            "store opened"
        );
        core.start_checkpoints();
        Ok((Store { core }, report))
    }

    /// Creates an empty table; it is durable when this returns.
    pub fn create_table(&self, name: &str) -> Result<Table, StoreError> {
        if name.is_empty() || name.len() > TABLE_NAME_MAX {
            return Err(StoreError::Config(format!(
                "a table's name has 1 to {TABLE_NAME_MAX} bytes; {name:?} has {}",
                name.len()
            )));
        }
        self.core.create_table(name)
    }

    /// The table of that name.
    pub fn table(&self, name: &str) -> Result<Option<Table>, StoreError> {
        let mut work = Work::default();
        let found = self.core.row_get(&mut work, CATALOG_ROOT, name.as_bytes(), Table::from_row)?;
        found.map(|table| table.ok_or_else(|| nonsense_in_catalog(name.as_bytes()))).transpose()
    }

    /// All tables with their names, in the names' order.
    pub fn tables(&self) -> Result<Vec<(String, Table)>, StoreError> {
        let mut tables = Vec::new();
        let mut nonsense = None;
        let catalog = Table { id: CATALOG_ROOT.0 };
        self.begin().scan(
            catalog,
            &[],
            &[0xff],
            crate::Direction::Forward,
            crate::Lock::None,
            &mut |name, row| {
                match Table::from_row(row) {
                    Some(table) => tables.push((String::from_utf8_lossy(name).into_owned(), table)),
                    None => nonsense = Some(nonsense_in_catalog(name)),
                }
                nonsense.is_none()
            },
        )?;
        nonsense.map_or(Ok(tables), Err)
    }

    /// Fills an empty table bottom-up from rows in strictly ascending key order. `rows` writes the next key
    /// and value into its arguments (cleared before), or returns false. `fill`, 0.5 ..= 1.0, is the share of
    /// a page to fill. The rows are not logged one by one, but are durable when this returns. If it fails, or
    /// the store crashes meanwhile, the table is empty. Returns the number of rows. Splits of other tables
    /// wait meanwhile.
    pub fn bulk_load(
        &self,
        table: Table,
        fill: f64,
        rows: &mut dyn FnMut(&mut Vec<u8>, &mut Vec<u8>) -> bool,
    ) -> Result<u64, StoreError> {
        self.core.bulk_load(&mut Work::default(), table.root(), fill, rows)
    }

    /// Begins a transaction.
    pub fn begin(&self) -> Txn {
        Txn::begin(&self.core)
    }

    /// Makes a fuzzy checkpoint; clients continue meanwhile. Returns the LSN of its record.
    /// [`StoreError::LogFull`] if the active transactions hold half of the log: a checkpoint would free
    /// nothing.
    pub fn checkpoint(&self) -> Result<Lsn, StoreError> {
        self.core.make_checkpoint()
    }

    /// Pages allocated on the disk, including free ones below the highest.
    pub fn pages(&self) -> u64 {
        u64::from(self.core.space.end())
    }

    /// The part of the log that may be read by a restart or by the undo of an active transaction. It begins
    /// at the last checkpoint's redo point or at the oldest transaction. The space before it is reused.
    pub fn log_needed(&self) -> std::ops::Range<Lsn> {
        self.core.wal.ledger().needed()
    }

    /// The table of a page. `None` for pages of no table (free space, meta page) or of the catalog.
    pub fn table_of(&self, page: PageId) -> Result<Option<Table>, StoreError> {
        let page = self.core.pool.fix_shared(PageNumber(page.number()))?;
        let root = is_node(&page).then(|| Node(&page).root());
        Ok(root.filter(|root| *root != CATALOG_ROOT).map(|root| Table { id: root.0 }))
    }

    /// Counters since the store was opened.
    pub fn metrics(&self) -> StoreMetrics {
        let core = &self.core;
        let (fixes, hits) = core.pool.access_counts();
        let (log_bytes, log_syncs) = core.wal.counters();
        StoreMetrics {
            fixes,
            hits,
            commits: core.counters.commits.load(Relaxed),
            aborts: core.counters.aborts.load(Relaxed),
            deadlocks: core.counters.deadlocks.load(Relaxed),
            log_bytes,
            log_syncs,
            checkpoints: core.counters.checkpoints.load(Relaxed),
            tier: core.pool.layer().metrics(),
        }
    }

    /// Checks every page of every tree and the free space. There must be no concurrent changes.
    pub fn verify(&self) -> Result<VerifyReport, StoreError> {
        let mut roots = vec![CATALOG_ROOT];
        roots.extend(self.tables()?.iter().map(|(_, table)| table.root()));
        self.core.verify(&roots)
    }

    /// Makes a checkpoint, drains the layer and ends background work: nothing is written after this returns.
    /// No transaction may be open. If transactions are active nevertheless, and hold so much of the log that
    /// the checkpoint is refused, this returns [`StoreError::LogFull`]. Then the layer is closed, all commits
    /// are durable, and the next open redoes from the earlier checkpoint and rolls the transactions back.
    pub fn shutdown(self) -> Result<(), StoreError> {
        self.core.close()
    }
}

impl Core {
    /// Writes the first pages: meta, bitmap, catalog.
    fn format(&self) -> Result<(), StoreError> {
        let mut record = Vec::new();
        let mut meta_page = self.pool.fix_new(META_PAGE)?;
        let mut bitmap_page = self.pool.fix_new(bitmap::bitmap_of_group(0, self.page_bytes()))?;
        let mut catalog = self.pool.fix_new(CATALOG_ROOT)?;
        meta::format(meta_page.change());
        bitmap::format(bitmap_page.change(), 0);
        bitmap::set(bitmap_page.change(), CATALOG_ROOT.0, true);
        node::format(catalog.change(), 0, CATALOG_ROOT);
        let room = Room::kept();
        let mut mtr = self.system_mtr(&room, &mut record);
        mtr.replaced(meta_page);
        mtr.replaced(bitmap_page);
        mtr.replaced(catalog);
        mtr.commit(RecordKind::System, TxnId::SYSTEM, None);
        Ok(())
    }

    /// One record allocates the root, formats it and inserts it into the catalog.
    fn create_table(&self, name: &str) -> Result<Table, StoreError> {
        let mut work = Work::default();
        let key = name.as_bytes();
        loop {
            {
                let _lock = self.modification.lock();
                let room = self.room_for_step()?;
                self.check_disk_room_locked(1)?;
                let _permit = self.pool.enter();
                let allocation = self.allocate(&mut work.record, &room)?;
                let bit = allocation.op();
                let root = allocation.page;
                let mut page = self.pool.fix_new(root)?;
                let leaf = self.leaf_exclusive(&mut work, CATALOG_ROOT, Target::Key(key))?;
                let value = root.0.to_le_bytes();
                let Err(slot) = Node(&leaf).find(key) else {
                    return Err(StoreError::TableExists(name.to_owned()));
                };
                if key.len() + value.len() + SLOT_BYTES <= Node(&leaf).free() {
                    node::format(page.change(), 0, root);
                    let bitmap_page = crate::btree::split::write_pinned(allocation.bitmap)?;
                    let mut mtr = self.system_mtr(&room, &mut work.record);
                    mtr.change(leaf, &[PageOp::Insert { slot: slot as u16, key, value: &value }]);
                    mtr.replaced(page);
                    mtr.change(bitmap_page, &[bit]);
                    let (lsn, _) = mtr.commit(RecordKind::System, TxnId::SYSTEM, None);
                    self.allocated(root);
                    self.wal.flush(lsn)?;
                    return Ok(Table { id: root.0 });
                }
            }
            self.make_room(&mut work, CATALOG_ROOT, key, key.len() + 4 + SLOT_BYTES, false)?;
        }
    }
}
