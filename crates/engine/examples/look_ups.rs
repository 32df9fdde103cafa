//! Look-ups a second of fronts in processes of their own, side by side: of pages on flash, without their
//! reads, and of pages that are nowhere. Only the second kind takes the directory's latch.
//!
//! ```text
//! look_ups SLOTS MILLISECONDS ROUNDS N,N,...   a new cache in memory, nine tenths filled; N processes at once
//! ```
//!
//! Of all rounds it prints the best and the one in the middle: on a machine with other work the best is the
//! one that was disturbed least. The time of a processor for each look-up does not count waits for a
//! processor.

use entresol_core::{Lsn, PageId, PolicyKind};
use entresol_device::{Device, FileDevice, FileOptions};
use entresol_engine::{
    AttachOptions, DiskLayer, FlashTier, Layer, Place, SharedFront, Sharing, TierOptions, Victim, WholeDisk,
    disk_offset, flash_bytes,
};
use entresol_runtime::rng::Rng;
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error>>;

const PAGE_BYTES: usize = 4096;
/// Look-ups between two looks at the clock.
const BATCH: usize = 1024;
/// Random pages of a process, drawn before it is measured.
const DRAWN: usize = 1 << 16;

/// The files of a cache.
struct Files {
    directory: PathBuf,
    options: TierOptions,
    sharing: Sharing,
}

impl Files {
    fn of(directory: &Path, slots: u32) -> Self {
        let options = TierOptions::new(PolicyKind::FaceGsc, slots);
        let sharing = Sharing::at(directory.join("segment"), 16);
        Self { directory: directory.to_owned(), options, sharing }
    }

    fn pages(&self) -> u64 {
        u64::from(self.options.slots) / 10 * 9
    }

    fn open(&self, name: &str, bytes: u64) -> Outcome<Arc<dyn Device>> {
        let options = FileOptions { is_direct_wanted: false, ..FileOptions::create(bytes) };
        Ok(Arc::new(FileDevice::open(self.directory.join(name), options)?))
    }

    /// Serves a new cache that is nine tenths filled.
    fn serve(&self) -> Outcome<Arc<FlashTier>> {
        let disk = self.open("disk", disk_offset(PageId(self.pages()), PAGE_BYTES as u32))?;
        DiskLayer::create(disk.clone(), PAGE_BYTES as u32)?.close()?;
        let flash = self.open("flash", flash_bytes(&self.options))?;
        let home = WholeDisk::new(disk, PAGE_BYTES as u32);
        let tier = FlashTier::create_shared(flash, home, self.options.clone(), &self.sharing)?;
        let mut bytes = vec![0; PAGE_BYTES];
        for number in 0..self.pages() {
            entresol_format::page::header_mut(&mut bytes).page.set(number);
            tier.evict(Victim { page: PageId(number), lsn: Lsn(1), dirty: false, fdirty: true }, &bytes)?;
        }
        tier.checkpoint()?;
        Ok(tier)
    }

    fn attach(&self) -> Outcome<SharedFront> {
        let attach = AttachOptions { is_direct: false, ..AttachOptions::default() };
        Ok(SharedFront::attach(&self.sharing, &self.directory.join("flash"), &self.options, &attach)?)
    }
}

/// Time of a processor that this process has had, in nanoseconds.
fn processor_time() -> Outcome<f64> {
    let line = std::fs::read_to_string("/proc/self/schedstat")?;
    Ok(line.split(' ').next().ok_or("no time")?.parse()?)
}

/// One of the processes: says that it is there, waits for a line, and prints its look-ups a second.
fn work(files: &Files, kind: &str, seed: u64, milliseconds: u64) -> Outcome<()> {
    let (front, mut rng) = (files.attach()?, Rng::new(seed));
    let first = if kind == "absent" { files.pages() } else { 0 };
    let pages: Vec<PageId> = (0..DRAWN).map(|_| PageId(first + rng.below(files.pages()))).collect();
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;
    let (before, began, mut looked, mut found) = (processor_time()?, Instant::now(), 0_u64, 0_u64);
    for batch in pages.chunks_exact(BATCH).cycle() {
        for page in batch {
            found += u64::from(matches!(front.locate(*page, 1, true)?.0, Place::Flash { .. }));
        }
        looked += BATCH as u64;
        if began.elapsed() >= Duration::from_millis(milliseconds) {
            break;
        }
    }
    if found != if kind == "absent" { 0 } else { looked } {
        return Err(format!("{found} of {looked} look-ups found a page").into());
    }
    let each = (processor_time()? - before) / looked as f64;
    println!("{} {each}", looked as f64 / began.elapsed().as_secs_f64());
    Ok(())
}

/// Look-ups a second of `count` processes together, and the time of a processor for each, in nanoseconds.
fn together(files: &Files, kind: &str, count: usize, milliseconds: u64) -> Outcome<(f64, f64)> {
    let start = |seed: usize| -> Outcome<(Child, BufReader<std::process::ChildStdout>)> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("worker").arg(&files.directory).args([files.options.slots.to_string(), kind.to_owned()]);
        command.args([seed.to_string(), milliseconds.to_string()]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut said = BufReader::new(child.stdout.take().ok_or("no pipe")?);
        said.read_line(&mut String::new())?;
        Ok((child, said))
    };
    let mut workers = (0..count).map(start).collect::<Outcome<Vec<_>>>()?;
    for (worker, _) in &mut workers {
        worker.stdin.as_mut().ok_or("no pipe")?.write_all(b"go\n")?;
    }
    let (mut all, mut time) = (0.0, 0.0);
    for (mut worker, mut said) in workers {
        let mut line = String::new();
        said.read_line(&mut line)?;
        let (rate, each) = line.trim().split_once(' ').ok_or("no numbers")?;
        all += rate.parse::<f64>()?;
        time += each.parse::<f64>()? / count as f64;
        worker.wait()?;
    }
    Ok((all, time))
}

fn main() -> Outcome<()> {
    let usage = "usage: look_ups SLOTS MILLISECONDS ROUNDS N,N,...";
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (slots, milliseconds, rounds, numbers) =
        match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["worker", directory, slots, kind, seed, milliseconds] => {
                let files = Files::of(Path::new(directory), slots.parse()?);
                return work(&files, kind, seed.parse()?, milliseconds.parse()?);
            }
            [slots, milliseconds, rounds, numbers] => (*slots, *milliseconds, *rounds, *numbers),
            _ => return Err(usage.into()),
        };
    let numbers = numbers.split(',').map(str::parse).collect::<Result<Vec<usize>, _>>()?;
    let (milliseconds, rounds): (u64, u32) = (milliseconds.parse()?, rounds.parse()?);
    let directory = tempfile::Builder::new().prefix("look-ups").tempdir_in("/dev/shm")?;
    let files = Files::of(directory.path(), slots.parse()?);
    let tier = files.serve()?;
    let kinds =
        ["hits", "absent"].into_iter().flat_map(|kind| numbers.iter().map(move |count| (kind, *count)));
    let mut measured: Vec<_> = kinds.map(|kind| (kind, Vec::new())).collect();
    for _ in 0..rounds {
        for ((kind, count), all) in &mut measured {
            all.push(together(&files, kind, *count, milliseconds)?);
        }
    }
    for ((kind, count), all) in measured {
        let sorted = |of: fn(&(f64, f64)) -> f64| {
            let mut all: Vec<f64> = all.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let (rates, times) = (sorted(|round| round.0 / 1e6), sorted(|round| round.1));
        let (best, middle) = (rates[rates.len() - 1], rates[rates.len() / 2]);
        let (least, usual) = (times[0], times[times.len() / 2]);
        println!(
            "{kind:>6}, {count} at once: best {best:6.2}, middle {middle:6.2} million a second; {least:6.1} and \
             {usual:6.1} ns of a processor each"
        );
    }
    Ok(tier.close()?)
}
