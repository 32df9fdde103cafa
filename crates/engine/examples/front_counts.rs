//! Runs one path of a front a given number of times, in a function of its own that callgrind can count: in
//! memory of this process, and in a segment. `benches/instructions.sh` runs it.
//!
//! Usage: `front_counts <private | mapped> <fetch-hit | fetch-miss | evict> <calls>`
//!
//! A hit is one on flash, with the proof of its page and the call of the read (not what the kernel does). An
//! eviction includes the copy of the page and its checksum.

use entresol_core::{Lsn, PageId, PolicyKind};
use entresol_device::{Device, FileDevice, FileOptions};
use entresol_engine::{
    AttachOptions, DiskLayer, FlashTier, Layer, SharedFront, Sharing, TierError, TierOptions, Victim,
    WholeDisk, disk_offset, flash_bytes,
};
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

const PAGE_BYTES: usize = 4096;
const SLOTS: u32 = 1 << 14;
/// Pages on flash, and pages that are nowhere.
const FILLED: u64 = 4096;
const PAGES: u64 = 3 * FILLED;

/// A front, whatever its memory.
enum Front {
    Private(Arc<FlashTier>),
    Mapped(SharedFront),
}

impl Front {
    #[inline(never)]
    fn counted_fetch(&self, pages: &[PageId], buffer: &mut [u8]) -> Result<(), TierError> {
        for page in pages {
            match self {
                Front::Private(tier) => _ = black_box(tier.fetch(*page, buffer)?),
                Front::Mapped(front) => _ = black_box(front.fetch(*page, buffer)?),
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn counted_evict(&self, pages: &[PageId], data: &[u8]) -> Result<(), TierError> {
        for page in pages {
            let victim = Victim { page: *page, lsn: Lsn(1), dirty: true, fdirty: true };
            match self {
                Front::Private(tier) => _ = black_box(tier.evict(victim, data)?),
                Front::Mapped(front) => _ = black_box(front.evict(victim, data)?),
            }
        }
        Ok(())
    }
}

fn open(path: &Path, bytes: u64) -> Result<Arc<dyn Device>, Box<dyn std::error::Error>> {
    let options = FileOptions { is_direct_wanted: false, ..FileOptions::create(bytes) };
    Ok(Arc::new(FileDevice::open(path, options)?))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let usage = "usage: front_counts <private | mapped> <fetch-hit | fetch-miss | evict> <calls>";
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [memory, path, calls] = arguments.as_slice() else { return Err(usage.into()) };
    let calls: u64 = calls.parse()?;
    if !(1..=FILLED / 2).contains(&calls) {
        return Err(format!("{calls} calls: choose at most {}", FILLED / 2).into());
    }
    let directory = tempfile::tempdir()?;
    let disk = open(&directory.path().join("disk"), disk_offset(PageId(PAGES), PAGE_BYTES as u32))?;
    DiskLayer::create(disk.clone(), PAGE_BYTES as u32)?.close()?;
    // Room for all evictions of a run: none waits.
    let options = TierOptions { staging_groups: 64, ..TierOptions::new(PolicyKind::FaceGsc, SLOTS) };
    let flash_path = directory.path().join("flash");
    let flash = open(&flash_path, flash_bytes(&options))?;
    let home = WholeDisk::new(disk, PAGE_BYTES as u32);
    let sharing = Sharing { path: directory.path().join("segment"), fronts: 4 };
    let is_mapped = match memory.as_str() {
        "mapped" => true,
        "private" => false,
        _ => return Err(usage.into()),
    };
    let tier = match is_mapped {
        true => FlashTier::create_shared(flash, home, options.clone(), &sharing)?,
        false => FlashTier::create_at(flash, home, options.clone())?,
    };
    let attach = AttachOptions { is_direct: false, ..AttachOptions::default() };
    let front = match is_mapped {
        true => Front::Mapped(SharedFront::attach(&sharing, &flash_path, &options, &attach)?),
        false => Front::Private(tier.clone()),
    };
    let mut page = vec![0; PAGE_BYTES];
    let all: Vec<PageId> = (0..FILLED).map(PageId).collect();
    for pages in all.chunks(256) {
        for page_id in pages {
            entresol_format::page::header_mut(&mut page).page.set(page_id.0);
            tier.evict(Victim { page: *page_id, lsn: Lsn(1), dirty: true, fdirty: true }, &page)?;
        }
        tier.checkpoint()?;
    }
    let sample = |from: u64| -> Vec<PageId> {
        (0..calls).map(|at| PageId(from + at.wrapping_mul(0x9e37_79b9) % FILLED)).collect()
    };
    match (path.as_str(), is_mapped) {
        ("fetch-hit", _) => front.counted_fetch(&sample(0), &mut page)?,
        // A private front's caller reads the disk, too, within the same call.
        ("fetch-miss", true) => front.counted_fetch(&sample(FILLED), &mut page)?,
        ("evict", _) => front.counted_evict(&sample(2 * FILLED), &page)?,
        _ => return Err(usage.into()),
    }
    drop(front);
    tier.close()?;
    Ok(())
}
