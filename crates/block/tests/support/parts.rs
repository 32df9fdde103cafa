//! A small volume in memory, with each kind of cache.
#![allow(dead_code, reason = "each test uses a part")]

use crate::support::Delayed;
use entresol_block::{CacheOptions, SECTOR_BYTES, Volume};
use entresol_core::{Cache, Mode, PolicyKind};
use entresol_device::{Device, MemoryDevice};
use entresol_engine::{FragmentOptions, TierOptions, flash_bytes};
use entresol_format::PageFormat;
use entresol_format::fingerprint::LABEL_FILE_BYTES;
use entresol_runtime::sim::{SimConfig, Simulation};
use std::sync::Arc;

/// Whole pages of the disk; three sectors follow.
pub const PAGES: u64 = 150;
pub const BYTES: u64 = PAGES * 4096 + 3 * SECTOR_BYTES;
pub const SECTOR: usize = SECTOR_BYTES as usize;

pub const CACHES: [(Cache, Mode); 9] = [
    (Cache::Policy(PolicyKind::FaceGsc), Mode::WriteBack),
    (Cache::Policy(PolicyKind::FaceGsc), Mode::WriteThrough),
    (Cache::Policy(PolicyKind::Face), Mode::WriteBack),
    (Cache::Policy(PolicyKind::FaceGr), Mode::WriteThrough),
    (Cache::Policy(PolicyKind::Lru), Mode::WriteThrough),
    (Cache::Policy(PolicyKind::Lc), Mode::WriteBack),
    (Cache::Policy(PolicyKind::ReuseSlots), Mode::WriteBack),
    (Cache::Policy(PolicyKind::Flashcache), Mode::WriteAround),
    (Cache::Fragments, Mode::WriteThrough),
];

pub fn options((cache, mode): (Cache, Mode)) -> CacheOptions {
    let page_format = PageFormat::Raw;
    let Cache::Policy(policy) = cache else {
        let usual = FragmentOptions::of_pages(80, 4096, page_format).with_fragments(8, 10);
        return FragmentOptions { workers: 2, pace_permille: 1000, ..usual }.into();
    };
    let options = TierOptions {
        page_format,
        mode,
        group_pages: 4,
        staging_groups: 4,
        segment_entries: 16,
        slots: 80,
        write_workers: 2,
        background_workers: 3,
        ..TierOptions::new(policy, 80)
    };
    // With slots that survive a crash, where that is needed.
    CacheOptions::from(options).in_mode(mode).unwrap()
}

/// Pages of 4 KiB that [`write_all`] writes.
pub const WRITTEN: u64 = 40;

/// Writes the first pages, each with other bytes in each version, durably.
pub fn write_all(volume: &Volume, version: u8) {
    for page in 0..WRITTEN {
        volume.write(page * 4096, &[version ^ page as u8; 4096], false).unwrap();
    }
    volume.flush().unwrap();
}

/// These pages have this version.
pub fn expect_all(volume: &Volume, version: u8) {
    let mut found = vec![0; 4096];
    for page in 0..WRITTEN {
        volume.read(page * 4096, &mut found).unwrap();
        assert!(found.iter().all(|byte| *byte == version ^ page as u8), "page {page}");
    }
}

pub struct Parts {
    pub disk: Arc<MemoryDevice>,
    pub label: Arc<MemoryDevice>,
    pub flash: Arc<MemoryDevice>,
    pub options: CacheOptions,
}

impl Parts {
    pub fn new(cache: (Cache, Mode)) -> Self {
        let bytes = |cache| match &options(cache) {
            CacheOptions::Pages(options) => flash_bytes(options),
            CacheOptions::Fragments(options) => options.flash_bytes(),
        };
        // Room for each of them.
        let flash_bytes = CACHES.into_iter().map(bytes).max().unwrap();
        let options = options(cache);
        let disk = Arc::new(MemoryDevice::new("disk", BYTES));
        disk.write(0, &owners_bytes()).unwrap();
        let label = Arc::new(MemoryDevice::new("label", LABEL_FILE_BYTES));
        let flash = Arc::new(MemoryDevice::new("flash", flash_bytes));
        Self { disk, label, flash, options }
    }

    pub fn create(&self) -> Volume {
        let [disk, label, flash] = self.devices();
        Volume::create(disk, label, flash, self.options.clone()).unwrap()
    }

    pub fn open(&self) -> Volume {
        let [disk, label, flash] = self.devices();
        Volume::open(disk, label, flash, self.options.clone()).unwrap().0
    }

    pub fn devices(&self) -> [Arc<dyn Device>; 3] {
        let flash_bytes = self.flash.geometry().capacity_bytes;
        [(&self.disk, BYTES), (&self.label, LABEL_FILE_BYTES), (&self.flash, flash_bytes)]
            .map(|(device, bytes)| Arc::new(Delayed(device.clone(), bytes)) as Arc<dyn Device>)
    }
}

pub fn owners_bytes() -> Vec<u8> {
    (0..BYTES as usize).map(|at| (at / 97) as u8 ^ 0x5a).collect()
}

pub fn simulate(seed: u64, main: impl FnOnce() + Send) {
    Simulation::new(SimConfig { seed, random_order: true, ..SimConfig::default() }).run(main).unwrap();
}
