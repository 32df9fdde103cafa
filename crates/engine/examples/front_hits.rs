//! Random fetches that hit flash, by fronts in processes of their own and by threads of the back's process.
//!
//! ```text
//! front_hits fill DIRECTORY SLOTS               a new cache in files of DIRECTORY, nine tenths of it filled
//! front_hits processes DIRECTORY COUNT SECONDS  serves it; COUNT processes fetch; prints ns a hit
//! front_hits threads DIRECTORY COUNT SECONDS    the same by threads, with memory of this process
//! front_hits bare DIRECTORY COUNT SECONDS       the reads alone, by processes
//! front_hits serve DIRECTORY SECONDS            serves it for others
//! front_hits hits DIRECTORY COUNT               makes so many fetches of the cache that is served, and ends
//! ```
//!
//! `strace -c -f front_hits hits DIRECTORY 100000` counts the system calls of a front.

use entresol_core::{Lsn, PageId, PolicyKind};
use entresol_device::{Device, FileDevice, FileOptions};
use entresol_engine::{
    AttachOptions, DiskLayer, FlashTier, Layer, SharedFront, Sharing, TierOptions, Victim, WholeDisk,
    disk_offset, flash_bytes,
};
use entresol_format::page;
use entresol_runtime::rng::Rng;
use std::error::Error;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error>>;

const PAGE_BYTES: usize = 4096;
/// Fetches between two looks at the clock.
const BATCH: u64 = 256;

/// The files of a cache.
struct Files {
    directory: PathBuf,
    options: TierOptions,
    sharing: Sharing,
}

impl Files {
    fn of(directory: &str, slots: u32) -> Self {
        let directory = PathBuf::from(directory);
        let sharing = Sharing { path: Path::new("/dev/shm").join("entresol-front-hits"), fronts: 16 };
        Self { options: TierOptions::new(PolicyKind::FaceGsc, slots), sharing, directory }
    }

    /// The files that `fill` has left.
    fn existing(directory: &str) -> Outcome<Self> {
        let slots = std::fs::read_to_string(Path::new(directory).join("slots"))?;
        Ok(Self::of(directory, slots.parse()?))
    }

    fn pages(&self) -> u64 {
        u64::from(self.options.slots) / 10 * 9
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn open(&self, name: &str, bytes: u64) -> Outcome<Arc<dyn Device>> {
        let options = FileOptions { is_direct_wanted: false, ..FileOptions::create(bytes) };
        Ok(Arc::new(FileDevice::open(self.path(name), options)?))
    }

    fn devices(&self) -> Outcome<(Arc<dyn Device>, Arc<WholeDisk>)> {
        let disk = self.open("disk", disk_offset(PageId(self.pages()), PAGE_BYTES as u32))?;
        Ok((self.open("flash", flash_bytes(&self.options))?, WholeDisk::new(disk, PAGE_BYTES as u32)))
    }

    fn attach(&self) -> Outcome<SharedFront> {
        let attach = AttachOptions { is_direct: false, ..AttachOptions::default() };
        Ok(SharedFront::attach(&self.sharing, &self.path("flash"), &self.options, &attach)?)
    }
}

fn fill(files: &Files) -> Outcome<()> {
    std::fs::create_dir_all(&files.directory)?;
    std::fs::write(files.path("slots"), files.options.slots.to_string())?;
    let disk = files.open("disk", disk_offset(PageId(files.pages()), PAGE_BYTES as u32))?;
    DiskLayer::create(disk.clone(), PAGE_BYTES as u32)?.close()?;
    drop(disk);
    let (flash, home) = files.devices()?;
    let tier = FlashTier::create_at(flash, home, files.options.clone())?;
    let mut bytes = vec![0; PAGE_BYTES];
    for number in 0..files.pages() {
        page::header_mut(&mut bytes).page.set(number);
        tier.evict(Victim { page: PageId(number), lsn: Lsn(1), dirty: false, fdirty: true }, &bytes)?;
    }
    Ok(tier.close()?)
}

/// Brings the flash into the page cache again, which an open drops: measured is the front, not the device.
fn warm(files: &Files) -> Outcome<()> {
    let mut flash = std::fs::File::open(files.path("flash"))?;
    std::io::copy(&mut flash, &mut std::io::sink())?;
    Ok(())
}

/// Calls `fetch` with random pages for so long; returns the number of calls.
fn measure(seed: u64, pages: u64, seconds: u64, mut fetch: impl FnMut(u64) -> Outcome<bool>) -> Outcome<u64> {
    let mut rng = Rng::new(seed);
    let (began, mut calls) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_secs(seconds) {
        for _ in 0..BATCH {
            if !fetch(rng.below(pages))? {
                return Err("a fetch did not hit; fill the cache first".into());
            }
        }
        calls += BATCH;
    }
    Ok(calls)
}

/// One of the processes: prints its number of calls.
fn worker(files: &Files, kind: &str, seed: u64, seconds: u64) -> Outcome<()> {
    let mut buffer = vec![0; PAGE_BYTES];
    let calls = match kind {
        "bare" => {
            let (file, layout) = (std::fs::File::open(files.path("flash"))?, files.options.layout());
            measure(seed, files.pages(), seconds, |page| {
                file.read_exact_at(
                    &mut buffer,
                    layout.slot_offset(layout.slot(entresol_core::Position(page))),
                )?;
                Ok(true)
            })?
        }
        _ => {
            let front = files.attach()?;
            measure(seed, files.pages(), seconds, |page| {
                Ok(front.fetch(PageId(page), &mut buffer)?.is_some())
            })?
        }
    };
    println!("{calls}");
    Ok(())
}

fn processes(kind: &str, directory: &str, count: u64, seconds: u64) -> Outcome<u64> {
    let start = |seed: u64| {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["worker", directory, kind, &seed.to_string(), &seconds.to_string()]);
        command.stdout(Stdio::piped()).spawn()
    };
    let children = (0..count).map(start).collect::<Result<Vec<_>, _>>()?;
    let mut calls = 0;
    for child in children {
        let output = child.wait_with_output()?;
        calls += String::from_utf8(output.stdout)?.trim().parse::<u64>()?;
    }
    Ok(calls)
}

fn threads(files: &Files, count: u64, seconds: u64) -> Outcome<u64> {
    let (flash, home) = files.devices()?;
    let (tier, _) = FlashTier::open_at(flash, home, files.options.clone())?;
    warm(files)?;
    let client = |seed: u64| {
        let mut buffer = vec![0; PAGE_BYTES];
        let fetch = |page| Ok(tier.fetch(PageId(page), &mut buffer)?.source != entresol_engine::Source::Disk);
        measure(seed, files.pages(), seconds, fetch).map_err(|error| error.to_string())
    };
    let calls = std::thread::scope(|scope| {
        let client = &client;
        let threads: Vec<_> = (0..count).map(|seed| scope.spawn(move || client(seed))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("it does not panic"))
            .sum::<Result<u64, String>>()
    })?;
    tier.close()?;
    Ok(calls)
}

fn report(calls: u64, count: u64, seconds: u64) {
    let (all, each) = (calls as f64 / seconds as f64, 1e9 * (seconds * count) as f64 / calls as f64);
    println!("{count} at once: {all:.0} hits/s, {:.0} ns a hit, {each:.0} ns of each one's time", 1e9 / all);
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["fill", directory, slots] => fill(&Files::of(directory, slots.parse()?)),
        ["worker", directory, kind, seed, seconds] => {
            worker(&Files::existing(directory)?, kind, seed.parse()?, seconds.parse()?)
        }
        ["processes", directory, count, seconds] => {
            let (files, count, seconds) = (Files::existing(directory)?, count.parse()?, seconds.parse()?);
            let (flash, home) = files.devices()?;
            let (tier, _) = FlashTier::open_shared(flash, home, files.options.clone(), &files.sharing)?;
            warm(&files)?;
            report(processes("hits", directory, count, seconds)?, count, seconds);
            Ok(tier.close()?)
        }
        ["bare", directory, count, seconds] => {
            let (count, seconds) = (count.parse()?, seconds.parse()?);
            warm(&Files::existing(directory)?)?;
            report(processes("bare", directory, count, seconds)?, count, seconds);
            Ok(())
        }
        ["threads", directory, count, seconds] => {
            let (files, count, seconds) = (Files::existing(directory)?, count.parse()?, seconds.parse()?);
            report(threads(&files, count, seconds)?, count, seconds);
            Ok(())
        }
        ["serve", directory, seconds] => {
            let files = Files::existing(directory)?;
            let (flash, home) = files.devices()?;
            let (tier, _) = FlashTier::open_shared(flash, home, files.options.clone(), &files.sharing)?;
            std::thread::sleep(Duration::from_secs(seconds.parse()?));
            Ok(tier.close()?)
        }
        ["hits", directory, count] => {
            let files = Files::existing(directory)?;
            let (front, mut rng, mut buffer) = (files.attach()?, Rng::new(1), vec![0; PAGE_BYTES]);
            for _ in 0..count.parse::<u64>()? {
                let page = PageId(rng.below(files.pages()));
                front.fetch(page, &mut buffer)?.ok_or("a fetch did not hit; fill the cache first")?;
            }
            Ok(())
        }
        _ => Err("usage: front_hits fill DIRECTORY SLOTS | processes | threads | bare DIRECTORY COUNT SECONDS | serve \
                  DIRECTORY SECONDS | hits DIRECTORY COUNT"
            .into()),
    }
}
