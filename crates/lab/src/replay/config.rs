//! What a simulation is made of.

use super::FragmentKnobs;
use super::device::{DeviceSpec, MemorySpec};
use entresol_core::{Mode, PolicyKind, System};
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

/// What lies between DRAM and disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlashLayer {
    /// Nothing: two layers (2LA).
    None,
    /// A flash cache under this policy of the core.
    Policy(PolicyKind),
    /// SCE's cache of fragments.
    Fragments,
    /// A flash cache that is its own translation layer.
    Blocks(BlockKind),
}

/// The flash caches that are their own translation layer, by their names on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockKind {
    /// RFDB/WFDB with its write buffer.
    RwFdb,
    /// FlashTier.
    FlashTier,
    /// FlashTier with a write buffer.
    FlashTierBuffered,
}

impl BlockKind {
    /// All of them.
    pub const ALL: [BlockKind; 3] = [BlockKind::RwFdb, BlockKind::FlashTier, BlockKind::FlashTierBuffered];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            BlockKind::RwFdb => "rwfdb",
            BlockKind::FlashTier => "flashtier",
            BlockKind::FlashTierBuffered => "flashtier-buffer",
        }
    }

    /// The one of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl FlashLayer {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            FlashLayer::None => "none",
            FlashLayer::Policy(policy) => policy.name(),
            FlashLayer::Fragments => System::Fragments.name(),
            FlashLayer::Blocks(kind) => kind.name(),
        }
    }

    /// The one of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        let of_system = |system| match system {
            System::Cached(policy) => Some(FlashLayer::Policy(policy)),
            System::Fragments => Some(FlashLayer::Fragments),
            System::DiskOnly | System::FlashOnly => None,
        };
        let blocks = || BlockKind::from_name(name).map(FlashLayer::Blocks);
        match name {
            "none" => Some(FlashLayer::None),
            _ => System::from_name(name).and_then(of_system).or_else(blocks),
        }
    }

    /// The mode where none is asked for.
    pub const fn usual_mode(self) -> Mode {
        match self {
            FlashLayer::None => Mode::WriteBack,
            FlashLayer::Policy(policy) => policy.usual_mode(),
            FlashLayer::Fragments => System::Fragments.usual_mode(),
            FlashLayer::Blocks(_) => Mode::WriteThrough,
        }
    }

    /// Every name.
    pub fn names() -> Vec<&'static str> {
        let caches = System::ALL.into_iter().filter(|system| system.has_cache()).map(System::name);
        let blocks = BlockKind::ALL.map(BlockKind::name);
        std::iter::once("none").chain(caches).chain(blocks).collect()
    }
}

/// When references come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrival {
    /// So many clients take the next reference of the trace whenever they are free.
    Closed {
        /// Clients.
        clients: u32,
    },
    /// Each reference comes at its time in the trace.
    Timed,
}

/// One run over a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct RunConfig {
    /// What lies between DRAM and disk.
    pub middle: FlashLayer,
    /// What becomes of dirty pages that leave DRAM.
    pub mode: Mode,
    /// Replacement in DRAM.
    pub replacement: Replacement,
    /// DRAM frames; 0: references go straight to the flash layer, as below a buffer pool or to a block
    /// device.
    pub dram_pages: u32,
    /// Flash slots; without meaning where there is no flash.
    pub flash_pages: u32,
    /// SCE's knobs; without meaning for others.
    pub fragments: FragmentKnobs,
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
