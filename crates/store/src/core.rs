//! The parts of an open store, put together. Arrows between rooms point one way (see the `README.md` of this
//! crate).

use crate::Options;
use crate::allocate::Allocator;
use crate::btree::bulk::BulkLoader;
use crate::btree::descend::Descent;
use crate::btree::ground::Ground;
use crate::btree::rows::Rows;
use crate::btree::scan::Scanner;
use crate::btree::split::Splitter;
use crate::catalog::Catalog;
use crate::checkpoint::Checkpointer;
use crate::disk_room::DiskRoom;
use crate::locks::LockTable;
use crate::log_room::LogRoom;
use crate::mtr::Mtrs;
use crate::pool::Pool;
use crate::space::Space;
use crate::txn::rollback::Rollback;
use crate::txn::shared::Transactions;
use crate::undo::{ActiveTable, LogBounds};
use crate::wal::Wal;
use entresol_core::{KeptCheckpoints, Lsn};
use std::sync::Arc;

/// See the module's header.
pub(crate) struct Core {
    pub(crate) pool: Arc<Pool>,
    pub(crate) wal: Arc<Wal>,
    pub(crate) space: Arc<Space>,
    pub(crate) active: Arc<ActiveTable>,
    pub(crate) checkpointer: Arc<Checkpointer>,
    pub(crate) catalog: Catalog,
    pub(crate) loader: BulkLoader,
    pub(crate) rollback: Arc<Rollback>,
    pub(crate) transactions: Arc<Transactions>,
}

impl Core {
    /// `next_txn`: the number of the next transaction. `horizon`: how far back the log is kept.
    pub(crate) fn new(
        options: &Options,
        pool: Arc<Pool>,
        wal: Arc<Wal>,
        space: Space,
        next_txn: u64,
        horizon: KeptCheckpoints<Lsn>,
    ) -> Core {
        let page_bytes = options.page_bytes as usize;
        let space = Arc::new(space);
        let active = Arc::new(ActiveTable::new(next_txn));
        let bounds = Arc::new(LogBounds::new(wal.clone(), active.clone(), space.clone()));
        let checkpointer = Arc::new(Checkpointer::new(
            wal.clone(),
            pool.clone(),
            active.clone(),
            bounds.clone(),
            page_bytes,
            options.flash_loss,
            horizon,
        ));
        let log_room = Arc::new(LogRoom::new(wal.clone(), bounds.clone(), checkpointer.clone(), page_bytes));
        let disk_room = Arc::new(DiskRoom::new(pool.clone(), space.clone(), active.clone()));
        let mtrs = Mtrs::new(wal.clone(), options.full_page_writes);
        let ground = Ground {
            allocator: Arc::new(Allocator::new(pool.clone(), mtrs.clone(), space.clone(), disk_room.clone())),
            descent: Descent::new(pool.clone()),
            pool: pool.clone(),
            mtrs,
            space: space.clone(),
            disk_room,
            log_room: log_room.clone(),
            page_bytes,
        };
        let splitter = Arc::new(Splitter::new(&ground));
        let rows = Arc::new(Rows::new(&ground, splitter.clone(), bounds));
        let locks = Arc::new(LockTable::new());
        let scanner = Scanner::new(pool.clone(), ground.descent.clone(), space.clone(), locks.clone());
        let rollback = Arc::new(Rollback::new(wal.clone(), active.clone(), rows.clone()));
        let transactions = Transactions::new(
            wal.clone(),
            active.clone(),
            locks,
            log_room,
            rows.clone(),
            scanner,
            rollback.clone(),
        );
        Core {
            catalog: Catalog::new(&ground, wal.clone(), rows, splitter),
            loader: BulkLoader::new(&ground, wal.clone()),
            transactions: Arc::new(transactions),
            pool,
            wal,
            space,
            active,
            checkpointer,
            rollback,
        }
    }
}
