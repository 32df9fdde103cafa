//! A machine that loses its power: three devices that forget what was not synced, and what is left of them.
//!
//! Invariant: what a power failure leaves depends on the requests so far and on the seed alone.

use crate::watched::{Observer, Pace, Watched};
use entresol_device::{BaseImage, Device, FaultPlan, FaultyDevice, MemoryDevice, Moment, Survival};
use entresol_runtime::rng::Rng;
use std::sync::Arc;

/// What lies on the devices while the machine is off.
#[derive(Debug)]
pub struct Media {
    /// Under the pages.
    pub disk: MemoryDevice,
    /// Under the log.
    pub log: MemoryDevice,
    /// Under the cache; of no bytes without one.
    pub flash: MemoryDevice,
}

/// Media that many machines start from.
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

    /// Media of devices with such sectors: bytes of a sector, and of what the medium writes at once.
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

    /// Everything on the disk, on the log device and on flash.
    ///
    /// # Panics
    /// If they are larger than what memory can take.
    pub fn bytes(&self) -> [Vec<u8>; 3] {
        [&self.disk, &self.log, &self.flash].map(|device| {
            let mut bytes = vec![0; device.geometry().capacity_bytes as usize];
            device.read(0, &mut bytes).expect("the whole device is in range, and memory does not fail");
            bytes
        })
    }

    /// Makes them the start of many.
    pub fn freeze(self) -> FrozenMedia {
        FrozenMedia { disk: self.disk.freeze(), log: self.log.freeze(), flash: self.flash.freeze() }
    }
}

impl FrozenMedia {
    /// A copy to write to.
    pub fn thaw(&self) -> Media {
        let over = |name: &str, image: &Arc<BaseImage>| MemoryDevice::over(name, image.clone());
        Media {
            disk: over("disk", &self.disk),
            log: over("log", &self.log),
            flash: over("flash", &self.flash),
        }
    }
}

/// The machine, switched on.
pub struct Machine {
    /// Counts operations over all devices, and cuts the power off.
    pub plan: Arc<FaultPlan>,
    /// How long requests take; shared by the devices.
    pub pace: Arc<Pace>,
    /// Size of the cache, see [`crate::Subject::tier_options`].
    pub flash_groups: u32,
    devices: Arc<Devices>,
    slow: Option<&'static str>,
    observer: Option<Observer>,
}

/// Requests to a slow device take so many times as long as to others.
const SLOWNESS: u64 = 40;

/// The devices of a machine, without their timing.
pub struct Devices {
    disk: Arc<FaultyDevice>,
    log: Arc<FaultyDevice>,
    flash: Arc<FaultyDevice>,
}

impl Machine {
    /// A machine with these media, whose power fails as `plan` says.
    pub fn new(media: Media, plan: FaultPlan, flash_groups: u32) -> Self {
        let plan = Arc::new(plan);
        let device = |name, media| Arc::new(FaultyDevice::new(name, media, plan.clone()));
        let devices = Devices {
            disk: device("disk", media.disk),
            log: device("log", media.log),
            flash: device("flash", media.flash),
        };
        Self::with(devices, plan, flash_groups)
    }

    fn with(devices: Devices, plan: Arc<FaultPlan>, flash_groups: u32) -> Self {
        let (devices, pace) = (Arc::new(devices), Arc::new(Pace::default()));
        Self { pace, flash_groups, devices, slow: None, observer: None, plan }
    }

    /// The machine with a slow device of this name: "disk", "log" or "flash".
    #[must_use]
    pub fn slowed(self, slow: Option<&'static str>) -> Self {
        Self { slow, ..self }
    }

    /// Calls `observe` at every operation, at the moment when a crash at it would strike.
    pub fn observe(&mut self, observe: impl Fn(&Devices, u64) + Send + Sync + 'static) {
        let (devices, plan) = (self.devices.clone(), self.plan.clone());
        self.observer = Some(Arc::new(move |ahead| observe(&devices, plan.operations() + ahead)));
    }

    fn watched(&self, device: &Arc<FaultyDevice>) -> Arc<dyn Device> {
        let factor = if self.slow == Some(device.name()) { SLOWNESS } else { 1 };
        let (inner, pace) = (device.clone(), self.pace.clone());
        Arc::new(Watched { inner, pace, factor, observer: self.observer.clone() })
    }

    /// The disk under the pages.
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

    /// What is left after a power failure now; `seed` decides which unsynced sectors.
    pub fn after_crash(&self, seed: u64) -> Media {
        self.devices.after_crash(seed)
    }

    /// The machine when its program was killed, and power has not failed: what was written and not synced can
    /// be read, and is still not durable. The next program's faults are those of `plan`.
    #[must_use]
    pub fn after_kill(&self, plan: FaultPlan) -> Self {
        self.devices.standstill().after_kill(plan, self.flash_groups)
    }

    /// Flips one bit of the flash device, counted from its start, for good.
    pub fn flip_flash_bit(&self, bit: u64) {
        self.devices.flash.flip_bit(bit);
    }
}

/// Writes and syncs that disk, log and flash have carried out.
pub type Progress = [(u64, u64); 3];

/// The machine at one moment: every power failure that could strike then starts from it.
#[derive(Debug)]
pub struct Standstill {
    /// The disk under the pages.
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
        let devices =
            Devices { disk: device(&self.disk), log: device(&self.log), flash: device(&self.flash) };
        Machine::with(devices, plan, flash_groups)
    }
}

impl Devices {
    /// What the devices hold now, durable and not.
    pub fn standstill(&self) -> Standstill {
        Standstill { disk: self.disk.moment(), log: self.log.moment(), flash: self.flash.moment() }
    }

    /// How many writes and syncs each device has carried out: what a power failure leaves can only have
    /// changed if one of these has.
    pub fn progress(&self) -> Progress {
        [&self.disk, &self.log, &self.flash].map(|device| {
            let counters = device.counters();
            (counters.writes, counters.syncs)
        })
    }

    /// What is left after a power failure in the middle of a long flush of the log, a sector of whose first
    /// half is lost, or everything up to it; `None` if there is none now.
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

    /// What is left after a power failure now; `seed` decides which unsynced sectors of which device.
    pub fn after_crash(&self, seed: u64) -> Media {
        let mut rng = Rng::new(seed);
        let mut survivors = |device: &FaultyDevice| device.after_crash(&survival(&mut rng, device));
        Media { disk: survivors(&self.disk), log: survivors(&self.log), flash: survivors(&self.flash) }
    }
}

/// Sectors of a flush of the log from which on it is long: something can be left behind what is lost.
const LONG_FLUSH: usize = 4;

/// Nothing, everything, whole writes, or sectors: torn writes in any order.
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
