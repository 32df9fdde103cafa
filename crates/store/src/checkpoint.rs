//! Fuzzy checkpoints: clients continue meanwhile (FaCE §2.3: dirty frames are evicted to the layer, to its
//! flash if it has one).
//!
//! Invariant: when the checkpoint record is durable, every change older than the redo point is in pages that
//! the layer has made durable. The reasons: the frames that were dirty at the redo point are evicted before
//! the layer's own checkpoint, and a frame is marked dirty before its change gets an LSN. Some layers forget
//! their copy of a dirty page when the page is fetched (GLB). From the start of a checkpoint to its end they
//! do not, and the checkpoint waits for fetches that were in progress before.
//!
//! A checkpoint record's payload: redo point (8), next transaction (8), UUID of the disk (16), session (8;
//! see [`crate::wal::session`]), number of active transactions (4), and of each: number (8), no later than
//! its first record (8), its newest record before the redo point (8).

use crate::bytes::{Reader, put_u32, put_u64};
use crate::pool::Pool;
use crate::undo::{ActiveTable, ActiveTxn, LogBounds};
use crate::wal::{Draft, FIRST_LSN, RecordKind, Room, Wal, record};
use crate::{StoreError, TxnId};
use entresol_core::Lsn;
use entresol_engine::Uuid;
use entresol_runtime::sync::{Mutex, Rank};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

/// The content of a checkpoint record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckpointRecord {
    pub redo_point: Lsn,
    pub next_txn: u64,
    pub disk: Uuid,
    pub session: u64,
    pub active: Vec<ActiveTxn>,
}

impl CheckpointRecord {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_u64(out, self.redo_point.0);
        put_u64(out, self.next_txn);
        out.extend_from_slice(&self.disk.0);
        put_u64(out, self.session);
        put_u32(out, self.active.len() as u32);
        for txn in &self.active {
            put_u64(out, txn.id.0);
            put_u64(out, txn.first.0);
            put_u64(out, txn.last.0);
        }
    }

    pub(crate) fn decode(payload: &[u8]) -> Option<CheckpointRecord> {
        let mut reader = Reader(payload);
        let (redo_point, next_txn) = (Lsn(reader.u64()?), reader.u64()?);
        let disk = Uuid(reader.take(16)?.try_into().ok()?);
        let (session, count) = (reader.u64()?, reader.u32()?);
        let mut active = Vec::new();
        for _ in 0..count {
            let (id, first, last) = (TxnId(reader.u64()?), Lsn(reader.u64()?), Lsn(reader.u64()?));
            active.push(ActiveTxn { id, first, last });
        }
        Some(CheckpointRecord { redo_point, next_txn, disk, session, active })
    }

    /// Whether a record at `at` can have this content: it must refer only to older positions. A transaction
    /// that was about to log its first change has no record yet; then its `first` may be the position of the
    /// checkpoint record itself.
    pub(crate) fn is_possible(&self, at: Lsn) -> bool {
        (FIRST_LSN..=at.0).contains(&self.redo_point.0)
            && self.redo_point.0.is_multiple_of(8)
            && self.active.iter().all(|txn| txn.last < at && txn.first <= at && txn.id != TxnId::SYSTEM)
    }

    /// Oldest LSN that a restart from this checkpoint may read.
    pub(crate) fn oldest(&self) -> Lsn {
        self.active
            .iter()
            .map(|txn| txn.first)
            .min()
            .map_or(self.redo_point, |first| first.min(self.redo_point))
    }
}

/// Makes checkpoints.
pub(crate) struct Checkpointer {
    wal: Arc<Wal>,
    pool: Arc<Pool>,
    active: Arc<ActiveTable>,
    bounds: Arc<LogBounds>,
    page_bytes: usize,
    /// Checkpoints are made one at a time.
    turn: Mutex<()>,
    /// A checkpoint was requested because the log fills up.
    wanted: AtomicBool,
    /// The store is closed: no more background work.
    closed: AtomicBool,
    made: AtomicU64,
}

impl Checkpointer {
    pub(crate) fn new(
        wal: Arc<Wal>,
        pool: Arc<Pool>,
        active: Arc<ActiveTable>,
        bounds: Arc<LogBounds>,
        page_bytes: usize,
    ) -> Checkpointer {
        Checkpointer {
            wal,
            pool,
            active,
            bounds,
            page_bytes,
            turn: Mutex::new(Rank::Checkpoint, ()),
            wanted: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            made: AtomicU64::new(0),
        }
    }

    /// Checkpoints completed since the store was opened.
    pub(crate) fn made(&self) -> u64 {
        self.made.load(Relaxed)
    }

    /// Makes a checkpoint; returns the LSN of its record. One at a time: a second caller waits, then makes
    /// another one. Refused when the active transactions hold too much of the log (see [`crate::log_room`]).
    pub(crate) fn make(&self) -> Result<Lsn, StoreError> {
        let _lock = self.turn.lock();
        self.make_alone()
    }

    /// As [`Checkpointer::make`] for background tasks: does nothing and returns false when the store has
    /// been closed. So nothing is written after [`Checkpointer::close`] has returned.
    pub(crate) fn make_unless_closed(&self) -> Result<bool, StoreError> {
        let _lock = self.turn.lock();
        if self.closed.load(Relaxed) {
            return Ok(false);
        }
        self.make_alone().map(|_| true)
    }

    /// Makes the last checkpoint and closes the layer. The layer is closed even if the checkpoint is refused
    /// because active transactions hold the log. Then the next restart redoes from an older checkpoint and
    /// rolls them back.
    pub(crate) fn close(&self) -> Result<(), StoreError> {
        let _lock = self.turn.lock();
        self.closed.store(true, Relaxed);
        let checkpoint = self.make_alone();
        if matches!(checkpoint, Ok(_) | Err(StoreError::LogFull { .. })) {
            self.pool.layer().close()?;
        }
        checkpoint.map(drop)
    }

    /// Closes the layer without a checkpoint, if it can keep dirty pages: the log reaches back to the last
    /// checkpoint, in case that they are lost. Otherwise as [`Checkpointer::close`].
    pub(crate) fn materialise(&self) -> Result<(), StoreError> {
        if !self.pool.layer().can_materialise() {
            return self.close();
        }
        let _lock = self.turn.lock();
        self.closed.store(true, Relaxed);
        // A change before the end has marked its frame as dirty.
        let end = self.wal.tail().end();
        self.wal.flush(Lsn(end.0 - 1))?;
        self.evict_dirty()?;
        Ok(self.pool.layer().materialise(end)?)
    }

    /// Evicts the frames that are dirty.
    fn evict_dirty(&self) -> Result<(), StoreError> {
        let mut buffer = vec![0; self.page_bytes];
        self.pool.layer().checkpoint_begins();
        for index in 0..self.pool.frames() {
            self.pool.clean_frame(index, &mut buffer)?;
        }
        Ok(())
    }

    /// Makes a checkpoint. The caller holds the checkpoint lock.
    fn make_alone(&self) -> Result<Lsn, StoreError> {
        self.bounds.check_log_held()?;
        let (redo_point, next_txn, active) =
            self.active.snapshot(&self.wal, |end, actives| self.bounds.check_checkpoint(end.0, actives))?;
        // Makes every frame's changes before the redo point durable in the log: one flush instead of one for
        // each frame.
        self.wal.flush(Lsn(redo_point.0 - 1))?;
        self.evict_dirty()?;
        self.pool.layer().checkpoint()?;
        let (disk, session) = self.wal.binding();
        let checkpoint = CheckpointRecord { redo_point, next_txn, disk, session, active };
        let mut bytes = Vec::new();
        record::start(&mut bytes);
        checkpoint.encode(&mut bytes);
        let draft = Draft {
            kind: RecordKind::Checkpoint,
            txn: TxnId::SYSTEM,
            chain: None,
            redo_point: None,
            room: &Room::kept(),
        };
        let lsn = self
            .wal
            .tail()
            .append(&mut bytes, draft)
            .expect("an append without a redo point is never refused");
        self.wal.flush(lsn)?;
        debug_assert!(checkpoint.is_possible(lsn), "{checkpoint:?} at {lsn:?}");
        self.wal.set_checkpoint(lsn, checkpoint.oldest())?;
        self.made.fetch_add(1, Relaxed);
        Ok(lsn)
    }

    /// Makes a checkpoint, unless another one has made room for `bytes` meanwhile.
    pub(crate) fn make_for(&self, bytes: u64) -> Result<(), StoreError> {
        let _lock = self.turn.lock();
        match self.wal.ledger().used() + bytes <= self.wal.ledger().shares().clients_max()
            && self.bounds.log_held() < self.wal.ledger().used() / 2
        {
            true => Ok(()),
            false => self.make_alone().map(drop),
        }
    }

    /// Makes a checkpoint in the background, unless one was requested already.
    pub(crate) fn request(self: &Arc<Self>) {
        if !self.wanted.swap(true, Relaxed) {
            let checkpointer = self.clone();
            entresol_runtime::spawn("checkpoint for log space", move || {
                // Errors of the log and the layer are permanent: the next client gets them.
                let _ = checkpointer.make_unless_closed();
                checkpointer.wanted.store(false, Relaxed);
            });
        }
    }

    /// Starts a checkpoint in each `interval`. They end with the store.
    pub(crate) fn start_periodic(self: &Arc<Self>, interval: Duration) {
        let checkpointer = Arc::downgrade(self);
        entresol_runtime::spawn("checkpointer", move || {
            loop {
                entresol_runtime::sleep(interval);
                let Some(checkpointer) = checkpointer.upgrade() else { return };
                // A checkpoint is refused while active transactions hold too much of the log; other errors
                // are permanent.
                if !matches!(checkpointer.make_unless_closed(), Ok(true) | Err(StoreError::LogFull { .. })) {
                    return;
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_survives_encoding_and_knows_the_oldest_lsn() {
        let txn = |id, first, last| ActiveTxn { id: TxnId(id), first: Lsn(first), last: Lsn(last) };
        let record = CheckpointRecord {
            redo_point: Lsn(500),
            next_txn: 9,
            disk: Uuid::from_random(1, 2),
            session: 3,
            active: vec![txn(3, 400, 480), txn(5, 700, 0)],
        };
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        assert_eq!(CheckpointRecord::decode(&bytes).as_ref(), Some(&record));
        assert_eq!(record.oldest(), Lsn(400));
        assert_eq!(CheckpointRecord { active: vec![], ..record }.oldest(), Lsn(500));
        assert!((0..bytes.len()).all(|cut| CheckpointRecord::decode(&bytes[..cut]).is_none()));
    }
}
