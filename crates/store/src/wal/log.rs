//! Appends records, and makes them durable in groups.
//!
//! An append copies the record into a buffer in memory and never waits, so it may be done under page latches.
//! The first task that needs durability takes the whole buffer and writes it. Tasks that arrive meanwhile
//! wait for that flush, and one of them does the next one (group commit).
//!
//! A buffer of more than [`PART_BYTES`] has *parts*. Each part begins on a sector boundary, and is made
//! durable before the next one is written. So each record can claim that a near LSN was durable before (see
//! [`super::hole`]).

use super::grow::grow;
use super::master::Master;
use super::record::{RECORD_HEADER_BYTES, payload_sum};
use super::ring::Ring;
use super::scan::LogScan;
use super::session::Found;
use super::{FIRST_LSN, LOG_START, PADDING, RecordHeader, RecordKind};
use crate::log_room::{Ledger, Room};
use crate::{StoreError, TxnId};
use entresol_core::Lsn;
use entresol_device::{Device, DeviceError};
use entresol_engine::{Session, Uuid};
use entresol_runtime::is_simulated;
use entresol_runtime::sync::{Condvar, Hold, Mutex, Rank, TinyMutex};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Minimum size of the circular area.
pub(super) const AREA_MIN: u64 = 1 << 20;
/// Minimum circular area of a new log, in pages: it must have room for their images.
const AREA_PAGES_MIN: u64 = 256;
/// A part of the buffer that has at least this many bytes gets no further record.
pub(super) const PART_BYTES: u64 = 512 << 10;

/// The log. See the folder's header for its invariants.
pub(crate) struct Wal {
    device: Arc<dyn Device>,
    sector: u64,
    ring: Ring,
    id: u32,
    /// [`PART_BYTES`], or less in tests.
    pub(super) part_bytes: u64,
    disk: Uuid,
    session: u64,
    tail: TinyMutex<Tail>,
    /// All bytes before this position are durable.
    durable: AtomicU64,
    /// A copy of the tail's value, for reads without the lock.
    redo_point: AtomicU64,
    oldest: AtomicU64,
    /// Room reserved by operations in progress.
    pub(crate) ledger: Ledger,
    flusher: Mutex<Flusher>,
    flushed: Condvar,
    written_bytes: AtomicU64,
    syncs: AtomicU64,
}

/// The part of the log that is not yet on the device.
struct Tail {
    buffer: Vec<u8>,
    /// LSN of the buffer's first byte; a sector boundary.
    start: u64,
    /// LSN of the first byte of the buffer's last part. All earlier bytes are durable before that part is
    /// written.
    part: u64,
    /// Offsets in the buffer at which its parts begin, without the first part.
    parts: Vec<usize>,
    epoch: u32,
    redo_point: Lsn,
}

impl Tail {
    fn end(&self) -> u64 {
        self.start + self.buffer.len() as u64
    }

    /// Pads the buffer and begins a new part.
    fn begin_part(&mut self, sector: u64) {
        let padded = self.buffer.len().next_multiple_of(sector as usize);
        self.buffer.resize(padded, PADDING);
        self.parts.push(padded);
        self.part = self.end();
    }
}

struct Flusher {
    /// `None`: a task has the turn.
    turn: Option<Turn>,
    /// The first failure; it is permanent.
    failed: Option<StoreError>,
}

/// Only its holder writes to the device and syncs it. Otherwise a failed sync could lose writes of another
/// task whose own sync then succeeds.
struct Turn {
    /// Empty; is exchanged with the tail's buffer.
    spare: Vec<u8>,
    master: Master,
}

/// If the holder of the turn panics, the turn is lost permanently: the log has failed for all tasks that wait
/// for it. (In a simulation a panic ends everything.)
struct PanicGuard<'a>(&'a Wal);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !is_simulated() {
            let reason = "a task panicked while it wrote the log".to_owned();
            let failed = DeviceError::Dead { device: "log".to_owned(), reason };
            self.0.flusher.lock().failed = Some(StoreError::Log(failed));
            self.0.flushed.notify_all();
        }
    }
}

/// The point at which a restart continues a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resume {
    /// End of the last record.
    pub end: Lsn,
    /// Oldest needed LSN.
    pub oldest: Lsn,
    /// Start of the next restart's redo if no checkpoint is made before. It must not be `oldest`, which may
    /// be older: a page with an image between the two would be changed without a new image, and a torn write
    /// of it could not be repaired. It must not be the end: restarts that are cut off repeatedly would log an
    /// image of the same page each time.
    pub redo_point: Lsn,
    /// The progress of the previous open.
    pub session: Found,
}

/// A record to append; the payload is after the space for the header in `bytes`.
pub(crate) struct Draft<'a> {
    pub kind: RecordKind,
    pub txn: TxnId,
    /// The transaction's newest LSN. It becomes the record's `previous`, and is set to the record's LSN.
    pub chain: Option<&'a AtomicU64>,
    /// The redo point under which the need for full images was decided.
    pub redo_point: Option<Lsn>,
    /// The room that was reserved for the record; no record is appended without room ([`crate::log_room`]).
    pub room: &'a Room<'a>,
}

impl Wal {
    /// Creates a log on the whole device, for `disk`. `bind` makes the disk's label name a log and a session,
    /// durably.
    pub(crate) fn create(
        device: Arc<dyn Device>,
        page_bytes: u32,
        disk: Uuid,
        bind: impl Fn(Uuid, Session) -> Result<(), StoreError>,
    ) -> Result<Wal, StoreError> {
        let geometry = device.geometry();
        let sector = u64::from(Master::sector_for(geometry));
        let area = geometry.capacity_bytes.saturating_sub(LOG_START) / sector * sector;
        let least = AREA_MIN.max(AREA_PAGES_MIN * u64::from(page_bytes));
        if area < least || !sector.is_power_of_two() || sector > FIRST_LSN {
            return Err(StoreError::Config(format!(
                "the log device has {} bytes in sectors of {sector}; needed for pages of {page_bytes} bytes are at least {} in sectors of at most {FIRST_LSN}",
                geometry.capacity_bytes,
                least + LOG_START
            )));
        }
        let random = entresol_runtime::random;
        let master = Master {
            sequence: 0,
            checkpoint: Lsn(FIRST_LSN),
            area,
            epoch: 1,
            id: random() as u32,
            page_bytes,
            sector: sector as u32,
            shift: 0,
            durable: Lsn(FIRST_LSN),
            session: Session { number: 1, nonce: random() },
            previous_nonce: 0,
            begun: true,
            log: Uuid::from_random(random(), random()),
            disk,
        };
        Master::erase(&*device)?;
        bind(master.log, master.session)?;
        Ok(Wal::new(device, master, FIRST_LSN, Lsn(FIRST_LSN), Lsn(FIRST_LSN)))
    }

    /// Opens a log in a new epoch and a new session (see [`super::session`] for the order of writes), and
    /// moves it into a larger area if the device has one. The rest of the sector after its end was cleared
    /// ([`clear_behind`]). `master` becomes the new one.
    pub(crate) fn resume(
        device: Arc<dyn Device>,
        master: &mut Master,
        found: Resume,
        bind: impl Fn(Uuid, Session) -> Result<(), StoreError>,
    ) -> Result<Wal, StoreError> {
        let start = found.end.0.next_multiple_of(master.sector.into());
        if found.session == Found::Unfinished {
            // Both blocks first: if either is lost later, the log is not older than the disk.
            master.write_both(&*device)?;
            bind(master.log, master.session)?;
        }
        grow(&*device, master, found.oldest.0, start)?;
        master.epoch += 1;
        master.previous_nonce = master.session.nonce;
        master.session = Session { number: master.session.number + 1, nonce: entresol_runtime::random() };
        master.durable = Lsn(start);
        master.begun = false;
        // Both blocks: if either is lost later, the log is not older than the disk.
        master.write_both(&*device)?;
        bind(master.log, master.session)?;
        master.begun = true;
        // Both blocks: if either is lost later, a session that has written must not look like one that has
        // not.
        master.write_both(&*device)?;
        Ok(Wal::new(device, *master, start, found.oldest, found.redo_point))
    }

    fn new(device: Arc<dyn Device>, master: Master, start: u64, oldest: Lsn, redo_point: Lsn) -> Wal {
        let tail = Tail {
            buffer: Vec::new(),
            start,
            part: start,
            parts: Vec::new(),
            epoch: master.epoch,
            redo_point,
        };
        Wal {
            sector: master.sector.into(),
            ring: master.ring(),
            id: master.id,
            part_bytes: PART_BYTES,
            disk: master.disk,
            session: master.session.number,
            durable: AtomicU64::new(start),
            redo_point: AtomicU64::new(redo_point.0),
            oldest: AtomicU64::new(oldest.0),
            tail: TinyMutex::new(Rank::LogTail, tail),
            ledger: Ledger::default(),
            flusher: Mutex::new(
                Rank::LogFlusher,
                Flusher { turn: Some(Turn { spare: Vec::new(), master }), failed: None },
            ),
            flushed: Condvar::new(),
            written_bytes: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            device,
        }
    }

    /// The UUID of the log's disk, and the number of the session.
    pub(crate) fn binding(&self) -> (Uuid, u64) {
        (self.disk, self.session)
    }

    /// Appends a record and returns its LSN; `None` if the redo point has moved since the caller read it.
    pub(crate) fn append(&self, record: &mut Vec<u8>, draft: Draft<'_>) -> Option<Lsn> {
        let length = record.len();
        draft.room.assert_holds(length as u64);
        record.resize(length.next_multiple_of(8), 0);
        let sum = payload_sum(self.id, &record[RECORD_HEADER_BYTES..length]);
        let mut tail = self.tail.lock();
        if draft.redo_point.is_some_and(|seen| seen != tail.redo_point) {
            drop(tail);
            record.truncate(length);
            return None;
        }
        if tail.end() - tail.part >= self.part_bytes {
            tail.begin_part(self.sector);
        }
        let lsn = Lsn(tail.end());
        let claim = Some(Lsn(tail.part));
        let previous = Lsn(draft.chain.map_or(0, |chain| chain.swap(lsn.0, Relaxed)));
        let header = RecordHeader {
            length,
            lsn,
            txn: draft.txn,
            previous,
            epoch: tail.epoch,
            kind: draft.kind,
            claim,
        };
        header.seal(record, sum);
        tail.buffer.extend_from_slice(record);
        Some(lsn)
    }

    /// A lower bound of the next record's LSN.
    pub(crate) fn end(&self) -> Lsn {
        Lsn(self.tail.lock().end())
    }

    /// Makes the end of the log the redo point, and runs `snapshot` while no record can be appended. If
    /// `snapshot` fails, the redo point stays.
    pub(crate) fn set_redo_point<T, E>(
        &self,
        snapshot: impl FnOnce(Lsn) -> Result<T, E>,
    ) -> Result<(Lsn, T), E> {
        let mut tail = self.tail.lock();
        let point = Lsn(tail.end());
        let taken = snapshot(point)?;
        tail.redo_point = point;
        self.redo_point.store(point.0, Release);
        Ok((point, taken))
    }

    /// A page with an older LSN needs a full image at its next change.
    pub(crate) fn redo_point(&self) -> Lsn {
        Lsn(self.redo_point.load(Acquire))
    }

    /// Whether the record at `lsn` is durable.
    pub(crate) fn is_durable(&self, lsn: Lsn) -> bool {
        self.durable.load(Acquire) > lsn.0
    }

    /// Makes the record at `lsn`, and all before it, durable.
    pub(crate) fn flush(&self, lsn: Lsn) -> Result<(), StoreError> {
        if self.is_durable(lsn) {
            return Ok(());
        }
        self.in_turn(
            || self.is_durable(lsn),
            |turn| {
                let result = self.write_out(&mut turn.spare);
                turn.spare.clear();
                result
            },
        )
    }

    /// Waits for the turn and does `work`, unless `is_done` becomes true before.
    fn in_turn(
        &self,
        is_done: impl Fn() -> bool,
        work: impl FnOnce(&mut Turn) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        Hold::may_wait(Rank::LogTurn);
        let mut flusher = self.flusher.lock();
        let mut turn = loop {
            if is_done() {
                return Ok(());
            }
            if let Some(failed) = &flusher.failed {
                return Err(failed.clone());
            }
            match flusher.turn.take() {
                Some(turn) => break turn,
                None => self.flushed.wait(&mut flusher),
            }
        };
        drop(flusher);
        let _held = Hold::taken(Rank::LogTurn);
        let guard = PanicGuard(self);
        let result = work(&mut turn);
        drop(guard);
        let mut flusher = self.flusher.lock();
        flusher.turn = Some(turn);
        flusher.failed = result.as_ref().err().cloned();
        self.flushed.notify_all();
        result
    }

    /// Takes the tail's buffer, exchanges it with `buffer`, and makes it durable.
    fn write_out(&self, buffer: &mut Vec<u8>) -> Result<(), StoreError> {
        let (start, parts) = {
            let mut tail = self.tail.lock();
            let padded = tail.buffer.len().next_multiple_of(self.sector as usize);
            let used = tail.start + padded as u64 - self.oldest.load(Acquire);
            if used > self.area() {
                return Err(self.full(used, 0));
            }
            tail.buffer.resize(padded, PADDING);
            std::mem::swap(buffer, &mut tail.buffer);
            let start = tail.start;
            tail.start += padded as u64;
            tail.part = tail.start;
            (start, std::mem::take(&mut tail.parts))
        };
        let mut from = 0;
        for to in parts.into_iter().chain([buffer.len()]) {
            self.ring.write(&*self.device, start + from as u64, &buffer[from..to])?;
            self.device.sync()?;
            self.syncs.fetch_add(1, Relaxed);
            self.written_bytes.fetch_add((to - from) as u64, Relaxed);
            self.durable.store(start + to as u64, Release);
            from = to;
        }
        Ok(())
    }

    /// Writes both blocks of the master record for a durable checkpoint record, then frees the log before
    /// `oldest`.
    pub(crate) fn set_checkpoint(&self, checkpoint: Lsn, oldest: Lsn) -> Result<(), StoreError> {
        self.in_turn(
            || false,
            |turn| {
                turn.master.checkpoint = checkpoint;
                turn.master.durable = Lsn(self.durable.load(Acquire));
                turn.master.write_both(&*self.device)
            },
        )?;
        self.oldest.store(oldest.0, Release);
        Ok(())
    }

    /// Bytes of the circular area.
    pub(crate) fn area(&self) -> u64 {
        self.ring.area
    }

    /// Bytes of a sector: each flush is padded to one.
    pub(crate) fn sector(&self) -> u64 {
        self.sector
    }

    /// Bytes that cannot be overwritten yet, including the padding of the next flush.
    pub(crate) fn used(&self) -> u64 {
        // Read before the end: a checkpoint in between may free the log up to a later end.
        let oldest = self.oldest.load(Acquire);
        self.end().0.next_multiple_of(self.sector) - oldest
    }

    /// As [`Wal::used`], if the log ends at `end`; 0 if a checkpoint has freed everything before `end` since.
    pub(crate) fn used_to(&self, end: u64) -> u64 {
        end.next_multiple_of(self.sector).saturating_sub(self.oldest.load(Acquire))
    }

    /// The range from the oldest needed record to the end.
    pub(crate) fn needed(&self) -> std::ops::Range<Lsn> {
        Lsn(self.oldest.load(Acquire))..self.end()
    }

    /// Bytes written, and number of syncs.
    pub(crate) fn counters(&self) -> (u64, u64) {
        (self.written_bytes.load(Relaxed), self.syncs.load(Relaxed))
    }

    /// The error for a log of which `used` bytes are needed, and `undo` more for rollbacks.
    pub(crate) fn full(&self, used: u64, undo: u64) -> StoreError {
        StoreError::LogFull { used, undo, capacity: self.ring.area, oldest: Lsn(self.oldest.load(Acquire)) }
    }
}

/// Fills the rest of the sector of `end` with padding, durably. A torn flush may have left part of a record
/// there. An append to this sector instead would be wrong: if a crash kept this sector's old content and the
/// next sector's new one, the records in between would be lost silently.
///
/// This is the only write of a sector with records, and is done before redo. If a sector contains more than
/// records and padding, it is of a torn flush: none of its records was durable when the program failed. So if
/// power fails during this write and the sector becomes unreadable, these records are lost like others of
/// that flush. But a page evicted by redo must not be newer than the log, so redo must wait for this write.
pub(crate) fn clear_behind(
    device: &dyn Device,
    master: &Master,
    scan: &mut LogScan<'_>,
    end: Lsn,
) -> Result<(), StoreError> {
    let sector = u64::from(master.sector);
    let used = end.0 % sector;
    if used == 0 {
        return Ok(());
    }
    let start = end.0 - used;
    let mut bytes = scan.sector_at(start)?.to_vec();
    if scan.is_unreadable() {
        // The kept part must be readable; the cleared part need not be.
        let smallest = u64::from(device.geometry().sector_bytes).clamp(1, sector);
        let (kept, cleared) = bytes.split_at_mut(used.next_multiple_of(smallest) as usize);
        if let Some(error) = master.ring().read(device, start, kept)? {
            return Err(error.into());
        }
        master.ring().read(device, start + kept.len() as u64, cleared)?;
    }
    let rest = &mut bytes[used as usize..];
    if rest.iter().any(|byte| *byte != PADDING) {
        rest.fill(PADDING);
        master.ring().write(device, start, &bytes)?;
        device.sync()?;
    }
    Ok(())
}
