//! What a simulation is made of.

use super::device::{DeviceSpec, MemorySpec};
use super::{FragmentKnobs, KeepLog, LcKnobs};
use entresol_core::{Cache, Mode};
use entresol_engine::DailyWrites;
use std::ops::Range;

/// The replacement of the DRAM layer, by its name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Replacement {
    /// Least recently used.
    Lru,
    /// First in, first out.
    Fifo,
    /// Second chance.
    Clock,
}

impl Replacement {
    /// All of them.
    pub const ALL: [Replacement; 3] = [Replacement::Lru, Replacement::Fifo, Replacement::Clock];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Replacement::Lru => "lru",
            Replacement::Fifo => "fifo",
            Replacement::Clock => "clock",
        }
    }

    /// The replacement of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|replacement| replacement.name() == name)
    }
}

/// The name of a run without a flash cache on the command line.
pub const NO_CACHE: &str = "none";

/// The name of a flash layer on the command line and in results.
pub fn layer_name(flash_layer: Option<Cache>) -> &'static str {
    flash_layer.map_or(NO_CACHE, Cache::name)
}

/// When references come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrival {
    /// So many clients take the next reference of the trace whenever they are free.
    Closed {
        /// Clients.
        clients: u32,
    },
    /// Each reference is made at its time in the trace.
    Timed,
}

/// One run over a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct RunConfig {
    /// The flash cache between DRAM and disk; without one there are two layers (2LA).
    pub flash_layer: Option<Cache>,
    /// What becomes of dirty pages that leave DRAM.
    pub mode: Mode,
    /// Replacement in DRAM.
    pub replacement: Replacement,
    /// DRAM frames; 0: references go straight to the flash layer, as below a buffer pool or to a block
    /// device.
    pub dram_pages: u32,
    /// Flash slots; without meaning where there is no flash.
    pub flash_pages: u32,
    /// In a replay of a sample: the slots of the whole cache that these stand for.
    pub stands_for: Option<u32>,
    /// Shadows run with the cache, if it is large enough.
    pub shadows: bool,
    /// The cache takes another policy of its placement when its shadows advise it.
    pub switches: bool,
    /// How much may be written to flash, of policies that weigh what a write is worth.
    pub flash_writes_per_day: DailyWrites,
    /// A log above is kept so that the flash may be lost; of policies with a log on flash, in write-back.
    pub keep_log: Option<KeepLog>,
    /// SCE's knobs; without meaning for others.
    pub fragments: FragmentKnobs,
    /// LC's knobs; without meaning for others.
    pub lc: LcKnobs,
    /// When references come.
    pub arrival: Arrival,
    /// Time that a DRAM hit takes a client, nanoseconds.
    pub hit_ns: u64,
    /// A reference that changes a page replaces all of it: it is not read first. As on block devices.
    pub whole_writes: bool,
    /// Dirty pages are written to disk at the end, as 3LA's experiments do (§4).
    pub flush_at_end: bool,
    /// Devices are timed by their detailed models instead of by their rates.
    pub exact_devices: bool,
    /// Under the flash cache.
    pub flash_device: DeviceSpec,
    /// Under the database.
    pub disk_device: DeviceSpec,
    /// In the machine.
    pub memory: MemorySpec,
    /// Records of the trace to replay.
    pub records: Range<usize>,
    /// Of these, the first that is measured.
    pub measure_from: usize,
}

impl RunConfig {
    /// A run over `records` with these devices, all of which is measured: one client, LRU in DRAM, whose
    /// hits take no time, and `flash_layer` in its usual mode. The layers have no pages yet.
    pub fn new(
        flash_layer: Option<Cache>,
        (flash_device, disk_device): (&DeviceSpec, &DeviceSpec),
        memory: &MemorySpec,
        records: Range<usize>,
    ) -> Self {
        Self {
            flash_layer,
            mode: flash_layer.map_or(Mode::WriteBack, Cache::usual_mode),
            replacement: Replacement::Lru,
            dram_pages: 0,
            flash_pages: 0,
            stands_for: None,
            shadows: false,
            switches: false,
            flash_writes_per_day: DailyWrites::Unlimited,
            keep_log: None,
            fragments: FragmentKnobs::default(),
            lc: LcKnobs::default(),
            arrival: Arrival::Closed { clients: 1 },
            hit_ns: 0,
            whole_writes: false,
            flush_at_end: false,
            exact_devices: false,
            flash_device: flash_device.clone(),
            disk_device: disk_device.clone(),
            memory: memory.clone(),
            records,
            measure_from: 0,
        }
    }
}
