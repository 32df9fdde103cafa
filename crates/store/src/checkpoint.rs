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
//! its first record (8), its newest record before the redo point (8). If the highest bit of their number is
//! set, what is said of the log that is kept follows ([`KeptCheckpoints`]): number of the checkpoint (8), LSN
//! of the record of the checkpoint before (8), LSN of the record of the horizon (8; 0: none; all ones: this
//! one).

use crate::bytes::{Reader, put_u32, put_u64};
use crate::pool::Pool;
use crate::undo::{ActiveTable, ActiveTxn, LogBounds};
use crate::wal::{Draft, FIRST_LSN, RecordKind, Room, Wal, record};
use crate::{FlashLoss, StoreError, TxnId};
use entresol_core::{HorizonAt, KeptCheckpoints, KeptLog, LogBound, Lsn};
use entresol_engine::Uuid;
use entresol_runtime::sync::{Mutex, Rank};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
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
    pub kept: Option<KeptLog<Lsn>>,
}

/// In the number of active transactions: what is said of the log that is kept follows.
const KEPT: u32 = 1 << 31;
/// The horizon is the record itself.
const ITSELF: u64 = u64::MAX;

impl CheckpointRecord {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_u64(out, self.redo_point.0);
        put_u64(out, self.next_txn);
        out.extend_from_slice(&self.disk.0);
        put_u64(out, self.session);
        put_u32(out, self.active.len() as u32 | if self.kept.is_some() { KEPT } else { 0 });
        for txn in &self.active {
            put_u64(out, txn.id.0);
            put_u64(out, txn.first.0);
            put_u64(out, txn.last.0);
        }
        if let Some(KeptLog { number, previous, horizon }) = self.kept {
            let horizon = match horizon {
                HorizonAt::Nowhere => 0,
                HorizonAt::Itself => ITSELF,
                HorizonAt::Record(lsn) => lsn.0,
            };
            [number, previous.map_or(0, |lsn| lsn.0), horizon].iter().for_each(|word| put_u64(out, *word));
        }
    }

    pub(crate) fn decode(payload: &[u8]) -> Option<CheckpointRecord> {
        let mut reader = Reader(payload);
        let (redo_point, next_txn) = (Lsn(reader.u64()?), reader.u64()?);
        let disk = Uuid(reader.take(16)?.try_into().ok()?);
        let (session, count) = (reader.u64()?, reader.u32()?);
        let mut active = Vec::new();
        for _ in 0..count & !KEPT {
            let (id, first, last) = (TxnId(reader.u64()?), Lsn(reader.u64()?), Lsn(reader.u64()?));
            active.push(ActiveTxn { id, first, last });
        }
        let mut kept = None;
        if count & KEPT != 0 {
            let number = reader.u64()?;
            let previous = Some(Lsn(reader.u64()?)).filter(|lsn| lsn.0 > 0);
            let horizon = match reader.u64()? {
                0 => HorizonAt::Nowhere,
                ITSELF => HorizonAt::Itself,
                lsn => HorizonAt::Record(Lsn(lsn)),
            };
            kept = Some(KeptLog { number, previous, horizon });
        }
        Some(CheckpointRecord { redo_point, next_txn, disk, session, active, kept })
    }

    /// Whether a record at `at` can have this content: it must refer only to older positions. A transaction
    /// that was about to log its first change has no record yet; then its `first` may be the position of the
    /// checkpoint record itself.
    pub(crate) fn is_possible(&self, at: Lsn) -> bool {
        (FIRST_LSN..=at.0).contains(&self.redo_point.0)
            && self.redo_point.0.is_multiple_of(8)
            && self.active.iter().all(|txn| txn.last < at && txn.first <= at && txn.id != TxnId::SYSTEM)
            && self.kept.is_none_or(|kept| {
                kept.previous < Some(at) && !matches!(kept.horizon, HorizonAt::Record(lsn) if lsn >= at)
            })
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

/// How often checkpoints are made before the log is said not to replace the flash.
const ROUNDS: usize = 8;

/// Makes checkpoints.
pub(crate) struct Checkpointer {
    wal: Arc<Wal>,
    pool: Arc<Pool>,
    active: Arc<ActiveTable>,
    bounds: Arc<LogBounds>,
    page_bytes: usize,
    /// Checkpoints are made one at a time.
    turn: Mutex<KeptCheckpoints<Lsn>>,
    /// Of the log that is kept for the loss of the flash.
    bound: LogBound,
    /// The redo point of the newest checkpoint, and that of the horizon that its record names (0: none).
    newest: AtomicU64,
    promised: AtomicU64,
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
        flash_loss: FlashLoss,
        horizon: KeptCheckpoints<Lsn>,
    ) -> Checkpointer {
        let newest = wal.tail().redo_point().0;
        Checkpointer {
            wal,
            pool,
            active,
            bounds,
            page_bytes,
            newest: AtomicU64::new(newest),
            promised: AtomicU64::new(horizon.promised().map_or(0, |kept| kept.redo_point.0)),
            bound: LogBound(flash_loss.log_bytes()),
            turn: Mutex::new(Rank::Checkpoint, horizon),
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
        self.make_alone(&mut self.turn.lock(), false)
    }

    /// Makes checkpoints until the disk durably has every page that was handed down before, and the log tells
    /// so, if the flash may be lost. For changes that are not in the log, and before the first promise.
    pub(crate) fn settle(&self) -> Result<(), StoreError> {
        let mut horizon = self.turn.lock();
        if !horizon.is_kept() {
            return Ok(());
        }
        let target = horizon.number() + 1;
        for _ in 0..ROUNDS {
            self.make_alone(&mut horizon, true)?;
            if horizon.promised().is_some_and(|kept| kept.number >= target) {
                return Ok(());
            }
        }
        Err(StoreError::Config(
            "the log does not replace the flash, as flash_loss asks: the layer does not tell how old its dirty pages are; open it \
             with TierOptions::keeps_bases"
                .to_owned(),
        ))
    }

    /// Where a restart without the flash would begin, as the newest checkpoint's record says.
    pub(crate) fn horizon(&self) -> Option<Lsn> {
        Some(Lsn(self.promised.load(Acquire))).filter(|lsn| lsn.0 > 0)
    }

    /// So much was logged since the newest checkpoint that the next one is due, for the log that is kept for
    /// the loss of the flash.
    pub(crate) fn is_due(&self) -> bool {
        self.bound.0 > 0 && self.since_newest() >= self.bound.due()
    }

    /// So much was logged since that clients wait for the next one.
    pub(crate) fn is_overdue(&self) -> bool {
        self.bound.0 > 0 && self.since_newest() >= self.bound.overdue()
    }

    fn since_newest(&self) -> u64 {
        self.wal.tail().end().0.saturating_sub(self.newest.load(Acquire))
    }

    /// Makes a checkpoint that is overdue, unless another task has made it meanwhile.
    pub(crate) fn catch_up(&self) -> Result<(), StoreError> {
        let mut horizon = self.turn.lock();
        match self.is_overdue() && !self.closed.load(Relaxed) {
            true => self.make_alone(&mut horizon, false).map(drop),
            false => Ok(()),
        }
    }

    /// As [`Checkpointer::make`] for background tasks: does nothing and returns false when the store has
    /// been closed. So nothing is written after [`Checkpointer::close`] has returned.
    pub(crate) fn make_unless_closed(&self) -> Result<bool, StoreError> {
        let mut horizon = self.turn.lock();
        if self.closed.load(Relaxed) {
            return Ok(false);
        }
        self.make_alone(&mut horizon, false).map(|_| true)
    }

    /// Makes the last checkpoint and closes the layer. The layer is closed even if the checkpoint is refused
    /// because active transactions hold the log. Then the next restart redoes from an older checkpoint and
    /// rolls them back.
    pub(crate) fn close(&self) -> Result<(), StoreError> {
        let mut horizon = self.turn.lock();
        self.closed.store(true, Relaxed);
        let checkpoint = self.make_alone(&mut horizon, false);
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

    /// Makes a checkpoint. The caller holds the checkpoint lock. `all`: so that as little of the log is kept
    /// as possible.
    fn make_alone(&self, horizon: &mut KeptCheckpoints<Lsn>, all: bool) -> Result<Lsn, StoreError> {
        self.bounds.check_log_held()?;
        let (redo_point, next_txn, active) =
            self.active.snapshot(&self.wal, |end, actives| self.bounds.check_checkpoint(end.0, actives))?;
        // Makes every frame's changes before the redo point durable in the log: one flush instead of one for
        // each frame.
        self.wal.flush(Lsn(redo_point.0 - 1))?;
        self.evict_dirty()?;
        self.pool.layer().checkpoint()?;
        let from = if self.pool.layer().is_flash_lost() {
            // Whatever the options say: until the label says that the flash is not needed, a restart is one
            // without it.
            HorizonAt::Itself
        } else if horizon.is_kept() {
            let wanted = horizon.wanted(redo_point, all);
            horizon.of(self.pool.layer().bring_to_disk_before(wanted)?)
        } else {
            HorizonAt::Nowhere
        };
        let (disk, session) = self.wal.binding();
        let kept = horizon.next(from);
        let checkpoint = CheckpointRecord { redo_point, next_txn, disk, session, active, kept };
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
        let oldest =
            horizon.kept_from(from).map_or(checkpoint.oldest(), |kept| kept.min(checkpoint.oldest()));
        self.wal.set_checkpoint(lsn, oldest)?;
        horizon.complete(kept, lsn, redo_point);
        self.newest.store(redo_point.0, Release);
        self.promised.store(horizon.promised().map_or(0, |kept| kept.redo_point.0), Release);
        self.pool.layer().checkpoint_complete(horizon.number())?;
        if horizon.is_kept() {
            self.pool.layer().clean_behind(horizon.wanted_soon());
        }
        self.made.fetch_add(1, Relaxed);
        Ok(lsn)
    }

    /// Makes a checkpoint, unless another one has made room for `bytes` meanwhile.
    pub(crate) fn make_for(&self, bytes: u64) -> Result<(), StoreError> {
        let mut horizon = self.turn.lock();
        match self.wal.ledger().used() + bytes <= self.wal.ledger().shares().clients_max()
            && self.bounds.log_held() < self.wal.ledger().used() / 2
        {
            true => Ok(()),
            false => self.make_alone(&mut horizon, true).map(drop),
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
            kept: None,
        };
        let horizons = [HorizonAt::Nowhere, HorizonAt::Itself, HorizonAt::Record(Lsn(304))];
        let kept = horizons.map(|horizon| KeptLog { number: 7, previous: Some(Lsn(480)), horizon });
        let records = kept.map(|kept| CheckpointRecord { kept: Some(kept), ..record.clone() });
        for record in records.into_iter().chain([record.clone()]) {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            assert_eq!(CheckpointRecord::decode(&bytes).as_ref(), Some(&record));
            assert!((0..bytes.len()).all(|cut| CheckpointRecord::decode(&bytes[..cut]).is_none()));
        }
        assert_eq!(record.oldest(), Lsn(400));
        assert_eq!(CheckpointRecord { active: vec![], ..record }.oldest(), Lsn(500));
    }
}
