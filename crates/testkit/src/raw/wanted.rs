//! Pages that their owner wants on disk, while others write and read them, and write some past the cache:
//! the disk never goes back, and has what it was to have, durably.

use super::devices::paced;
use super::order::{bytes, judge, options};
use super::{Cache, LATENCY_MAX, simulation};
use crate::watched::Watched;
use entresol_core::{Lsn, Mode, PageId, PolicyKind};
use entresol_device::{Device, DeviceError, FaultPlan, MemoryDevice, Survival};
use entresol_engine::{
    Deletes, DiskLayer, FlashTier, Layer, PageCache, PageSet, TierError, Victim, WholeDisk, disk_offset,
    flash_bytes,
};
use entresol_runtime::rng::Rng;
use entresol_runtime::spawn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

const PAGE_BYTES: usize = 4096;
const PAGES: u64 = 120;
const WRITERS: u64 = 3;
/// Of each writer.
const STEPS: u64 = 250;

/// Policies that keep dirty pages in a log, or in slots.
pub const CACHES: [Cache; 6] = [
    Cache::raw(PolicyKind::Face, Mode::WriteBack),
    Cache::raw(PolicyKind::FaceGr, Mode::WriteBack),
    Cache::raw(PolicyKind::FaceGsc, Mode::WriteBack),
    Cache::raw(PolicyKind::Reuse, Mode::WriteBack),
    Cache::raw(PolicyKind::S3Fifo, Mode::WriteBack),
    Cache::raw(PolicyKind::ReuseSlots, Mode::WriteBack),
];

fn failed(error: &DeviceError) -> TierError {
    TierError::Refused(error.to_string())
}

fn number_in(bytes: &[u8]) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(number)
}

/// A cache with its disk, and of each page the version that was written last.
struct World {
    tier: Arc<FlashTier>,
    disk: Arc<Watched>,
    written: Vec<AtomicU64>,
    /// Begins and ends of writes of each page past the cache: until one ends, the disk may have an older
    /// version than the cache had.
    past: Vec<AtomicU64>,
    /// What the disk was last seen to have.
    on_disk: Vec<AtomicU64>,
    is_over: AtomicBool,
}

impl World {
    fn create(cache: Cache) -> Result<Arc<Self>, TierError> {
        let options = options(cache);
        let plan = Arc::new(FaultPlan::none());
        let device = |name: &str, bytes| paced(name, MemoryDevice::new(name, bytes), &plan, LATENCY_MAX);
        let flash = device("flash", flash_bytes(&options));
        let disk = device("disk", disk_offset(PageId(PAGES), PAGE_BYTES as u32));
        DiskLayer::create(disk.clone(), PAGE_BYTES as u32)?.close()?;
        let home = WholeDisk::new(disk.clone(), PAGE_BYTES as u32);
        let tier = FlashTier::create_at(flash, home, options)?;
        let zeros = || (0..PAGES).map(|_| AtomicU64::new(0)).collect();
        let (written, past, on_disk) = (zeros(), zeros(), zeros());
        Ok(Arc::new(Self { tier, disk, written, past, on_disk, is_over: AtomicBool::new(false) }))
    }

    /// Writes and reads pages of its own.
    fn write(&self, writer: u64, rng: &mut Rng) -> Result<(), TierError> {
        let mut buffer = vec![0; PAGE_BYTES];
        for version in 1..=STEPS {
            let page = rng.below(PAGES / WRITERS) * WRITERS + writer;
            let id = PageId(page);
            match rng.below(8) {
                0 => {
                    self.past[page as usize].fetch_add(1, SeqCst);
                    self.tier.forget(id, id)?;
                    let offset = disk_offset(id, PAGE_BYTES as u32);
                    self.disk.write(offset, &bytes(version)).map_err(|error| failed(&error))?;
                    self.written[page as usize].store(version, SeqCst);
                    self.past[page as usize].fetch_add(1, SeqCst);
                }
                1..=4 => {
                    let victim = Victim { page: id, lsn: Lsn(0), dirty: true, fdirty: true };
                    self.tier.evict(victim, &bytes(version))?;
                    self.written[page as usize].store(version, SeqCst);
                }
                _ => {
                    self.tier.fetch(id, &mut buffer)?;
                    let newest = self.written[page as usize].load(SeqCst);
                    if number_in(&buffer) != newest {
                        let what = format!("page {page}: {} served, not {newest}", number_in(&buffer));
                        return Err(TierError::Refused(what));
                    }
                }
            }
        }
        Ok(())
    }

    /// What the disk has of a page: never an older version than before.
    fn look(&self, page: u64) -> Result<u64, TierError> {
        let mut buffer = vec![0; PAGE_BYTES];
        let before = self.on_disk[page as usize].load(SeqCst);
        let offset = disk_offset(PageId(page), PAGE_BYTES as u32);
        self.disk.read(offset, &mut buffer).map_err(|error| failed(&error))?;
        let found = number_in(&buffer);
        self.on_disk[page as usize].fetch_max(found, SeqCst);
        match found < before {
            true => {
                Err(TierError::Refused(format!("page {page} on disk went back from {before} to {found}")))
            }
            false => Ok(found),
        }
    }

    /// Has some pages on disk, again and again.
    fn destage(&self, rng: &mut Rng) -> Result<(), TierError> {
        while !self.is_over.load(SeqCst) {
            let first = rng.below(PAGES);
            let last = first + rng.below(PAGES - first);
            self.destage_some(first, last)?;
        }
        self.destage_some(0, PAGES - 1)
    }

    fn destage_some(&self, first: u64, last: u64) -> Result<(), TierError> {
        let past = |page: u64| self.past[page as usize].load(SeqCst);
        let newest = |page: u64| (page, past(page), self.written[page as usize].load(SeqCst));
        let wanted: Vec<(u64, u64, u64)> = (first..=last).map(newest).collect();
        self.tier.destage(&PageSet::Range(PageId(first), PageId(last)))?;
        for (page, past_then, wanted) in wanted {
            let found = self.look(page)?;
            if found < wanted && past(page) == past_then && past_then.is_multiple_of(2) {
                let what = format!("page {page} is at version {found} on disk, {wanted} was to be there");
                return Err(TierError::Refused(what));
            }
        }
        Ok(())
    }

    /// When all has ended: nothing is dirty, and the disk has everything, also after a power failure.
    fn settled(&self) -> Result<Option<String>, TierError> {
        if self.tier.dirty_pages() > 0 {
            return Ok(Some(format!("{} pages are dirty in the end", self.tier.dirty_pages())));
        }
        let left = self.disk.inner.after_crash(&Survival::None);
        let mut buffer = vec![0; PAGE_BYTES];
        for page in 0..PAGES {
            let newest = self.written[page as usize].load(SeqCst);
            left.read(disk_offset(PageId(page), PAGE_BYTES as u32), &mut buffer).map_err(|e| failed(&e))?;
            if number_in(&buffer) != newest {
                let found = number_in(&buffer);
                return Ok(Some(format!("page {page}: the disk has {found} durably, not {newest}")));
            }
        }
        Ok(None)
    }
}

/// One cache under writers, and an owner that wants pages on disk.
///
/// # Errors
/// What was wrong.
pub fn run(cache: Cache, seed: u64) -> Result<(), String> {
    let lived = simulation(seed).run(|| {
        let world = World::create(cache)?;
        let start = |name: &str, id: u64, work: fn(&World, u64, &mut Rng) -> Result<(), TierError>| {
            let world = world.clone();
            spawn(name, move || {
                let done = work(&world, id, &mut Rng::new(seed ^ id << 40));
                done.unwrap_or_else(|error| panic!("{error}"));
            })
        };
        let writers: Vec<_> = (0..WRITERS).map(|id| start("writer", id, World::write)).collect();
        let owners = [WRITERS, WRITERS + 1].map(|id| start("owner", id, |world, _, rng| world.destage(rng)));
        writers.into_iter().for_each(|writer| writer.join());
        world.is_over.store(true, SeqCst);
        owners.into_iter().for_each(|owner| owner.join());
        let wrong = world.settled()?;
        world.tier.close()?;
        Ok(wrong)
    });
    judge(cache, seed, lived)
}
