//! Creation, open and close of stores; tables.

use crate::btree::verify::{VerifyReport, verify};
use crate::catalog::nonsense_in_catalog;
use crate::core::Core;
use crate::page::meta::CATALOG_ROOT;
use crate::page::node::{Node, is_node};
use crate::pool::Pool;
use crate::space::Space;
use crate::wal::{Wal, log_area};
use crate::work::Work;
use crate::{
    CpuModel, Options, PageNumber, Parts, RestartReport, StoreError, StoreMetrics, Table, Txn, recovery,
};
use entresol_core::{KeptCheckpoints, LogBound, Lsn, PageId};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// An open store. Cheap to clone; all clones are the same store. A drop of the last clone without
/// [`Store::shutdown`] is a crash: the next open recovers. A checkpoint that is then in progress continues to
/// its end. So the [`Parts`] may be used for another store only when no other owner holds them any more
/// (files are in use for the same time). After a shutdown they may be used at once.
#[derive(Clone)]
pub struct Store {
    core: Arc<Core>,
}

/// The parts of a log device that a restart of the store does not need ([`Store::log_needed`]): its next
/// records may overwrite them at any time. A test that destroys them sees whether that is true.
#[derive(Clone, Debug)]
pub struct FreeLog {
    wal: Weak<Wal>,
}

impl FreeLog {
    /// Offsets and lengths of two parts. `None`: a task appends to the log right now, or the store is closed.
    pub fn parts(&self) -> Option<[(u64, u64); 2]> {
        self.wal.upgrade()?.free()
    }
}

impl Store {
    /// Creates an empty store on a new layer.
    ///
    /// # Errors
    /// [`StoreError::Config`] if options are out of range; if the disk contains a database or the log device
    /// has valuable content, unless [`Options::overwrite`] is set; if a device fails.
    pub fn create(parts: Parts, options: Options) -> Result<Store, StoreError> {
        options.check()?;
        options.check_log(log_area(&*parts.log))?;
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
        pool.layer().resume_checkpoints(0)?;
        let horizon = KeptCheckpoints::new(LogBound(options.flash_loss.log_bytes()), 0, VecDeque::new());
        let core = Core::new(&options, pool, wal, space, 1, horizon);
        core.catalog.format()?;
        core.checkpointer.make()?;
        core.checkpointer.settle()?;
        Ok(start(core, options.checkpoint_interval))
    }

    /// In a simulation: from now on transactions take processor time. On threads this has no effect.
    ///
    /// # Panics
    /// If it was called before.
    pub fn model_cpu(&self, model: CpuModel) {
        assert!(self.core.transactions.cpu.set(model).is_ok(), "the processor is modelled once");
    }

    /// Opens an existing store: ARIES restart, which is short after a clean shutdown.
    pub fn open(parts: Parts, options: Options) -> Result<(Store, RestartReport), StoreError> {
        options.check()?;
        let interval = options.checkpoint_interval;
        let (core, report) = recovery::restart(&parts, options)
            .inspect_err(|error| tracing::warn!("store not opened: {error}"))?;
        tracing::info!(
            log_bytes = report.log_bytes,
            records = report.records,
            redo_pages = report.redo_fetched,
            losers = report.losers,
            "store opened"
        );
        Ok((start(core, interval), report))
    }

    /// Creates an empty table; it is durable when this returns.
    pub fn create_table(&self, name: &str) -> Result<Table, StoreError> {
        self.core.catalog.create(name)
    }

    /// The table of that name.
    pub fn table(&self, name: &str) -> Result<Option<Table>, StoreError> {
        self.core.catalog.find(name)
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
        self.core.loader.load(&mut Work::default(), table.root(), fill, rows)
    }

    /// Begins a transaction.
    pub fn begin(&self) -> Txn {
        Txn::begin(&self.core.transactions)
    }

    /// Makes a fuzzy checkpoint; clients continue meanwhile. Returns the LSN of its record.
    /// [`StoreError::LogFull`] if the active transactions hold half of the log: a checkpoint would free
    /// nothing.
    pub fn checkpoint(&self) -> Result<Lsn, StoreError> {
        self.core.checkpointer.make()
    }

    /// Pages allocated on the disk, including free ones below the highest.
    pub fn pages(&self) -> u64 {
        u64::from(self.core.space.end())
    }

    /// The part of the log that may be read by a restart or by the undo of an active transaction. It begins
    /// at the last checkpoint's redo point, at the oldest transaction, or where a restart without the flash
    /// would begin. The space before it is reused.
    pub fn log_needed(&self) -> std::ops::Range<Lsn> {
        self.core.wal.ledger().needed()
    }

    /// Tells which parts of the log device are free, and does not keep the store open.
    pub fn free_log(&self) -> FreeLog {
        FreeLog { wal: Arc::downgrade(&self.core.wal) }
    }

    /// Where a restart without the flash would begin, if the flash may be lost now
    /// ([`Options::flash_loss`](crate::Options)). The log is kept from there on.
    pub fn horizon(&self) -> Option<Lsn> {
        self.core.checkpointer.horizon()
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
            commits: core.transactions.counters.commits.load(Relaxed),
            aborts: core.transactions.counters.aborts.load(Relaxed),
            deadlocks: core.transactions.counters.deadlocks.load(Relaxed),
            log_bytes,
            log_syncs,
            checkpoints: core.checkpointer.made(),
            tier: core.pool.layer().metrics(),
        }
    }

    /// Checks every page of every tree and the free space. There must be no concurrent changes.
    pub fn verify(&self) -> Result<VerifyReport, StoreError> {
        let mut roots = vec![CATALOG_ROOT];
        roots.extend(self.tables()?.iter().map(|(_, table)| table.root()));
        verify(&self.core.pool, &self.core.space, &roots)
    }

    /// Makes a checkpoint, drains the layer and ends background work: nothing is written after this returns.
    /// No transaction may be open. If transactions are active nevertheless, and hold so much of the log that
    /// the checkpoint is refused, this returns [`StoreError::LogFull`]. Then the layer is closed, all commits
    /// are durable, and the next open redoes from the earlier checkpoint and rolls the transactions back.
    pub fn shutdown(self) -> Result<(), StoreError> {
        self.core.checkpointer.close()
    }

    /// As [`Store::shutdown`], but does not wait for the disk if the layer can keep dirty pages on flash (3LA
    /// §3.3: LOC and GLB in write-back mode). No checkpoint is made then. The next open finds all pages on
    /// that flash. If the flash is lost meanwhile, or that open crashes, the log repeats them from the
    /// checkpoint before.
    pub fn shutdown_quickly(self) -> Result<(), StoreError> {
        self.core.checkpointer.materialise()
    }
}

/// Starts the background work of an open store.
fn start(core: Core, checkpoint_interval: Option<Duration>) -> Store {
    if let Some(interval) = checkpoint_interval {
        core.checkpointer.start_periodic(interval);
    }
    Store { core: Arc::new(core) }
}
