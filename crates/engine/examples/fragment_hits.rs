//! Hits of SCE's cache of raw pages, 4 KiB each, that are all on flash: counted by callgrind, or timed.
//!
//! Usage: `fragment_hits <kept> count <calls>` or `fragment_hits <kept> time <threads> <seconds> <folder>`
//!
//! `kept` is the number of fragments whose proofs are in memory, of 256 on flash. Pages are drawn uniformly,
//! which is the worst case: a page of another fragment is read together with its fragment's block of proofs.

use entresol_core::PageId;
use entresol_device::{Device, FileDevice, FileOptions, open_device};
use entresol_engine::{
    DiskLayer, FragmentOptions, FragmentTier, Layer, PageCache, ReadRoute, TierError, disk_offset,
};
use entresol_format::PageFormat;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const PAGE_BYTES: usize = 4096;
const FRAGMENT: u32 = 256;
const FRAGMENTS: u32 = 256;
const PAGES: u64 = FRAGMENT as u64 * FRAGMENTS as u64;

#[inline(never)]
fn counted_hits(tier: &Arc<FragmentTier>, pages: &[PageId], buffer: &mut [u8]) -> Result<(), TierError> {
    for page in pages {
        hit(tier, *page, buffer)?;
    }
    Ok(())
}

/// As the block door has it: a read of its own, if the proofs are in memory.
fn hit(tier: &Arc<FragmentTier>, page: PageId, buffer: &mut [u8]) -> Result<(), TierError> {
    if let Some(read) = tier.clone().begin_read(page, 1)
        && read.read_now(buffer).is_ok()
        && read.end(buffer)
    {
        return Ok(());
    }
    let served = black_box(tier.read_pages(page, buffer, ReadRoute::Populates)?);
    assert_eq!(served.disk, 0, "all pages are on flash");
    Ok(())
}

fn page(nth: u64) -> PageId {
    PageId(nth.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & (PAGES - 1))
}

fn timed(tier: &Arc<FragmentTier>, threads: u64, seconds: f64) {
    let (done, hits) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (done, hits) = (&done, &hits);
            scope.spawn(move || {
                let mut buffer = entresol_device::AlignedBuffer::new(PAGE_BYTES);
                let mut nth = thread << 32;
                while !done.load(Relaxed) {
                    hit(tier, page(nth), &mut buffer).expect("the devices work");
                    nth += 1;
                }
                hits.fetch_add(nth - (thread << 32), Relaxed);
            });
        }
        std::thread::sleep(Duration::from_secs_f64(seconds));
        done.store(true, Relaxed);
    });
    println!("{:.0}", hits.into_inner() as f64 / seconds);
}

fn open(path: &Path, bytes: u64) -> Result<Arc<dyn Device>, Box<dyn std::error::Error>> {
    let options = FileOptions { is_direct_wanted: false, ..FileOptions::create(bytes) };
    Ok(Arc::new(FileDevice::open(path, options)?))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let usage = "usage: fragment_hits <kept> count <calls> | <kept> time <threads> <seconds> <folder>";
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let temporary = tempfile::tempdir()?;
    let (kept, folder) = match arguments[..] {
        [kept, "count", _] => (kept, temporary.path()),
        [kept, "time", _, _, folder] => (kept, Path::new(folder)),
        _ => return Err(usage.into()),
    };
    let usual = FragmentOptions::of_pages(PAGES as u32, PAGE_BYTES as u32, PageFormat::Raw);
    let options =
        FragmentOptions { pace_permille: 1000, overwrite: true, ..usual.with_fragments(FRAGMENT, FRAGMENTS) };
    let options = FragmentOptions { proofs_kept: kept.parse()?, ..options };
    let disk = open(&folder.join("disk"), disk_offset(PageId(PAGES), PAGE_BYTES as u32))?;
    DiskLayer::create_on(disk.clone(), PAGE_BYTES as u32, true)?.close()?;
    // Counted, all is in this thread.
    let flash = match folder == temporary.path() {
        true => open(&folder.join("flash"), options.flash_bytes())?,
        false => open_device(folder.join("flash"), FileOptions::create(options.flash_bytes()))?.device,
    };
    let tier = FragmentTier::open(flash, disk, options)?;
    let mut buffer = entresol_device::AlignedBuffer::new(PAGE_BYTES);
    while tier.metrics().slots_valid < PAGES {
        for fragment in 0..FRAGMENTS {
            tier.read_pages(PageId((fragment * FRAGMENT).into()), &mut buffer, ReadRoute::Populates)?;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    for fragment in 0..FRAGMENTS {
        hit(&tier, PageId((fragment * FRAGMENT).into()), &mut buffer)?;
    }
    match arguments[..] {
        [_, "count", calls] => {
            let sample: Vec<PageId> = (0..calls.parse()?).map(page).collect();
            counted_hits(&tier, &sample, &mut buffer)?;
        }
        [_, "time", threads, seconds, _] => timed(&tier, threads.parse()?, seconds.parse()?),
        _ => return Err(usage.into()),
    }
    tier.close()?;
    Ok(())
}
