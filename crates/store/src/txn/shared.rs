//! What all transactions share.

use super::buffers::SpareBuffers;
use super::rollback::Rollback;
use crate::CpuModel;
use crate::btree::rows::Rows;
use crate::btree::scan::Scanner;
use crate::locks::LockTable;
use crate::log_room::LogRoom;
use crate::undo::ActiveTable;
use crate::wal::Wal;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

/// See the module's header.
pub(crate) struct Transactions {
    pub(super) wal: Arc<Wal>,
    pub(super) active: Arc<ActiveTable>,
    pub(super) locks: Arc<LockTable>,
    pub(super) log_room: Arc<LogRoom>,
    pub(super) rows: Arc<Rows>,
    pub(super) scanner: Scanner,
    pub(super) rollback: Arc<Rollback>,
    pub(super) buffers: SpareBuffers,
    pub(crate) counters: Counters,
    /// Set in a simulation that models processor time.
    pub(crate) cpu: OnceLock<CpuModel>,
}

/// Counters of [`crate::StoreMetrics`].
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) commits: AtomicU64,
    pub(crate) aborts: AtomicU64,
    pub(crate) deadlocks: AtomicU64,
}

impl Transactions {
    pub(crate) fn new(
        wal: Arc<Wal>,
        active: Arc<ActiveTable>,
        locks: Arc<LockTable>,
        log_room: Arc<LogRoom>,
        rows: Arc<Rows>,
        scanner: Scanner,
        rollback: Arc<Rollback>,
    ) -> Transactions {
        Transactions {
            wal,
            active,
            locks,
            log_room,
            rows,
            scanner,
            rollback,
            buffers: SpareBuffers::new(),
            counters: Counters::default(),
            cpu: OnceLock::new(),
        }
    }
}
