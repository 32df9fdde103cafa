//! A scenario of a volume that the rigs draw too seldom.

use super::scenarios::{PAGE, bytes, options, simulate, told};
use entresol_block::{SteerOptions, Volume};
use entresol_device::{Device, MemoryDevice};
use entresol_engine::{Uuid, flash_bytes};
use entresol_format::fingerprint::LABEL_FILE_BYTES;
use entresol_runtime::sleep;
use std::sync::Arc;
use std::time::Duration;

const PAGES: u64 = 120;
const JOURNAL_BYTES: u64 = 256 << 10;
/// The page that cannot be read, of those that are dirty.
const BAD: u64 = 7;
const DIRTY: u64 = 20;
/// By then a summary says that what was flushed is durable.
const FLUSH_IS_TOLD: Duration = Duration::from_secs(2);

/// The devices of a volume.
struct Parts {
    disk: Arc<MemoryDevice>,
    label: Arc<MemoryDevice>,
    flash: Arc<MemoryDevice>,
    journal: Arc<MemoryDevice>,
}

impl Parts {
    fn new() -> Self {
        let device = |name: &str, bytes| Arc::new(MemoryDevice::new(name, bytes));
        let (disk, label) = (device("disk", PAGES * PAGE as u64), device("label", LABEL_FILE_BYTES));
        let (flash, journal) = (device("flash", flash_bytes(&options(80))), device("journal", JOURNAL_BYTES));
        Self { disk, label, flash, journal }
    }

    /// Damages the newest copy of [`BAD`] on flash, or mends it.
    fn damage(&self) -> Result<(), String> {
        let blocks = self.flash.geometry().capacity_bytes / PAGE as u64;
        let mut found = vec![0; PAGE];
        for block in 0..blocks {
            self.flash.read(block * PAGE as u64, &mut found).map_err(told)?;
            if found[8..] == bytes(BAD, 1)[8..] && found[0] == BAD as u8 {
                found[7] ^= 1;
                return self.flash.write(block * PAGE as u64, &found).map_err(told);
            }
        }
        Err("the page is not on flash".to_owned())
    }

    fn open(&self) -> Result<(Volume, Vec<String>), String> {
        let (disk, label, flash) = (self.disk.clone(), self.label.clone(), self.flash.clone());
        let journal = (self.journal.clone() as Arc<dyn Device>, Uuid::NIL);
        Volume::open_with_journal(disk, label, flash, options(80), journal).map_err(told)
    }
}

/// A server is killed when it has acknowledged a write of a part of a page, whose rest the next one cannot
/// read: the page is lost, also if it can be read again later.
pub(super) fn part_of_a_lost_page() -> Result<(), String> {
    simulate(|| {
        let parts = Parts::new();
        let (disk, label, flash) = (parts.disk.clone(), parts.label.clone(), parts.flash.clone());
        let mut volume = Volume::create(disk, label, flash, options(80)).map_err(told)?;
        volume.keep_journal(parts.journal.clone(), Uuid::NIL).map_err(told)?;
        volume.steer(SteerOptions { dirty_age_seconds: 0, ..SteerOptions::default() });
        let mut pages = 0..DIRTY;
        pages.try_for_each(|page| volume.write(page * PAGE as u64, &bytes(page, 1), false)).map_err(told)?;
        volume.flush().map_err(told)?;
        sleep(FLUSH_IS_TOLD);
        volume.write(BAD * PAGE as u64 + 512, &[7; 512], false).map_err(told)?;
        drop(volume);
        parts.damage()?;
        let (volume, notices) = parts.open()?;
        if !notices.concat().contains(&format!("4096 bytes at {}", BAD * PAGE as u64)) {
            return Err(format!("no notice names the page: {notices:?}"));
        }
        volume.close().map_err(told)?;
        parts.damage()?;
        let (volume, _) = parts.open()?;
        let is_served = volume.read(BAD * PAGE as u64, &mut vec![0; PAGE]).is_ok();
        volume.close().map_err(told)?;
        if is_served { Err("the version before an acknowledged write was served".to_owned()) } else { Ok(()) }
    })
}
