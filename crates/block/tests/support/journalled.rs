//! A small volume in memory, with a journal.

use crate::support::Delayed;
use entresol_block::Volume;
use entresol_core::{Mode, PolicyKind};
use entresol_device::{Device, MemoryDevice};
use entresol_engine::{TierOptions, Uuid, flash_bytes};
use entresol_format::PageFormat;
use entresol_format::fingerprint::LABEL_FILE_BYTES;
use entresol_runtime::sim::{SimConfig, Simulation};
use std::sync::Arc;

pub const PAGE: usize = 4096;
const SLOTS: u32 = 80;

pub fn options(mode: Mode) -> TierOptions {
    TierOptions {
        page_format: PageFormat::Raw,
        mode,
        group_pages: 4,
        staging_groups: 4,
        segment_entries: 16,
        slots: SLOTS,
        ..TierOptions::new(PolicyKind::FaceGsc, SLOTS)
    }
}

/// Disk, label, flash and journal.
pub struct Parts(pub [Arc<MemoryDevice>; 4], pub TierOptions);

impl Parts {
    pub fn new(mode: Mode, pages: u64, journal_bytes: u64) -> Self {
        let options = options(mode);
        let device = |name, bytes| Arc::new(MemoryDevice::new(name, bytes));
        let disk = device("disk", pages * PAGE as u64);
        let label = device("label", LABEL_FILE_BYTES);
        let flash = device("flash", flash_bytes(&options));
        Self([disk, label, flash, device("journal", journal_bytes)], options)
    }

    pub fn devices(&self) -> [Arc<dyn Device>; 4] {
        let delayed = |device: &Arc<MemoryDevice>| {
            Arc::new(Delayed(device.clone(), device.geometry().capacity_bytes)) as Arc<dyn Device>
        };
        self.0.each_ref().map(delayed)
    }

    pub fn create(&self) -> Arc<Volume> {
        let [disk, label, flash, journal] = self.devices();
        let mut volume = Volume::create(disk, label, flash, self.1.clone()).unwrap();
        volume.keep_journal(journal, Uuid::NIL).unwrap();
        Arc::new(volume)
    }

    pub fn open(&self) -> (Volume, Vec<String>) {
        let [disk, label, flash, journal] = self.devices();
        Volume::open_with_journal(disk, label, flash, self.1.clone(), (journal, Uuid::NIL)).unwrap()
    }
}

pub fn simulate(seed: u64, main: impl FnOnce() + Send) {
    Simulation::new(SimConfig { seed, random_order: true, ..SimConfig::default() }).run(main).unwrap();
}

/// A page in this version.
pub fn filled(version: u64) -> Vec<u8> {
    version.to_le_bytes().repeat(PAGE / 8)
}
