//! A machine that loses power: three devices that lose unsynced data, and their content afterwards.
//!
//! Invariant: the content after a power failure depends only on the requests so far and on the seed.

use crate::watched::{Observer, Pace, Watched};
use entresol_device::{BaseImage, Device, FaultPlan, FaultyDevice, MemoryDevice, Moment, Survival};
use entresol_runtime::rng::Rng;
use entresol_store::{FreeLog, Store};
use parking_lot::Mutex;
use std::sync::Arc;

/// The content of the devices while the machine is off.
#[derive(Debug)]
pub struct Media {
    /// The pages.
    pub disk: MemoryDevice,
    /// The log.
    pub log: MemoryDevice,
    /// The cache; of size 0 without a cache.
    pub flash: MemoryDevice,
}

/// Immutable media that many machines start from.
#[derive(Clone, Debug)]
pub struct FrozenMedia {
    disk: Arc<BaseImage>,
    log: Arc<BaseImage>,
    flash: Arc<BaseImage>,
}

impl Media {
    /// Blank media of these sizes, in bytes.
    pub fn blank(disk: u64, log: u64, flash: u64) -> Self {
        let new = MemoryDevice::new;
        Self { disk: new("disk", disk), log: new("log", log), flash: new("flash", flash) }
    }

    /// Media with such sectors: bytes of a sector, and bytes that the medium writes at once.
    #[must_use]
    pub fn with_sectors(self, (sector, physical): (u32, u32)) -> Self {
        let [disk, log, flash] =
            [self.disk, self.log, self.flash].map(|device| device.with_sectors(sector, physical));
        Self { disk, log, flash }
    }

    /// Independent copies.
    pub fn fork(&self) -> Self {
        Self { disk: self.disk.fork("disk"), log: self.log.fork("log"), flash: self.flash.fork("flash") }
    }

    /// All bytes of the disk, the log device and flash.
    ///
    /// # Panics
    /// If they are too large for memory.
    pub fn bytes(&self) -> [Vec<u8>; 3] {
        [&self.disk, &self.log, &self.flash].map(|device| {
            let mut bytes = vec![0; device.geometry().capacity_bytes as usize];
            device.read(0, &mut bytes).expect("the whole device is in range, and memory does not fail");
            bytes
        })
    }

    /// Makes the media immutable, as a start of many machines.
    pub fn freeze(self) -> FrozenMedia {
        FrozenMedia { disk: self.disk.freeze(), log: self.log.freeze(), flash: self.flash.freeze() }
    }
}

impl FrozenMedia {
    /// A writable copy.
    pub fn thaw(&self) -> Media {
        let over = |name: &str, image: &Arc<BaseImage>| MemoryDevice::over(name, image.clone());
        Media {
            disk: over("disk", &self.disk),
            log: over("log", &self.log),
            flash: over("flash", &self.flash),
        }
    }
}

/// A machine with power on.
pub struct Machine {
    /// Counts operations of all devices, and makes the power fail.
    pub plan: Arc<FaultPlan>,
    /// Duration of requests; shared by the devices.
    pub pace: Arc<Pace>,
    /// Size of the cache, see [`crate::Subject::tier_options`].
    pub flash_groups: u32,
    devices: Arc<Devices>,
    slow: Option<&'static str>,
    /// The flash is lost: the store is opened without it.
    pub is_flash_lost: bool,
    /// The store's log is not kept so that the flash may be lost, even if its system survives that.
    pub needs_flash: bool,
    observer: Option<Observer>,
}

/// Requests to a slow device take this many times as long as to other devices.
const SLOWNESS: u64 = 40;

/// The devices of a machine, without their timing.
pub struct Devices {
    disk: Arc<FaultyDevice>,
    log: Arc<FaultyDevice>,
    flash: Arc<FaultyDevice>,
    /// Of the open store.
    free_log: Mutex<Option<FreeLog>>,
}

impl Machine {
    /// A machine with these media. Its power fails according to `plan`.
    pub fn new(media: Media, plan: FaultPlan, flash_groups: u32) -> Self {
        let plan = Arc::new(plan);
        let device = |name, media| Arc::new(FaultyDevice::new(name, media, plan.clone()));
        let devices = Devices {
            disk: device("disk", media.disk),
            log: device("log", media.log),
            flash: device("flash", media.flash),
            free_log: Mutex::default(),
        };
        Self::with(devices, plan, flash_groups)
    }

    fn with(devices: Devices, plan: Arc<FaultPlan>, flash_groups: u32) -> Self {
        let (devices, pace) = (Arc::new(devices), Arc::new(Pace::default()));
        Self {
            pace,
            flash_groups,
            devices,
            slow: None,
            is_flash_lost: false,
            needs_flash: false,
            observer: None,
            plan,
        }
    }

    /// The machine with a slow device of this name: "disk", "log" or "flash".
    #[must_use]
    pub fn slowed(self, slow: Option<&'static str>) -> Self {
        Self { slow, ..self }
    }

    /// The machine without its flash. `needs_flash`: the next one may not be lost.
    #[must_use]
    pub fn without_flash(self, needs_flash: bool) -> Self {
        Self { is_flash_lost: true, needs_flash, ..self }
    }

    /// This store has the devices from now on.
    pub(crate) fn opened(&self, store: &Store) {
        *self.devices.free_log.lock() = Some(store.free_log());
    }

    /// Calls `observe` at every operation, at the moment at which a crash would strike.
    pub fn observe(&mut self, observe: impl Fn(&Devices, u64) + Send + Sync + 'static) {
        let (devices, plan) = (self.devices.clone(), self.plan.clone());
        self.observer = Some(Arc::new(move |ahead| observe(&devices, plan.operations() + ahead)));
    }

    fn watched(&self, device: &Arc<FaultyDevice>) -> Arc<dyn Device> {
        let factor = if self.slow == Some(device.name()) { SLOWNESS } else { 1 };
        let (inner, pace) = (device.clone(), self.pace.clone());
        Arc::new(Watched {
            inner,
            pace,
            factor,
            held_max: std::time::Duration::ZERO,
            observer: self.observer.clone(),
        })
    }

    /// The disk with the pages.
    pub fn disk(&self) -> Arc<dyn Device> {
        self.watched(&self.devices.disk)
    }

    /// The log device.
    pub fn log(&self) -> Arc<dyn Device> {
        self.watched(&self.devices.log)
    }

    /// The flash device.
    pub fn flash(&self) -> Arc<dyn Device> {
        self.watched(&self.devices.flash)
    }

    /// The crash state of this moment; `seed` decides which unsynced sectors survive.
    pub fn after_crash(&self, seed: u64) -> Media {
        self.devices.after_crash(seed)
    }

    /// As [`Machine::after_crash`], with more harm.
    pub(crate) fn after_harm(&self, seed: u64, harm: Harm) -> Media {
        self.devices.after_harm(seed, harm)
    }

    /// The machine after its program was killed without a power failure: unsynced writes can be read and are
    /// not yet durable. The next program's faults are those of `plan`.
    #[must_use]
    pub fn after_kill(&self, plan: FaultPlan) -> Self {
        self.devices.standstill().after_kill(plan, self.flash_groups)
    }

    /// Flips one bit of the flash device permanently; bits are counted from the start of the device.
    pub fn flip_flash_bit(&self, bit: u64) {
        self.devices.flash.flip_bit(bit);
    }
}

/// Number of writes and syncs completed by disk, log and flash.
pub type Progress = [(u64, u64); 3];

/// The machine at one moment: the base of every crash state of this moment.
#[derive(Debug)]
pub struct Standstill {
    /// The disk with the pages.
    pub disk: Moment,
    /// The log device.
    pub log: Moment,
    /// The flash device.
    pub flash: Moment,
}

impl Standstill {
    /// As [`Machine::after_kill`], at this moment.
    pub fn after_kill(&self, plan: FaultPlan, flash_groups: u32) -> Machine {
        let plan = Arc::new(plan);
        let device = |moment: &Moment| Arc::new(moment.after_kill(plan.clone()));
        let [disk, log, flash] = [&self.disk, &self.log, &self.flash].map(device);
        let devices = Devices { disk, log, flash, free_log: Mutex::default() };
        Machine::with(devices, plan, flash_groups)
    }
}

impl Devices {
    /// The durable and the unsynced content of the devices now.
    pub fn standstill(&self) -> Standstill {
        Standstill { disk: self.disk.moment(), log: self.log.moment(), flash: self.flash.moment() }
    }

    /// Number of writes and syncs that each device has completed. Crash states can change only if one of
    /// these has changed.
    pub fn progress(&self) -> Progress {
        [&self.disk, &self.log, &self.flash].map(|device| {
            let counters = device.counters();
            (counters.writes, counters.syncs)
        })
    }

    /// The crash state of a power failure in the middle of a long flush of the log. It has lost either one
    /// sector of the flush's first half, or everything up to that sector. `None` if there is no such flush
    /// now.
    pub fn after_torn_flush(&self, seed: u64) -> Option<Media> {
        let sectors = self.log.unsynced().1;
        if sectors < LONG_FLUSH {
            return None;
        }
        let mut rng = Rng::new(seed);
        let hole = rng.below(sectors as u64 / 2) as usize;
        let first = if rng.below(2) == 0 { hole } else { 0 };
        let log = Survival::Sectors((0..sectors).map(|at| !(first..=hole).contains(&at)).collect());
        let mut survivors = |device: &FaultyDevice| device.after_crash(&survival(&mut rng, device));
        let (disk, flash) = (survivors(&self.disk), survivors(&self.flash));
        Some(Media { disk, log: self.log.after_crash(&log), flash })
    }

    /// The crash state of this moment; `seed` decides which unsynced sectors of which device survive.
    pub fn after_crash(&self, seed: u64) -> Media {
        self.after_harm(seed, Harm::default())
    }

    /// As [`Devices::after_crash`], with more harm, as far as it is known now what is free.
    pub(crate) fn after_harm(&self, seed: u64, harm: Harm) -> Media {
        let mut rng = Rng::new(seed);
        let torn = harm.torn_disk.then(|| Survival::Torn(rng.next_u64()));
        let disk = self.disk.after_crash(&torn.unwrap_or_else(|| survival(&mut rng, &self.disk)));
        let mut survivors = |device: &FaultyDevice| device.after_crash(&survival(&mut rng, device));
        let (log, flash) = (survivors(&self.log), survivors(&self.flash));
        let free = self.free_log.lock().as_ref().filter(|_| harm.free_log).and_then(FreeLog::parts);
        for (offset, length) in free.into_iter().flatten() {
            log.discard(offset, length).expect("it is in range, and memory does not fail");
        }
        Media { disk, log, flash }
    }
}

/// What a power failure destroys in addition to unsynced writes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Harm {
    /// Sectors of the disk that were being written cannot be read.
    pub torn_disk: bool,
    /// The free parts of the log are zeros. They would be overwritten when more is logged, but a life is
    /// seldom long enough for that.
    pub free_log: bool,
}

impl Harm {
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        Self { torn_disk: rng.below(2) == 0, free_log: rng.below(2) == 0 }
    }
}

/// A flush of the log with at least this many sectors is long: sectors after the lost ones can survive.
const LONG_FLUSH: usize = 4;

/// Chooses the survivors: nothing, everything, whole writes, or sectors (torn writes in any order).
fn survival(rng: &mut Rng, device: &FaultyDevice) -> Survival {
    match rng.below(7) {
        0 => Survival::None,
        1 => Survival::All,
        // A hole.
        6 => {
            let sectors = device.unsynced().1;
            let hole = rng.below(sectors.max(1) as u64) as usize;
            Survival::Sectors((0..sectors).map(|at| at != hole).collect())
        }
        2 => Survival::Writes((0..device.unsynced().0).map(|_| rng.below(2) == 0).collect()),
        _ => Survival::Seed(rng.next_u64()),
    }
}
