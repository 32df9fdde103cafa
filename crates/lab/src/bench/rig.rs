//! One system on its devices: what a run stands on.

use crate::bench::cache::CacheOptions;
use crate::bench::image::{Image, PAGE_BYTES, store_options};
use crate::bench::split::Split;
use crate::bench::unpulled::Unpulled;
use crate::config::{BenchConfig, Run};
use anyhow::{Context, bail};
use entresol_core::{Lsn, PageId, System};
use entresol_device::memory::Reference;
use entresol_device::{Device, MemoryDevice, ModelDevice, Profile, Scale};
use entresol_engine::{DiskLayer, Layer, disk_offset};
use entresol_format::page::header;
use entresol_store::{Options, Parts, Store};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of the paper's database, to which it relates its flash sizes (FaCE §5.2, tables 3 and 4): what a
/// scaled-down one stands for.
pub const PAPER_DATABASE_BYTES: u64 = 50_000_000_000;
/// What [`Rig::forget_log`] keeps at least of the log's end, and of its beginning with the master record.
const LOG_KEPT_BYTES: u64 = 8 << 20;
/// Fewest DRAM frames: each client pins a few at once.
const FRAMES_PER_CLIENT: u64 = 4;

/// The stores of bytes behind the modelled devices. They outlive a simulated crash.
#[derive(Clone)]
pub struct Media {
    disk: Arc<MemoryDevice>,
    log: Arc<MemoryDevice>,
    flash: Option<Arc<MemoryDevice>>,
}

/// A device with its timing; `set_instant` makes it take no time.
pub type Modelled = Arc<ModelDevice<Arc<MemoryDevice>>>;

/// The devices of one machine, simulated or real, and how the store is to be set up on them.
pub struct Rig {
    /// Under the database.
    pub disk: Arc<dyn Device>,
    /// Under the log.
    pub log: Arc<dyn Device>,
    /// Under the flash cache.
    pub flash: Option<Arc<dyn Device>>,
    /// The shape of the flash cache.
    pub tier: Option<CacheOptions>,
    /// A new cache may pull victims from DRAM.
    pub pulls: bool,
    /// The store's.
    pub options: Options,
    /// What a modelled log keeps its content in.
    pub log_media: Option<Arc<MemoryDevice>>,
    /// Those of the devices that are modelled.
    pub modelled: Vec<Modelled>,
}

/// Pages on flash are versions of pages of the loaded database: kept as differences from these, they take
/// little memory.
fn similar_pages(image: &Image) -> Reference {
    let locate = |page: &[u8]| Some(disk_offset(PageId(header(page).page.get()), PAGE_BYTES));
    Reference { image: image.disk.clone(), locate: Arc::new(locate) }
}

/// What the loaded database stands for.
fn scale_of(image: &Image) -> Scale {
    Scale::of(PAPER_DATABASE_BYTES, image.pages * u64::from(PAGE_BYTES))
}

/// DRAM frames and flash slots of a run on a database of so many pages.
pub fn sizes(config: &BenchConfig, database_pages: u64, run: Run) -> (u64, u64) {
    let share = |percent: f64| (database_pages as f64 * percent / 100.0).round() as u64;
    let frames = share(config.dram_percent).max(FRAMES_PER_CLIENT * u64::from(config.clients));
    let slots = match run.system {
        System::Cached(_) | System::Fragments => share(run.flash_percent),
        System::DiskOnly | System::FlashOnly => 0,
    };
    (frames, slots)
}

impl Media {
    /// Copy-on-write media over the loaded database, and empty flash.
    pub fn over(image: &Image, config: &BenchConfig, run: Run) -> anyhow::Result<Self> {
        let (_, slots) = sizes(config, image.pages, run);
        let flash = CacheOptions::of(config, run, slots)?.map(|tier| {
            Arc::new(MemoryDevice::new("flash", tier.flash_bytes()).with_reference(similar_pages(image)))
        });
        Ok(Self {
            disk: Arc::new(MemoryDevice::over("disk", image.disk.clone())),
            log: Arc::new(MemoryDevice::over("log", image.log.clone())),
            flash,
        })
    }

    /// Keeps the log's images of the database's pages as copies of them: for runs whose log grows long.
    #[must_use]
    pub fn with_log_like_the_database(mut self, image: &Image) -> Self {
        let log = MemoryDevice::over("log", image.log.clone()).with_copies(image.copies());
        self.log = Arc::new(log);
        self
    }

    /// Independent copies.
    pub fn fork(&self) -> Self {
        let fork = |media: &Arc<MemoryDevice>, name| Arc::new(media.fork(name));
        Self {
            disk: fork(&self.disk, "disk"),
            log: fork(&self.log, "log"),
            flash: self.flash.as_ref().map(|flash| fork(flash, "flash")),
        }
    }

    /// Puts the area before the slots of `rig`'s flash cache, its slot directory, on a device of that
    /// profile.
    ///
    /// # Errors
    /// If there is no such profile, or no flash cache.
    pub fn directory_on(&self, rig: &mut Rig, image: &Image, profile: &str) -> anyhow::Result<()> {
        let (Some(media), Some(CacheOptions::Slots(tier))) = (&self.flash, &rig.tier) else {
            bail!("there is no flash cache of slots")
        };
        let tail = rig.modelled.last().context("the flash device is modelled")?.clone();
        let head: Modelled = Arc::new(Profile::named(profile)?.build(media.clone(), scale_of(image)));
        let layout = tier.layout();
        rig.modelled.push(head.clone());
        rig.flash = Some(Arc::new(Split { head, tail, boundary: layout.area_offset() }));
        Ok(())
    }

    /// A machine with these media, just switched on: devices idle, SSDs in steady state.
    pub fn machine(
        &self,
        image: &Image,
        config: &BenchConfig,
        run: Run,
        checkpoint_interval: Duration,
    ) -> anyhow::Result<Rig> {
        let (frames, slots) = sizes(config, image.pages, run);
        let scale = scale_of(image);
        let build = |name: &str, media: &Arc<MemoryDevice>| -> anyhow::Result<Modelled> {
            Ok(Arc::new(Profile::named(name)?.build(media.clone(), scale)))
        };
        let under_database =
            if run.system == System::FlashOnly { &config.flash_device } else { &config.disk_device };
        let disk = build(under_database, &self.disk)?;
        let log = build(log_device(&config.flash_device), &self.log)?;
        let flash = self.flash.as_ref().map(|media| build(&config.flash_device, media)).transpose()?;
        let tier = CacheOptions::of(config, run, slots)?;
        let (durable_notes, full_page_writes) = config.redo.notes_and_images(run.system, config.keeps_slots);
        Ok(Rig {
            modelled: [Some(&disk), Some(&log), flash.as_ref()].into_iter().flatten().cloned().collect(),
            disk,
            log,
            log_media: Some(self.log.clone()),
            flash: flash.map(|device| device as Arc<dyn Device>),
            pulls: config.pulls,
            options: Options {
                replacement: config.replacement,
                durable_notes,
                full_page_writes,
                flash_loss: config.flash_loss,
                ..store_options(frames as usize, Some(checkpoint_interval))
            },
            tier,
        })
    }
}

/// The log has a device of its own, of the same time as the flash device: four spindles of the paper's array
/// with their battery-backed cache, an NVMe drive, or SBP's second card (§5.2).
pub fn log_device(flash_device: &str) -> &'static str {
    match flash_device {
        "nvme" => "nvme",
        "fusion-slc" => "fusion-mlc",
        _ => "raid0-4",
    }
}

impl Rig {
    /// A new flash cache on the database, or the database alone.
    pub fn create_layer(&self) -> anyhow::Result<Arc<dyn Layer>> {
        Ok(match (&self.flash, &self.tier) {
            (Some(flash), Some(tier)) if self.pulls => tier.create(flash.clone(), self.disk.clone())?,
            (Some(flash), Some(tier)) => Unpulled::new(tier.create(flash.clone(), self.disk.clone())?),
            _ => DiskLayer::open(self.disk.clone(), PAGE_BYTES)?,
        })
    }

    /// The same layer after a crash.
    pub fn reopen_layer(&self) -> anyhow::Result<(Arc<dyn Layer>, Duration)> {
        Ok(match (&self.flash, &self.tier) {
            (Some(flash), Some(tier)) => tier.reopen(flash.clone(), self.disk.clone())?,
            _ => (DiskLayer::open(self.disk.clone(), PAGE_BYTES)?, Duration::ZERO),
        })
    }

    /// The store's parts and options on `layer`.
    pub fn parts(&self, layer: Arc<dyn Layer>) -> (Parts, Options) {
        (Parts { layer, log: self.log.clone() }, self.options.clone())
    }

    /// Gives back the memory of a modelled log's part before `lsn`, but for its beginning with the master
    /// record.
    fn forget_log_before(&self, lsn: Lsn) {
        let Some(log) = &self.log_media else { return };
        // Offsets are a little more than LSNs, and until the log wraps they go with them.
        let end = lsn.0.min(log.geometry().capacity_bytes);
        let old = end.saturating_sub(LOG_KEPT_BYTES) / LOG_KEPT_BYTES * LOG_KEPT_BYTES;
        log.discard(LOG_KEPT_BYTES, old.saturating_sub(LOG_KEPT_BYTES))
            .expect("the range lies within the device");
    }

    /// Forgets the log that a restart would not read.
    pub fn forget_old_log(&self, store: &Store) {
        self.forget_log_before(store.log_needed().start);
    }

    /// Forgets nearly all of the log: a run that is not going to crash reads its end only.
    pub fn forget_log(&self, store: &Store) {
        self.forget_log_before(Lsn(store.log_needed().end.0.saturating_sub(LOG_KEPT_BYTES)));
    }

    /// From here on modelled devices take no time: for verifying after the measurement.
    pub fn stop_the_clock(&self) {
        self.modelled.iter().for_each(|device| device.set_instant(true));
    }

    /// Counters of the device under the cache (or under the database of flash-only), and of the disk.
    pub fn counters(&self, run: Run) -> (entresol_device::Counters, entresol_device::Counters) {
        let disk = self.disk.counters();
        match (&self.flash, run.system) {
            (Some(flash), _) => (flash.counters(), disk),
            (None, System::FlashOnly) => (disk, entresol_device::Counters::default()),
            (None, _) => (entresol_device::Counters::default(), disk),
        }
    }
}
