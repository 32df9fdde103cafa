//! The loaded database, shared by all simulated runs.

use crate::bench::Progress;
use crate::config::{BenchConfig, Stage};
use anyhow::Context;
use entresol_device::memory::CopyIndex;
use entresol_device::{BaseImage, Device, ImageDevice, MemoryDevice};
use entresol_engine::DiskLayer;
use entresol_store::{CpuModel, FlashLoss, Options, Parts, Replacement, Store};
use entresol_tpcc::{LoadConfig, Scale, Seed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Bytes of a page.
pub const PAGE_BYTES: u32 = 4096;
/// Bytes of disk that a warehouse takes when loaded, a little more than it is measured to be.
const WAREHOUSE_BYTES: u64 = 112 << 20;
/// Bytes of disk that do not depend on the warehouses: items, catalog.
const FIXED_BYTES: u64 = 32 << 20;
/// Size of the log device.
pub const LOG_BYTES: u64 = 4 << 30;
/// Fewest and most bytes of that log that may be kept so that the flash may be lost.
pub fn kept_log_bytes() -> (u64, u64) {
    FlashLoss::log_bytes_possible(PAGE_BYTES, LOG_BYTES)
}

/// Frames while loading; bulk loading needs few.
const LOAD_FRAMES: usize = 4096;

/// A database after loading and a clean shutdown, with its log.
pub struct Image {
    /// The disk's content.
    pub disk: Arc<BaseImage>,
    /// The log device's content.
    pub log: Arc<BaseImage>,
    /// Pages of the database.
    pub pages: u64,
    copies: OnceLock<Arc<CopyIndex>>,
}

impl Image {
    /// Finds what is in the database by its content. Made when it is first asked for.
    pub fn copies(&self) -> Arc<CopyIndex> {
        self.copies.get_or_init(|| Arc::new(CopyIndex::of(self.disk.clone()))).clone()
    }
}

/// A core of the paper's machine (i7-860): it spends about half a millisecond on an average transaction.
pub const CPU: CpuModel =
    CpuModel { per_fix: Duration::from_micros(2), per_transaction: Duration::from_micros(200) };

/// How the store is set up in all systems.
pub fn store_options(frames: usize, checkpoint_interval: Option<Duration>) -> Options {
    Options {
        page_bytes: PAGE_BYTES,
        frames,
        replacement: Replacement::Lru,
        checkpoint_interval,
        full_page_writes: true,
        // Only where the layer knows at no cost what is durable; see `Rig`.
        durable_notes: false,
        flash_loss: FlashLoss::Fatal,
        watcher: None,
        // What a load is given holds nothing of value.
        overwrite: true,
    }
}

/// Bytes of disk for so many warehouses, with room for what a run adds.
pub fn disk_bytes(warehouses: u32) -> u64 {
    let loaded = FIXED_BYTES + u64::from(warehouses) * WAREHOUSE_BYTES;
    (loaded + loaded / 2).next_multiple_of(1 << 20)
}

/// Loads the database into memory.
pub fn load(config: &BenchConfig, progress: Progress<'_>) -> anyhow::Result<Image> {
    let disk = Arc::new(ImageDevice::new("disk", disk_bytes(config.warehouses)));
    let log = Arc::new(MemoryDevice::new("log", LOG_BYTES));
    let load = LoadConfig { scale: Scale::standard(config.warehouses), seed: Seed(config.seed) };
    let pages = fill(disk.clone(), log.clone(), &load, progress)?;
    progress(usize::MAX, Stage::Done);
    let disk = Arc::into_inner(disk).context("the disk is still in use after the shutdown")?;
    let log = Arc::into_inner(log).context("the log is still in use after the shutdown")?;
    Ok(Image { disk: disk.freeze(), log: log.freeze(), pages, copies: OnceLock::new() })
}

/// Loads a database onto devices that hold nothing of value, and shuts it down. Returns its pages.
pub fn fill(
    disk: Arc<dyn Device>,
    log: Arc<dyn Device>,
    load: &LoadConfig,
    progress: Progress<'_>,
) -> anyhow::Result<u64> {
    let layer = DiskLayer::create(disk, PAGE_BYTES)?;
    let store = Store::create(Parts { layer, log }, store_options(LOAD_FRAMES, None))?;
    entresol_tpcc::load(&store, load, &mut |at| progress(usize::MAX, Stage::Loading(at.rows, at.rows_total)))
        .context("loading the TPC-C database")?;
    let pages = store.pages();
    store.shutdown()?;
    Ok(pages)
}
