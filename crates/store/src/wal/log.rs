//! Appends records, and makes them durable in groups.
//!
//! An append copies the record into a buffer in memory and never waits, so it may be done under page latches.
//! The first task that needs durability takes the whole buffer and writes it. Tasks that arrive meanwhile
//! wait for that flush, and one of them does the next one (group commit).

use super::blocks;
use super::grow::grow;
use super::ledger::Ledger;
use super::master::Master;
use super::ring::{AREA_MIN, FIRST_LSN, LOG_START, PADDING, Ring};
use super::scan::LogScan;
use super::session::SessionMatch;
use super::tail::Tail;
use super::turns::Turns;
use crate::StoreError;
use entresol_core::Lsn;
use entresol_device::Device;
use entresol_engine::{Session, Uuid};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Minimum circular area of a new log, in pages: it must have room for their images.
const AREA_PAGES_MIN: u64 = 256;

/// The log. See the folder's header for its invariants.
pub(crate) struct Wal {
    device: Arc<dyn Device>,
    ring: Ring,
    disk: Uuid,
    session: u64,
    tail: Arc<Tail>,
    ledger: Ledger,
    turns: Turns,
    /// All bytes before this position are durable.
    durable: AtomicU64,
    written_bytes: AtomicU64,
    syncs: AtomicU64,
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
    pub session: SessionMatch,
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
        let area = log_area(&*device);
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
        blocks::erase(&*device)?;
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
        if found.session == SessionMatch::Unfinished {
            // Both blocks first: if either is lost later, the log is not older than the disk.
            blocks::write_both(master, &*device)?;
            bind(master.log, master.session)?;
        }
        grow(&*device, master, found.oldest.0, start)?;
        master.epoch += 1;
        master.previous_nonce = master.session.nonce;
        master.session = Session { number: master.session.number + 1, nonce: entresol_runtime::random() };
        master.durable = Lsn(start);
        master.begun = false;
        // Both blocks: if either is lost later, the log is not older than the disk.
        blocks::write_both(master, &*device)?;
        bind(master.log, master.session)?;
        master.begun = true;
        // Both blocks: if either is lost later, a session that has written must not look like one that has
        // not.
        blocks::write_both(master, &*device)?;
        Ok(Wal::new(device, *master, start, found.oldest, found.redo_point))
    }

    fn new(device: Arc<dyn Device>, master: Master, start: u64, oldest: Lsn, redo_point: Lsn) -> Wal {
        let tail = Arc::new(Tail::new(&master, start, redo_point));
        Wal {
            ring: master.ring(),
            disk: master.disk,
            session: master.session.number,
            ledger: Ledger::new(tail.clone(), master.area, master.sector.into(), oldest),
            tail,
            turns: Turns::new(master),
            durable: AtomicU64::new(start),
            written_bytes: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            device,
        }
    }

    /// The UUID of the log's disk, and the number of the session.
    pub(crate) fn binding(&self) -> (Uuid, u64) {
        (self.disk, self.session)
    }

    /// The records in memory: appends, the end of the log, the redo point.
    pub(crate) fn tail(&self) -> &Tail {
        &self.tail
    }

    /// The bytes in use and reserved.
    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
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
        self.turns.take(
            || self.is_durable(lsn),
            |turn| {
                let result = self.write_out(&mut turn.spare);
                turn.spare.clear();
                result
            },
        )
    }

    /// Takes the tail's buffer, exchanges it with `buffer`, and makes it durable.
    fn write_out(&self, buffer: &mut Vec<u8>) -> Result<(), StoreError> {
        let (start, parts) = self.tail.take(buffer, |end| self.ledger.check_overwrite(end))?;
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
        self.turns.take(
            || false,
            |turn| {
                turn.master.checkpoint = checkpoint;
                turn.master.durable = Lsn(self.durable.load(Acquire));
                blocks::write_both(&mut turn.master, &*self.device)
            },
        )?;
        self.ledger.free_before(oldest);
        Ok(())
    }

    /// Offsets and lengths of the two pieces of the device that the next records may overwrite. `None`: a
    /// task appends right now.
    pub(crate) fn free(&self) -> Option<[(u64, u64); 2]> {
        let (start, length) = self.ledger.free()?;
        Some(self.ring.pieces(start, length))
    }

    /// Bytes written, and number of syncs.
    pub(crate) fn counters(&self) -> (u64, u64) {
        (self.written_bytes.load(Relaxed), self.syncs.load(Relaxed))
    }
}

/// Bytes of the circular area of a log that uses all of a device.
pub(crate) fn log_area(device: &dyn Device) -> u64 {
    let geometry = device.geometry();
    let sector = u64::from(Master::sector_for(geometry));
    geometry.capacity_bytes.saturating_sub(LOG_START) / sector * sector
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
