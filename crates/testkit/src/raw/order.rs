//! The order of work on a page when no user above keeps it: readers and a writer of a cache of raw pages work
//! on the same pages at once. A read that begins after a write has returned sees that write, or a later one;
//! so does one that begins after a read has, with what that one has seen. And writers: disk and flash have
//! the same version in the end.

use super::devices::{holding, paced};
use super::{Cache, LATENCY_MAX, failed, simulation};
use crate::watched::Watched;
use entresol_core::{Lsn, Mode, PageId, PolicyKind};
use entresol_device::{Device, FaultPlan, MemoryDevice};
use entresol_engine::{
    DiskLayer, FlashTier, Layer, PageCache, ReadRoute, TierError, TierOptions, Victim, disk_offset,
    flash_bytes,
};
use entresol_runtime::rng::Rng;
use entresol_runtime::sim::Outcome;
use entresol_runtime::spawn;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

const PAGE_BYTES: usize = 4096;
const PAGES: u64 = 100;
const READERS: u64 = 3;
const WRITERS: u64 = 3;
/// Reads of each reader, and writes.
const STEPS: u64 = 150;

/// Caches that populate in different ways, and some that do not.
pub const CACHES: [Cache; 12] = [
    Cache::raw(PolicyKind::Lru, Mode::WriteThrough),
    Cache::raw(PolicyKind::Fifo, Mode::WriteAround),
    Cache::raw(PolicyKind::Flashcache, Mode::WriteThrough),
    Cache::raw(PolicyKind::Tac, Mode::WriteThrough),
    Cache::raw(PolicyKind::FaceGsc, Mode::WriteBack),
    Cache::raw(PolicyKind::FaceGsc, Mode::WriteThrough),
    Cache::raw(PolicyKind::Face, Mode::WriteThrough),
    Cache::raw(PolicyKind::FaceGr, Mode::WriteThrough),
    Cache::raw(PolicyKind::Reuse, Mode::WriteBack),
    Cache::raw(PolicyKind::Lc, Mode::WriteBack),
    Cache::raw(PolicyKind::ReuseSlots, Mode::WriteBack),
    Cache::raw(PolicyKind::Clock, Mode::WriteBack),
];

pub(super) fn bytes(version: u64) -> Vec<u8> {
    version.to_le_bytes().repeat(PAGE_BYTES / 8)
}

/// What the tasks share: of each page, the version that it is at least at.
type Written = Arc<Vec<AtomicU64>>;

fn read(tier: &FlashTier, written: &Written, rng: &mut Rng) -> Result<(), String> {
    let mut buffer = vec![0; PAGE_BYTES];
    for _ in 0..STEPS {
        let page = rng.below(PAGES);
        let least = written[page as usize].load(SeqCst);
        match rng.below(2) {
            0 => tier.fetch(PageId(page), &mut buffer).map(drop),
            _ => tier.read_pages(PageId(page), &mut buffer, ReadRoute::Populates).map(drop),
        }
        .map_err(failed)?;
        let mut found = [0; 8];
        found.copy_from_slice(&buffer[..8]);
        let found = u64::from_le_bytes(found);
        if found < least || buffer != bytes(found) {
            return Err(format!("page {page} at version {found}, {least} was written or read before"));
        }
        written[page as usize].fetch_max(found, SeqCst);
    }
    Ok(())
}

fn write(tier: &FlashTier, written: &Written, page: u64, version: u64) -> Result<(), TierError> {
    let victim = Victim { page: PageId(page), lsn: Lsn(0), dirty: true, fdirty: true };
    tier.evict(victim, &bytes(version))?;
    written[page as usize].fetch_max(version, SeqCst);
    Ok(())
}

pub(super) fn options(cache: Cache) -> TierOptions {
    let Cache { policy, mode, page_format, .. } = cache;
    let (slots, policy) = (64, policy.expect("pages under a policy"));
    TierOptions {
        page_format,
        mode,
        group_pages: 4,
        staging_groups: 2,
        segment_entries: 64,
        slots,
        history: policy.history(slots),
        keeps_slots: cache.slots_survive(),
        ..TierOptions::new(policy, slots)
    }
}

/// A cache, and its disk.
fn create(cache: Cache) -> Result<(Arc<FlashTier>, Arc<Watched>), TierError> {
    let options = options(cache);
    let plan = Arc::new(FaultPlan::none());
    let device = |name: &str, bytes| paced(name, MemoryDevice::new(name, bytes), &plan, LATENCY_MAX);
    let flash = device("flash", flash_bytes(&options));
    let medium = MemoryDevice::new("disk", disk_offset(PageId(PAGES), PAGE_BYTES as u32));
    let disk = holding("disk", medium, &plan, LATENCY_MAX);
    DiskLayer::create(disk.clone(), PAGE_BYTES as u32)?.close()?;
    Ok((FlashTier::create(flash, disk.clone(), options)?, disk))
}

/// One cache under readers and a writer.
///
/// # Errors
/// What was wrong.
pub fn run(cache: Cache, seed: u64) -> Result<(), String> {
    let lived = simulation(seed).run(|| {
        let (tier, _) = create(cache)?;
        let written: Written = Arc::new((0..PAGES).map(|_| AtomicU64::new(0)).collect());
        for page in 0..PAGES {
            write(&tier, &written, page, 1)?;
        }
        let wrong = Arc::new(Mutex::new(None));
        let start = |reader: u64| {
            let (tier, written, wrong) = (tier.clone(), written.clone(), wrong.clone());
            spawn("reader", move || {
                if let Err(what) = read(&tier, &written, &mut Rng::new(seed ^ reader << 40)) {
                    *wrong.lock() = Some(what);
                }
            })
        };
        let readers: Vec<_> = (0..READERS).map(start).collect();
        let mut rng = Rng::new(seed ^ 1 << 50);
        // One writer, so that versions are in order.
        for version in 2..2 + STEPS {
            write(&tier, &written, rng.below(PAGES), version)?;
        }
        readers.into_iter().for_each(|reader| reader.join());
        tier.close()?;
        Ok(wrong.lock().take())
    });
    judge(cache, seed, lived)
}

/// Writers of the same pages at once: when they are done, every reader gets the version of one of the last
/// writers of a page, and the disk has the same, unless it is written back later.
///
/// # Errors
/// What was wrong.
pub fn writers(cache: Cache, seed: u64) -> Result<(), String> {
    let lived = simulation(seed).run(|| {
        let (tier, disk) = create(cache)?;
        let written: Written = Arc::new((0..PAGES).map(|_| AtomicU64::new(0)).collect());
        let start = |writer: u64| {
            let (tier, written) = (tier.clone(), written.clone());
            spawn("writer", move || {
                let mut rng = Rng::new(seed ^ writer << 40);
                let mut write_some = || {
                    (0..STEPS).try_for_each(|step| {
                        let (page, version) = (rng.below(PAGES / 20), step * WRITERS + writer + 1);
                        match rng.below(4) {
                            // Several together, of which others write some at once.
                            pages @ 1.. => {
                                tier.write_pages(PageId(page), &bytes(version).repeat(pages as usize))
                            }
                            0 => write(&tier, &written, page, version),
                        }
                    })
                };
                write_some().expect("nothing fails");
            })
        };
        let all: Vec<_> = (0..WRITERS).map(start).collect();
        all.into_iter().for_each(|writer| writer.join());
        let (mut buffer, mut on_disk) = (vec![0; PAGE_BYTES], vec![0; PAGE_BYTES]);
        for page in 0..PAGES / 20 {
            tier.fetch(PageId(page), &mut buffer)?;
            let offset = disk_offset(PageId(page), PAGE_BYTES as u32);
            disk.read(offset, &mut on_disk).map_err(|error| TierError::Refused(error.to_string()))?;
            if cache.mode != Mode::WriteBack && buffer != on_disk {
                return Ok(Some(format!("page {page} is another one on disk than in the cache")));
            }
        }
        tier.close()?;
        Ok(None)
    });
    judge(cache, seed, lived)
}

pub(super) fn judge(
    cache: Cache,
    seed: u64,
    lived: Outcome<Result<Option<String>, TierError>>,
) -> Result<(), String> {
    let wrong = |what: String| Err(format!("{cache}, seed {seed}: {what}"));
    match lived {
        Outcome::Finished(Ok(None)) => Ok(()),
        Outcome::Finished(Ok(Some(what))) => wrong(what),
        Outcome::Finished(Err(error)) => wrong(TierError::to_string(&error)),
        Outcome::Halted => wrong("halted".to_owned()),
        Outcome::Deadlock { parked } => wrong(format!("deadlock of {parked:?}")),
        Outcome::Panicked(message) => wrong(message),
    }
}
