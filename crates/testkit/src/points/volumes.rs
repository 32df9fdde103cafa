//! Scenarios of a volume that the rigs draw too seldom.

use super::scenarios::{PAGE, bytes, options, simulate, told};
use entresol_block::{SteerOptions, Volume};
use entresol_device::{Device, Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice, Survival};
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
/// Operations of the flash in an open, at most.
const OPEN_MAX: u64 = 120;
/// Pages whose writes fill groups.
const OTHERS: u64 = 30;
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

/// A server was killed when it had acknowledged `others` writes of other pages, and then one of a part of
/// [`BAD`].
fn killed(others: u64) -> Result<Parts, String> {
    let parts = Parts::new();
    let (disk, label, flash) = (parts.disk.clone(), parts.label.clone(), parts.flash.clone());
    let mut volume = Volume::create(disk, label, flash, options(80)).map_err(told)?;
    volume.keep_journal(parts.journal.clone(), Uuid::NIL).map_err(told)?;
    volume.steer(SteerOptions { dirty_age_seconds: 0, ..SteerOptions::default() });
    let mut pages = 0..DIRTY;
    pages.try_for_each(|page| volume.write(page * PAGE as u64, &bytes(page, 1), false)).map_err(told)?;
    volume.flush().map_err(told)?;
    sleep(FLUSH_IS_TOLD);
    let mut pages = DIRTY..DIRTY + others;
    pages.try_for_each(|page| volume.write(page * PAGE as u64, &bytes(page, 1), false)).map_err(told)?;
    volume.write(BAD * PAGE as u64 + 512, &[7; 512], false).map_err(told)?;
    Ok(parts)
}

fn names_it(notices: &[String]) -> bool {
    notices.concat().contains(&format!("4096 bytes at {}", BAD * PAGE as u64))
}

/// The page can be read again on flash, in its version before that write. It is not served.
fn stays_lost(parts: &Parts) -> Result<(), String> {
    let (volume, _) = parts.open()?;
    let is_served = volume.read(BAD * PAGE as u64, &mut vec![0; PAGE]).is_ok();
    volume.close().map_err(told)?;
    if is_served { Err("the version before an acknowledged write was served".to_owned()) } else { Ok(()) }
}

/// The next server cannot read the rest of that page: it is lost, also if it can be read again later.
pub(super) fn part_of_a_lost_page() -> Result<(), String> {
    simulate(|| {
        let parts = killed(0)?;
        parts.damage()?;
        let (volume, notices) = parts.open()?;
        if !names_it(&notices) {
            return Err(format!("no notice names the page: {notices:?}"));
        }
        volume.close().map_err(told)?;
        parts.damage()?;
        stays_lost(&parts)
    })
}

/// The flash dies when the next server reads the rest of that page, or when it writes another page before.
pub(super) fn part_of_a_page_on_a_dying_flash() -> Result<(), String> {
    let dies = |at| {
        simulate(|| {
            let parts = killed(OTHERS)?;
            let plan = Arc::new(FaultPlan::none());
            plan.inject(Injection { at, device: None, fault: Fault::Death, forever: false });
            let flash = Arc::new(FaultyDevice::new("flash", parts.flash.fork("flash"), plan));
            let (disk, label) = (parts.disk.clone(), parts.label.clone());
            let journal = (parts.journal.clone() as Arc<dyn Device>, Uuid::NIL);
            let opened = Volume::open_with_journal(disk, label, flash.clone(), options(80), journal);
            let Ok((volume, notices)) = opened else { return Ok(false) };
            drop(volume);
            let parts = Parts { flash: Arc::new(flash.after_crash(&Survival::All)), ..parts };
            if names_it(&notices) { stays_lost(&parts).map(|()| true) } else { Ok(false) }
        })
    };
    let mut lost = 0;
    for at in 1..OPEN_MAX {
        lost += u64::from(dies(at)?);
    }
    if lost > 1 { Ok(()) } else { Err(format!("the flash died {lost} times before the page was read")) }
}
