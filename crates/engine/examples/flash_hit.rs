//! Random fetches that hit flash, at full speed: the cost of the tier compared with the bare device.
//!
//! ```text
//! flash_hit fill FLASH DISK MIB           a new cache of MIB on FLASH, its slots nearly all filled
//! flash_hit run FLASH DISK THREADS SECONDS   prints fetches a second
//! ```
//!
//! Each fetch includes all steps: directory, read, checksum, page id, generation. `benches/flash_hit.sh`
//! compares it with fio on the same file.

use entresol_core::{Lsn, PageId, PolicyKind};
use entresol_device::{Device, FileOptions, open_device};
use entresol_engine::{DiskLayer, FlashTier, Layer, Source, TierOptions, Victim, disk_offset};
use entresol_format::page;
use entresol_runtime::rng::Rng;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error>>;

const PAGE_BYTES: usize = 4096;
/// Share of the slots that is filled. With more, the tier would begin to dequeue.
const FILLED: f64 = 0.9;

/// A page in memory that direct I/O can use as it is.
#[repr(align(4096))]
struct Frame([u8; PAGE_BYTES]);

fn open(path: &str, options: FileOptions) -> Outcome<Arc<dyn Device>> {
    let opened = open_device(path, options)?;
    opened.notices.iter().for_each(|notice| eprintln!("{notice}"));
    Ok(opened.device)
}

fn tier_options(flash: &dyn Device) -> TierOptions {
    TierOptions::for_device(PolicyKind::FaceGsc, flash.geometry().capacity_bytes, PAGE_BYTES as u32)
}

fn pages(options: &TierOptions) -> u64 {
    (f64::from(options.slots) * FILLED) as u64
}

fn fill(flash: &str, disk: &str, mib: u64) -> Outcome<()> {
    let flash = open(flash, FileOptions::create(mib << 20))?;
    // Overwrites the whole file once. This removes the pages of an earlier run. Also, a file system answers
    // reads of ranges that were never written without the device, which would make a bare read of the file
    // too fast.
    let nothing = vec![0; 1 << 20];
    (0..mib).try_for_each(|at| flash.write(at << 20, &nothing))?;
    let options = tier_options(&*flash);
    let pages = pages(&options);
    let disk = open(disk, FileOptions::create(disk_offset(PageId(pages), PAGE_BYTES as u32)))?;
    disk.write(0, &[0; 64 << 10])?;
    DiskLayer::create(disk.clone(), PAGE_BYTES as u32)?.close()?;
    let tier = FlashTier::create(flash, disk, options)?;
    let mut frame = Box::new(Frame([0; PAGE_BYTES]));
    for number in 0..pages {
        let id = PageId(number);
        let head = page::header_mut(&mut frame.0);
        head.page.set(number);
        head.lsn.set(1);
        for (at, bytes) in frame.0[32..].chunks_exact_mut(8).enumerate() {
            bytes.copy_from_slice(&(number ^ at as u64).to_le_bytes());
        }
        tier.evict(Victim { page: id, lsn: Lsn(1), dirty: false, fdirty: true }, &frame.0)?;
    }
    Ok(tier.close()?)
}

fn run(flash: &str, disk: &str, threads: u64, seconds: u64) -> Outcome<()> {
    let flash = open(flash, FileOptions::existing())?;
    let options = tier_options(&*flash);
    let pages = pages(&options);
    let (tier, _) = FlashTier::open(flash, open(disk, FileOptions::existing())?, options)?;
    let (stop, fetches, elsewhere) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let client = |seed| {
        let mut rng = Rng::new(seed);
        let mut frame = Box::new(Frame([0; PAGE_BYTES]));
        let (mut done, mut missed) = (0, 0);
        while !stop.load(Relaxed) {
            let fetched = tier.fetch(PageId(rng.below(pages)), &mut frame.0).expect("no device fails");
            done += 1;
            missed += u64::from(fetched.source != Source::Flash);
        }
        fetches.fetch_add(done, Relaxed);
        elsewhere.fetch_add(missed, Relaxed);
    };
    let began = Instant::now();
    thread::scope(|scope| {
        for seed in 0..threads {
            let client = &client;
            scope.spawn(move || client(seed));
        }
        thread::sleep(Duration::from_secs(seconds));
        stop.store(true, Relaxed);
    });
    let rate = fetches.into_inner() as f64 / began.elapsed().as_secs_f64();
    tier.close()?;
    match elsewhere.into_inner() {
        0 => {
            println!("{rate:.0}");
            Ok(())
        }
        missed => Err(format!("{missed} fetches did not hit flash; fill it first").into()),
    }
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["fill", flash, disk, mib] => fill(flash, disk, mib.parse()?),
        ["run", flash, disk, threads, seconds] => run(flash, disk, threads.parse()?, seconds.parse()?),
        _ => Err("usage: flash_hit fill FLASH DISK MIB | flash_hit run FLASH DISK THREADS SECONDS".into()),
    }
}
