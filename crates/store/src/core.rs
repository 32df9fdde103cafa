//! The parts and state shared within an open store.
//!
//! The order of the locks is that of their ranks (docs/LOCKING.md). A task that waits for a row lock holds no
//! other lock. Page latches may be held while the log is flushed or a page is evicted to the layer, because
//! neither ever waits for a page latch.

use crate::locks::{LockName, LockTable};
use crate::mtr::Mtr;
use crate::pool::Pool;
use crate::space::Space;
use crate::txn::active::ActiveTable;
use crate::txn::undo::UndoLog;
use crate::wal::Room;
use crate::wal::{Wal, record};
use crate::work::Work;
use crate::{CpuModel, Options};
use entresol_runtime::sync::{Mutex, Rank, TinyMutex};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};

/// See the module's header.
pub(crate) struct Core {
    pub(crate) options: Options,
    /// Set in a simulation that models processor time.
    pub(crate) cpu: OnceLock<CpuModel>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) wal: Arc<Wal>,
    pub(crate) space: Space,
    pub(crate) active: ActiveTable,
    pub(crate) locks: LockTable,
    /// Structure modifications and allocations are made one at a time.
    pub(crate) modification: Mutex<()>,
    /// Checkpoints are made one at a time.
    pub(crate) checkpoint: Mutex<()>,
    /// A checkpoint was requested because the log fills up.
    pub(crate) checkpoint_wanted: AtomicBool,
    /// The store is closed: no more background work.
    pub(crate) closed: AtomicBool,
    pub(crate) counters: Counters,
    buffers: TinyMutex<Vec<Buffers>>,
}

/// The buffers of a running transaction. Later transactions reuse them, so that buffers need not grow again.
#[derive(Default)]
pub(crate) struct Buffers {
    pub(crate) work: Work,
    pub(crate) undo: UndoLog,
    pub(crate) locks: Vec<LockName>,
}

/// Maximum number of [`Buffers`] that are kept.
const BUFFERS_KEPT: usize = 256;
/// Buffers of more bytes than this are not kept.
const BUFFER_BYTES_KEPT: usize = 1 << 18;

/// Counters of [`crate::StoreMetrics`].
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) commits: AtomicU64,
    pub(crate) aborts: AtomicU64,
    pub(crate) deadlocks: AtomicU64,
    pub(crate) checkpoints: AtomicU64,
}

impl Core {
    pub(crate) fn new(options: Options, pool: Arc<Pool>, wal: Arc<Wal>, space: Space, next_txn: u64) -> Core {
        Core {
            options,
            cpu: OnceLock::new(),
            pool,
            wal,
            space,
            active: ActiveTable::new(next_txn),
            locks: LockTable::new(),
            modification: Mutex::new(Rank::Modification, ()),
            checkpoint: Mutex::new(Rank::Checkpoint, ()),
            checkpoint_wanted: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            counters: Counters::default(),
            buffers: TinyMutex::new(Rank::TransactionBuffers, Vec::new()),
        }
    }

    pub(crate) fn page_bytes(&self) -> usize {
        self.options.page_bytes as usize
    }

    /// Empty buffers for a transaction.
    pub(crate) fn take_buffers(&self) -> Buffers {
        self.buffers.lock().pop().unwrap_or_default()
    }

    /// Takes back the buffers of a transaction that has ended.
    pub(crate) fn give_back(&self, mut buffers: Buffers) {
        buffers.undo.clear();
        buffers.locks.clear();
        buffers.work.fixes = 0;
        let mut kept = self.buffers.lock();
        if kept.len() < BUFFERS_KEPT
            && buffers.undo.capacity() + buffers.work.record.capacity() < BUFFER_BYTES_KEPT
        {
            kept.push(buffers);
        }
    }

    /// Begins a mini-transaction in a started record.
    pub(crate) fn mtr<'w, 'p>(&'w self, room: &'w Room<'w>, record: &'w mut Vec<u8>) -> Mtr<'w, 'p> {
        Mtr::new(&self.wal, room, self.options.full_page_writes, record)
    }

    /// Begins a mini-transaction of the system in the buffer `record`.
    pub(crate) fn system_mtr<'w, 'p>(&'w self, room: &'w Room<'w>, record: &'w mut Vec<u8>) -> Mtr<'w, 'p> {
        record::start(record);
        self.mtr(room, record)
    }
}
