//! A device in memory that loses, tears, misdirects and damages data as a real one may, according to a plan.
//!
//! It keeps two images: the *durable* one, and above it the sectors written since the last sync. Reads see
//! both. After a crash, [`FaultyDevice::after_crash`] returns the durable image with any subset of the
//! unsynced sectors, so the same crash can be examined with many survivals.
//!
//! Between the two is a third layer: writes whose sync failed as on ext4. They can be read and never become
//! durable.
//!
//! Invariant: without a fault, the device reads as if every write had been carried out. Every write before a
//! successful sync is in every image after a crash (unless [`Fault::SyncLies`]).

mod moment;
mod pending;
mod plan;

pub use moment::Moment;
pub use pending::Survival;
pub use plan::{Fault, FaultPlan, Injection, Outage};

use crate::check::{self, SharedCounters};
use crate::{Counters, Device, DeviceError, Geometry, Io, MemoryDevice};
use entresol_runtime::sync::{Rank, TinyMutex};
use entresol_runtime::{is_simulated, sim};
use pending::{Pending, SECTOR_BYTES, Sectors};
use plan::Operation;
use std::sync::Arc;

#[derive(Debug)]
struct Content {
    pending: Pending,
    /// Readable, and never durable ([`Fault::SyncErrorKeepingPages`]).
    undurable: Pending,
    dead: Option<String>,
}

/// A device that fails according to its [`FaultPlan`]. Only single sectors are written atomically: of 512
/// bytes unless set otherwise.
#[derive(Debug)]
pub struct FaultyDevice {
    name: String,
    plan: Arc<FaultPlan>,
    durable: MemoryDevice,
    state: TinyMutex<Content>,
    counters: SharedCounters,
    sectors: Sectors,
    capacity_max: u64,
}

/// The end of a request that was accepted.
enum Effect {
    Done,
    Fail(DeviceError),
    Crash,
}

impl FaultyDevice {
    /// A device whose durable content is that of `durable`.
    pub fn new(name: &str, durable: MemoryDevice, plan: Arc<FaultPlan>) -> Self {
        let (sector, physical) = durable.sectors();
        let sectors = Sectors { sector, physical };
        Self::with(name, durable, Pending::default(), Pending::default(), sectors, plan)
    }

    fn with(
        name: &str,
        durable: MemoryDevice,
        pending: Pending,
        undurable: Pending,
        sectors: Sectors,
        plan: Arc<FaultPlan>,
    ) -> Self {
        let state = TinyMutex::new(Rank::FaultyDevice, Content { pending, undurable, dead: None });
        let counters = SharedCounters::default();
        Self { name: name.to_owned(), plan, durable, state, counters, sectors, capacity_max: u64::MAX }
    }

    /// The device with sectors of `sector` bytes over a medium that writes `physical` bytes at once: 512 and
    /// 512, 4096 and 4096, or 512 and 4096 ("512e").
    #[must_use]
    pub fn with_sectors(self, sector: u32, physical: u32) -> Self {
        Self { sectors: Sectors { sector, physical }, ..self }
    }

    /// The device cut to at most `bytes`.
    #[must_use]
    pub fn with_capacity(self, bytes: u64) -> Self {
        Self { capacity_max: bytes, ..self }
    }

    /// The name that [`Injection::device`] refers to.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of unsynced writes, and of their sectors: the useful lengths of [`Survival::Writes`] and
    /// [`Survival::Sectors`].
    pub fn unsynced(&self) -> (usize, usize) {
        self.state.lock().pending.len(self.sectors.sector as usize)
    }

    /// The image after a power failure now. This device is unchanged.
    pub fn after_crash(&self, survival: &Survival) -> MemoryDevice {
        moment::survivor(&self.durable, &self.state.lock().pending, self.sectors, survival)
    }

    /// As [`Moment::after_kill`], now. This device is unchanged.
    pub fn after_kill(&self, plan: Arc<FaultPlan>) -> Self {
        self.moment().after_kill(plan)
    }

    /// The present content of this device, durable and not: the start of every power failure possible at this
    /// moment.
    pub fn moment(&self) -> Moment {
        let state = self.state.lock();
        let durable = self.durable.fork(&self.name);
        Moment::new(durable, state.pending.clone(), state.undurable.clone(), self.sectors)
    }

    /// Flips one bit of the durable content permanently. `bit` counts from the start of the device.
    pub fn flip_bit(&self, bit: u64) {
        let sector = bit / 8 / SECTOR_BYTES as u64 * SECTOR_BYTES as u64;
        let mut data = [0; SECTOR_BYTES];
        let mut state = self.state.lock();
        self.durable.read_anyway(sector, &mut data);
        state.undurable.overlay(sector, &mut data);
        state.pending.overlay(sector, &mut data);
        data[(bit / 8 - sector) as usize] ^= 1 << (bit % 8);
        state.pending.discard(sector, SECTOR_BYTES as u64);
        state.undurable.discard(sector, SECTOR_BYTES as u64);
        write_within(&self.durable, sector, &data);
    }

    fn error(&self, operation: &'static str, offset: u64, length: u64, reason: &str) -> DeviceError {
        DeviceError::Io { device: self.name.clone(), operation, offset, length, reason: reason.to_owned() }
    }

    fn dead(&self, reason: &str) -> DeviceError {
        DeviceError::Dead { device: self.name.clone(), reason: reason.to_owned() }
    }

    /// Refuses requests of a device that has died or has no power.
    fn check_alive(&self) -> Result<(), DeviceError> {
        if self.plan.has_crashed() {
            return Err(self.dead("power has failed"));
        }
        match &self.state.lock().dead {
            Some(reason) => Err(self.dead(reason)),
            None => Ok(()),
        }
    }

    fn die(&self) -> DeviceError {
        let reason = "it died, as the fault plan says";
        self.state.lock().dead = Some(reason.to_owned());
        self.dead(reason)
    }

    /// A wrong offset for a misdirected write of this length.
    fn elsewhere(&self, offset: u64, length: u64) -> u64 {
        let unit = u64::from(self.sectors.sector);
        let places = (self.geometry().capacity_bytes - length) / unit;
        if places == 0 {
            return offset;
        }
        // One of the other places: the right one is skipped.
        let sector = self.plan.below(places);
        let own = offset / unit;
        (if sector < own { sector } else { sector + 1 }) * unit
    }

    fn read_one(&self, offset: u64, buffer: &mut [u8]) -> Effect {
        let length = buffer.len() as u64;
        match self.plan.next(&self.name, Operation::Read) {
            Some(Fault::Crash) => return Effect::Crash,
            Some(Fault::Death) => return Effect::Fail(self.die()),
            Some(Fault::BitRot) if length > 0 => self.flip_bit(offset * 8 + self.plan.below(length * 8)),
            Some(Fault::ReadError) => {
                return Effect::Fail(self.error("read", offset, length, "input/output error (injected)"));
            }
            _ => {}
        }
        // Both under the lock: a sync in between would move sectors from the second image to the first.
        let state = self.state.lock();
        self.durable.read_anyway(offset, buffer);
        state.undurable.overlay(offset, buffer);
        state.pending.overlay(offset, buffer);
        let written = |sector: &u64| {
            let offset = sector * SECTOR_BYTES as u64;
            state.pending.covers(offset) || state.undurable.covers(offset)
        };
        match self.durable.unreadable_in(offset, length).iter().all(written) {
            true => Effect::Done,
            false => {
                Effect::Fail(self.error("read", offset, length, "input/output error (unreadable sector)"))
            }
        }
    }

    fn write_one(&self, offset: u64, data: &[u8]) -> Effect {
        let length = data.len() as u64;
        let fault = self.plan.next(&self.name, Operation::Write);
        let place = match fault {
            Some(Fault::LostWrite) => return Effect::Done,
            Some(Fault::Death) => return Effect::Fail(self.die()),
            Some(Fault::WriteError) => {
                return Effect::Fail(self.error("write", offset, length, "input/output error (injected)"));
            }
            Some(Fault::NoSpace) => {
                return Effect::Fail(DeviceError::NoSpace {
                    device: self.name.clone(),
                    operation: "write",
                    offset,
                    length,
                    reason: "no space left on device (injected)".to_owned(),
                });
            }
            Some(Fault::MisdirectedWrite) => self.elsewhere(offset, length),
            _ => offset,
        };
        self.keep(place, data);
        match fault {
            // The write was under way: it may survive in whole or in part.
            Some(Fault::Crash) => Effect::Crash,
            Some(Fault::DuplicatedWrite) => {
                let place = self.elsewhere(offset, length);
                self.keep(place, data);
                Effect::Done
            }
            _ => Effect::Done,
        }
    }

    /// A write that is not durable yet.
    fn keep(&self, offset: u64, data: &[u8]) {
        let mut state = self.state.lock();
        state.undurable.discard(offset, data.len() as u64);
        state.pending.write(offset, data);
    }

    /// Power fails.
    fn crash(&self) -> DeviceError {
        if is_simulated() && !sim::is_halted() {
            sim::halt();
        }
        self.dead("power has failed")
    }
}

fn write_within(device: &MemoryDevice, offset: u64, data: &[u8]) {
    device.write(offset, data).expect("the range was checked, and memory does not fail");
}

impl Device for FaultyDevice {
    fn geometry(&self) -> Geometry {
        Geometry {
            capacity_bytes: self.durable.geometry().capacity_bytes.min(self.capacity_max),
            sector_bytes: self.sectors.sector,
            physical_bytes: self.sectors.physical,
        }
    }

    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        check::batch(&self.name, self.geometry(), batch)?;
        self.check_alive()?;
        self.counters.count(batch);
        let mut result = Ok(());
        let mut crashes = false;
        for at in self.plan.order(batch.len()) {
            let effect = match &mut batch[at] {
                Io::Read { offset, buffer } => self.read_one(*offset, buffer),
                Io::Write { offset, data } => self.write_one(*offset, data),
            };
            match effect {
                Effect::Done => {}
                Effect::Fail(error) => result = result.and(Err(error)),
                Effect::Crash => crashes = true,
            }
        }
        if crashes { Err(self.crash()) } else { result }
    }

    fn sync(&self) -> Result<(), DeviceError> {
        self.check_alive()?;
        self.counters.count_sync();
        let failed =
            || Err(self.error("sync", 0, self.geometry().capacity_bytes, "input/output error (injected)"));
        match self.plan.next(&self.name, Operation::Sync) {
            Some(Fault::Crash) => return Err(self.crash()),
            Some(Fault::Death) => return Err(self.die()),
            Some(Fault::SyncLies) => return Ok(()),
            Some(Fault::SyncError) => return failed(),
            Some(Fault::SyncErrorLosingWrites) => {
                self.state.lock().pending.clear();
                return failed();
            }
            Some(Fault::SyncErrorKeepingPages) => {
                let mut state = self.state.lock();
                let Content { pending, undurable, .. } = &mut *state;
                undurable.absorb(pending);
                return failed();
            }
            _ => {}
        }
        self.state.lock().pending.drain(|offset, data| write_within(&self.durable, offset, data));
        Ok(())
    }

    /// Durable at once: a crash does not restore the content.
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        check::range(&self.name, self.geometry(), "discard", offset, length)?;
        self.check_alive()?;
        match self.plan.next(&self.name, Operation::Discard) {
            Some(Fault::Crash) => return Err(self.crash()),
            Some(Fault::Death) => return Err(self.die()),
            _ => {}
        }
        let mut state = self.state.lock();
        state.pending.discard(offset, length);
        state.undurable.discard(offset, length);
        self.durable.discard(offset, length)
    }

    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.check_alive()?;
        self.state.lock().undurable.clear();
        Ok(())
    }

    fn counters(&self) -> Counters {
        self.counters.snapshot()
    }
}
