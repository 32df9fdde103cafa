//! What a flush of a cache of raw pages costs: writes, blocks and syncs of flash, slots that are lost to it,
//! and how callers at the same time share. In simulation, on devices that take a fixed time.
//!
//! Usage: `cargo run --release -p entresol-engine --example flush_costs`

use entresol_core::{Lsn, Mode, PageId, PolicyKind};
use entresol_device::{Counters, Device, DeviceError, Geometry, Io, MemoryDevice};
use entresol_engine::{
    DiskLayer, FlashTier, Layer, PageCache, TierError, TierOptions, Victim, disk_offset, flash_bytes, inspect,
};
use entresol_format::PageFormat;
use entresol_runtime::sim::{SimConfig, Simulation};
use entresol_runtime::{sleep, spawn};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

const PAGE_BYTES: usize = 4096;
const PAGES: u64 = 1 << 16;
/// Flushes of each caller.
const FLUSHES: u64 = 256;
/// Time of a request, and of a sync.
const REQUEST: Duration = Duration::from_micros(20);
const SYNC: Duration = Duration::from_micros(400);

/// A device that takes its time and counts.
struct Counted {
    inner: MemoryDevice,
    writes: AtomicU64,
    bytes: AtomicU64,
    syncs: AtomicU64,
}

impl Counted {
    fn new(name: &str, bytes: u64) -> Arc<Self> {
        let inner = MemoryDevice::new(name, bytes);
        Arc::new(Self { inner, writes: 0.into(), bytes: 0.into(), syncs: 0.into() })
    }

    /// Writes, bytes written and syncs so far.
    fn counts(&self) -> [u64; 3] {
        [&self.writes, &self.bytes, &self.syncs].map(|count| count.load(SeqCst))
    }
}

impl Device for Counted {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        sleep(REQUEST);
        for io in batch.iter() {
            if let Io::Write { data, .. } = io {
                self.writes.fetch_add(1, SeqCst);
                self.bytes.fetch_add(data.len() as u64, SeqCst);
            }
        }
        self.inner.run(batch)
    }
    fn sync(&self) -> Result<(), DeviceError> {
        sleep(SYNC);
        self.syncs.fetch_add(1, SeqCst);
        self.inner.sync()
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.inner.discard(offset, length)
    }
    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.inner.drop_cached()
    }
    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}

/// Flash writes, bytes, syncs and slots that were used by `callers` that write `pages` and flush, in turn.
fn run(callers: u64, pages: u64) -> Result<[u64; 4], TierError> {
    let options = TierOptions {
        page_format: PageFormat::Raw,
        mode: Mode::WriteBack,
        ..TierOptions::new(PolicyKind::FaceGsc, 1 << 15)
    };
    let simulation = Simulation::new(SimConfig::default());
    let result = simulation.run(|| {
        let flash = Counted::new("flash", flash_bytes(&options));
        let disk = Counted::new("disk", disk_offset(PageId(PAGES), PAGE_BYTES as u32));
        DiskLayer::create(disk.clone(), PAGE_BYTES as u32)?.close()?;
        let tier = FlashTier::create(flash.clone(), disk, options.clone())?;
        let before = flash.counts();
        let caller = |caller: u64| {
            let tier = tier.clone();
            spawn("caller", move || {
                let data = vec![caller as u8; PAGE_BYTES];
                for flush in 0..FLUSHES / callers {
                    for at in 0..pages {
                        let page = PageId((caller << 12) + (flush * pages + at) % (1 << 12));
                        let victim = Victim { page, lsn: Lsn(0), dirty: true, fdirty: true };
                        tier.evict(victim, &data).expect("the devices do not fail");
                    }
                    tier.flush().expect("the devices do not fail");
                }
            })
        };
        let tasks: Vec<_> = (0..callers).map(caller).collect();
        tasks.into_iter().for_each(|task| task.join());
        let after = flash.counts();
        drop(tier);
        // Nothing was dequeued: all positions that were given out are pages, or lost.
        let slots = inspect(&*flash)?.directory.map_or(0, |directory| directory.rear.0);
        let [writes, bytes, syncs] = std::array::from_fn(|at| after[at] - before[at]);
        Ok([writes, bytes, syncs, slots])
    });
    result.unwrap()
}

fn main() -> Result<(), TierError> {
    println!("pages  callers   writes   blocks beside pages   syncs   slots lost in all");
    for (pages, callers) in [(1, 1), (2, 1), (8, 1), (64, 1), (1, 4), (1, 16), (8, 4), (8, 16)] {
        let [writes, bytes, syncs, slots] = run(callers, pages)?;
        let each = |count: u64| count as f64 / FLUSHES as f64;
        let blocks = bytes / PAGE_BYTES as u64 - FLUSHES * pages;
        let lost = slots - FLUSHES * pages;
        let (writes, blocks, syncs) = (each(writes), each(blocks), each(syncs));
        println!("{pages:>5}  {callers:>7}   {writes:>6.2}   {blocks:>19.2}   {syncs:>5.2}   {lost:>17}");
    }
    Ok(())
}
