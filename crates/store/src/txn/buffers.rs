//! The buffers of transactions. Later transactions reuse them, so that they need not grow again.

use crate::locks::LockName;
use crate::undo::UndoLog;
use crate::work::Work;
use entresol_runtime::sync::{Rank, TinyMutex};

/// The buffers of a running transaction.
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

/// Buffers of ended transactions.
pub(super) struct SpareBuffers {
    spare: TinyMutex<Vec<Buffers>>,
}

impl SpareBuffers {
    pub(super) fn new() -> SpareBuffers {
        SpareBuffers { spare: TinyMutex::new(Rank::TransactionBuffers, Vec::new()) }
    }

    /// Empty buffers for a transaction.
    pub(super) fn take(&self) -> Buffers {
        self.spare.lock().pop().unwrap_or_default()
    }

    /// Takes back the buffers of a transaction that has ended.
    pub(super) fn give_back(&self, mut buffers: Buffers) {
        buffers.undo.clear();
        buffers.locks.clear();
        buffers.work.fixes = 0;
        let mut kept = self.spare.lock();
        if kept.len() < BUFFERS_KEPT
            && buffers.undo.capacity() + buffers.work.record.capacity() < BUFFER_BYTES_KEPT
        {
            kept.push(buffers);
        }
    }
}
