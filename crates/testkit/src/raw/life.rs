//! One life of a cache: its devices, until power fails.

use super::cache::Cache;
use super::devices::{HELD_FACTOR, at_pace, blank, open_in_place};
use super::door::Door;
use super::files::{self, Files};
use super::opened::Opened;
use super::options::of_pages;
use super::{LATENCY_MAX, failed, simulation};
use crate::machine::Media;
use crate::watched::{Observer, Watched};
use entresol_block::{CacheOptions, Volume};
use entresol_core::Mode;
use entresol_device::{Device, FaultPlan, FaultyDevice, MemoryDevice, Survival};
use entresol_engine::{FlashTier, Home, Uuid, WholeDisk, flash_has_failed};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// A cache with its devices, until power fails.
pub(super) struct Life<'a> {
    pub cache: Cache,
    pub options: &'a CacheOptions,
    /// The disk is used in place: its label is in a file of its own, and its owner's bytes begin at 0.
    pub in_place: bool,
    pub known: &'a files::Known,
    pub plan: Arc<FaultPlan>,
    pub flash: Arc<FaultyDevice>,
    pub disk: Arc<FaultyDevice>,
    pub label_file: Arc<FaultyDevice>,
    /// The door passes trims to the disk: of one client, whose pages no other client knows.
    pub passes_trims: bool,
    /// The flash is not there, if it has failed before.
    pub without_flash: bool,
    /// The door's, of acknowledged writes. It outlives the program, and not a power failure.
    pub journal: Arc<FaultyDevice>,
}

/// Bytes of the door's journal: so few that it runs full.
const JOURNAL_BYTES: u64 = 256 << 10;

/// A journal after a power failure.
pub(super) fn blank_journal() -> Arc<FaultyDevice> {
    let blank = MemoryDevice::new("journal", JOURNAL_BYTES);
    Arc::new(FaultyDevice::new("journal", blank, Arc::new(FaultPlan::none())))
}

/// Flash, disk and label file on these media, as after the power failure.
pub(super) fn devices_on(media: Media) -> [Arc<FaultyDevice>; 3] {
    let plan = Arc::new(FaultPlan::none());
    let Media { flash, disk, log } = media;
    [("flash", flash), ("disk", disk), ("label file", log)]
        .map(|(name, medium)| Arc::new(FaultyDevice::new(name, medium, plan.clone())))
}

impl Life<'_> {
    /// What a power failure leaves now.
    pub fn after_crash(&self, survival: &Survival) -> Media {
        let [flash, disk, log] =
            [&self.flash, &self.disk, &self.label_file].map(|device| device.after_crash(survival));
        Media { flash, disk, log }
    }

    /// As [`Life::open`], behind the door.
    fn open_door(
        &self,
        is_new: bool,
        flash: Arc<dyn Device>,
        disk: Arc<dyn Device>,
        label: Arc<dyn Device>,
    ) -> Result<Opened, String> {
        let journal = self.journal.clone();
        if self.without_flash && flash_has_failed(&*label).map_err(failed)? {
            let opened = Volume::open_without_cache(disk, label, self.options.clone());
            let (volume, _) = opened.map_err(failed)?;
            volume.pass_trims(self.passes_trims);
            let door = Door::connect(Arc::new(volume), self.cache.page_bytes())?;
            return Ok(Opened {
                tier: None,
                files: None,
                door: Some(Arc::new(door)),
                has_lost: false,
                is_blind: false,
            });
        }
        let opened = Volume::open_with_journal(
            disk.clone(),
            label.clone(),
            flash.clone(),
            self.options.clone(),
            (journal.clone(), Uuid::NIL),
        );
        let (mut has_lost, mut is_blind) = (false, false);
        let volume = match opened {
            Ok((_, notices)) if notices.iter().any(|notice| notice.contains("another program")) => {
                return Err(notices.concat());
            }
            Ok((volume, notices)) => {
                let is_told = |what| notices.iter().any(|notice| notice.contains(what));
                has_lost = is_told("parts of pages that are lost");
                is_blind = is_told("until the volume is opened again and the flash can be read");
                volume
            }
            Err(_) if is_new => {
                // Nothing was ever written through it.
                blank(&*label)?;
                let options = self.options.clone().overwriting(true);
                let mut volume = Volume::create(disk, label, flash, options).map_err(failed)?;
                volume.keep_journal(journal, Uuid::NIL).map_err(|error| error.to_string())?;
                volume
            }
            Err(error) => return Err(error.to_string()),
        };
        volume.pass_trims(self.passes_trims);
        let door = Door::connect(Arc::new(volume), self.cache.page_bytes())?;
        Ok(Opened { tier: None, files: None, door: Some(Arc::new(door)), has_lost, is_blind })
    }

    /// Opens the cache; makes it, if it was never open before.
    pub fn open(&self, is_new: bool, observer: Option<Observer>) -> Result<Opened, String> {
        let page_bytes = self.cache.page_bytes();
        let [flash, disk, label_file] = [&self.flash, &self.disk, &self.label_file]
            .map(|device| Watched { observer: observer.clone(), ..at_pace(device, LATENCY_MAX) });
        // Some writes of the disk take very long. Other requests do not wait for them.
        let held_max = match self.cache.mode {
            Mode::WriteThrough => LATENCY_MAX * HELD_FACTOR,
            _ => Duration::ZERO,
        };
        let [flash, disk, label_file] = [flash, Watched { held_max, ..disk }, label_file].map(Arc::new);
        if self.cache.door.is_some() {
            return self.open_door(is_new, flash, disk, label_file);
        }
        let (disk, label): (Arc<dyn Device>, Arc<dyn Device>) = match self.in_place {
            true => {
                let disk = open_in_place(disk, label_file, page_bytes as u32)?;
                (disk.clone(), disk)
            }
            false => (disk, label_file),
        };
        let files = || Files::new(label.clone(), disk.clone(), page_bytes, self.known.clone());
        let files = self.cache.objects.then(files);
        let home = || -> Arc<dyn Home> {
            match &files {
                Some(files) => files.clone(),
                None => WholeDisk::new(disk.clone(), page_bytes as u32),
            }
        };
        let options = of_pages(self.options)?;
        let open = || FlashTier::open_at(flash.clone(), home(), options.clone()).map(|(tier, _)| tier);
        let tier = match is_new {
            // A creation that was cut off may have bound the disk already.
            true => FlashTier::create_at(flash.clone(), home(), options.clone()).or_else(|_| open()),
            false => open(),
        };
        Ok(Opened { tier: Some(tier.map_err(failed)?), files, door: None, has_lost: false, is_blind: false })
    }

    /// The numbers of the requests in which an open writes to flash.
    pub fn writes_of_an_open(&self, seed: u64) -> Vec<u64> {
        let plan = Arc::new(FaultPlan::none());
        let fork = |device: &FaultyDevice, name: &str| {
            Arc::new(FaultyDevice::new(name, device.after_crash(&Survival::All), plan.clone()))
        };
        let (flash, disk) = (fork(&self.flash, "flash"), fork(&self.disk, "disk"));
        let label_file = fork(&self.label_file, "label file");
        let (writes, seen) = (Arc::new(Mutex::new(Vec::new())), AtomicU64::new(0));
        let observer: Observer = {
            let (plan, flash, writes) = (plan.clone(), flash.clone(), writes.clone());
            Arc::new(move |_| {
                let written = flash.counters().writes;
                if seen.swap(written, SeqCst) < written {
                    writes.lock().push(plan.operations());
                }
            })
        };
        let journal = Arc::new(self.journal.after_kill(plan.clone()));
        let dry = Life { plan, flash, disk, label_file, journal, ..*self };
        drop(simulation(seed).run(|| dry.open(false, Some(observer)).map(drop)));
        let mut writes = writes.lock();
        std::mem::take(&mut *writes)
    }
}
