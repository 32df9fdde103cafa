//! A cache that does not pay steps aside: reads a second of a volume beside those of the same volume without
//! its cache, on devices whose requests queue, in simulated time.

mod support;

use entresol_block::{DailyWrites, Loss, SteerOptions, Streams, Volume};
use entresol_core::{Mode, PolicyKind};
use entresol_device::{Counters, Device, DeviceError, Geometry, Io, MemoryDevice};
use entresol_engine::{TierOptions, flash_bytes};
use entresol_format::PageFormat;
use entresol_format::fingerprint::LABEL_FILE_BYTES;
use entresol_nbd::Command;
use entresol_runtime::rng::Rng;
use entresol_runtime::sim::{SimConfig, Simulation};
use entresol_runtime::sync::{Mutex, Rank};
use entresol_runtime::{now, sleep, spawn};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

const PAGE: u64 = 4096;
/// Pages of the disk, and of the cache.
const PAGES: u64 = 8192;
const SLOTS: u32 = 4096;

/// A device that serves one request at a time: a fixed time each, and a time for its bytes.
struct Slow {
    memory: MemoryDevice,
    turn: Mutex<()>,
    each_us: AtomicU64,
    requests: AtomicU64,
}

impl Slow {
    fn new(name: &str, bytes: u64, per_second: u64) -> Arc<Self> {
        let each_us = AtomicU64::new(1_000_000 / per_second);
        let (memory, requests) = (MemoryDevice::new(name, bytes), AtomicU64::new(0));
        Arc::new(Self { memory, turn: Mutex::new(Rank::Test, ()), each_us, requests })
    }
}

impl Device for Slow {
    fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }
    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        // Adjacent writes of a batch are one request, as those of a file are.
        let mut end = None;
        for io in batch {
            let _turn = self.turn.lock();
            let (bytes, at, next) = match io {
                Io::Read { buffer, .. } => (buffer.len(), None, None),
                Io::Write { offset, data } => (data.len(), Some(*offset), Some(*offset + data.len() as u64)),
            };
            let is_request = at.is_none() || at != end;
            end = next;
            // A hundred megabytes a second.
            let each_us = if is_request { self.each_us.load(SeqCst) } else { 0 };
            sleep(Duration::from_micros(each_us + bytes as u64 / 100));
            self.requests.fetch_add(is_request.into(), SeqCst);
            self.memory.run(std::slice::from_mut(io))?;
        }
        Ok(())
    }
    fn sync(&self) -> Result<(), DeviceError> {
        self.memory.sync()
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.memory.discard(offset, length)
    }
    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.memory.drop_cached()
    }
    fn counters(&self) -> Counters {
        self.memory.counters()
    }
}

struct Parts {
    disk: Arc<Slow>,
    label: Arc<MemoryDevice>,
    flash: Arc<Slow>,
    options: TierOptions,
}

impl Parts {
    /// Devices that carry out so many requests a second.
    fn new(mode: Mode, flash: u64, disk: u64) -> Self {
        Self::of(PolicyKind::FaceGsc, mode, flash, disk)
    }

    fn of(policy: PolicyKind, mode: Mode, flash: u64, disk: u64) -> Self {
        let options = TierOptions { page_format: PageFormat::Raw, mode, ..TierOptions::new(policy, SLOTS) };
        Self {
            disk: Slow::new("disk", PAGES * PAGE, disk),
            label: Arc::new(MemoryDevice::new("label", LABEL_FILE_BYTES)),
            flash: Slow::new("flash", flash_bytes(&options), flash),
            options,
        }
    }

    fn create(&self) -> Arc<Volume> {
        let Self { disk, label, flash, options } = self;
        let volume = Volume::create(disk.clone(), label.clone(), flash.clone(), options.clone());
        Arc::new(volume.unwrap())
    }

    /// The same door with its cache off.
    fn raw(&self) -> Arc<Volume> {
        let volume = self.create();
        volume.detach(Loss::Refused).unwrap();
        volume
    }
}

fn simulate<T: Send>(main: impl FnOnce() -> T + Send) -> T {
    Simulation::new(SimConfig { seed: 1, random_order: true, ..SimConfig::default() }).run(main).unwrap()
}

/// Clients that read one after the other what `next` says, for so many seconds, each over a connection of its
/// own. Returns reads a second.
fn read(
    volume: &Arc<Volume>,
    clients: u64,
    seconds: u64,
    next: impl Fn(&mut Rng, u64) -> (u64, u64) + Copy + Send + 'static,
) -> f64 {
    let done = Arc::new(AtomicU64::new(0));
    let begin = now();
    let client = |client| {
        let (volume, done) = (volume.clone(), done.clone());
        spawn("client", move || {
            let (mut rng, mut streams, mut step) = (Rng::new(client), Streams::default(), 0);
            while now().since(begin) < Duration::from_secs(seconds) {
                let (page, pages) = next(&mut rng, step);
                let (offset, length) = (page * PAGE, (pages * PAGE) as u32);
                let command = Command::Read { offset, length, whole: true };
                let is_sequential = volume.follow(&mut streams, &command);
                let mut data = vec![0; length as usize];
                volume.carry_out(command, is_sequential, &mut data).unwrap();
                done.fetch_add(1, SeqCst);
                step += 1;
            }
        })
    };
    let tasks: Vec<_> = (0..clients).map(client).collect();
    tasks.into_iter().for_each(|task| task.join());
    done.load(SeqCst) as f64 / now().since(begin).as_secs_f64()
}

/// Brings the first pages into the cache, with a device that is fast.
fn warm(parts: &Parts, volume: &Arc<Volume>, pages: u64) {
    let flash = parts.flash.each_us.swap(1, SeqCst);
    let disk = parts.disk.each_us.swap(1, SeqCst);
    let mut data = vec![0; (8 * PAGE) as usize];
    for page in (0..pages).step_by(8) {
        volume.read(page * PAGE, &mut data).unwrap();
    }
    parts.flash.each_us.store(flash, SeqCst);
    parts.disk.each_us.store(disk, SeqCst);
}

/// Uniform reads of `pages`, of which the first ones are in the cache: with the cache, and without.
fn compare(mode: Mode, (flash, disk): (u64, u64), cached: u64, pages: u64, clients: u64) -> (f64, f64) {
    let uniform = move |rng: &mut Rng, _: u64| (rng.below(pages), 1);
    let ours = simulate(move || {
        let parts = Parts::new(mode, flash, disk);
        let volume = parts.create();
        warm(&parts, &volume, cached);
        // Ten seconds to converge.
        read(&volume, clients, 10, uniform);
        read(&volume, clients, 20, uniform)
    });
    let raw = simulate(move || {
        let parts = Parts::new(mode, flash, disk);
        read(&parts.raw(), clients, 20, uniform)
    });
    (ours, raw)
}

#[test]
fn a_slow_flash_costs_nothing() {
    for mode in [Mode::WriteThrough, Mode::WriteBack] {
        for clients in [1, 16] {
            // Half as fast as the disk; all hits, and half of them.
            for (cached, pages) in [(2048, 2048), (1024, 2048)] {
                let (ours, raw) = compare(mode, (500, 1000), cached, pages, clients);
                println!("{mode:?}, {clients} clients, {cached} of {pages} cached: {ours:.0}, raw {raw:.0}");
                assert!(ours >= 0.95 * raw, "{mode:?}, {clients} clients: {ours}, raw {raw}");
            }
        }
    }
}

#[test]
fn few_hits_cost_nothing() {
    for mode in [Mode::WriteThrough, Mode::WriteBack] {
        let (ours, raw) = compare(mode, (20_000, 1000), 160, PAGES, 16);
        println!("{mode:?}, 2 % hits: {ours:.0}, raw {raw:.0}");
        assert!(ours >= 0.95 * raw, "{ours}, raw {raw}");
    }
}

/// A scan of the whole volume in requests of 256 KiB, some of whose pages are in the cache.
#[test]
fn a_scan_costs_nothing_and_brings_nothing_in() {
    const RUN: u64 = 64;
    let scan = |_: &mut Rng, step: u64| (step * RUN % PAGES, RUN);
    let (ours, populated, before) = simulate(move || {
        let parts = Parts::new(Mode::WriteThrough, 20_000, 1000);
        let volume = parts.create();
        for page in (0..PAGES).step_by(50) {
            volume.read(page * PAGE, &mut [0; PAGE as usize]).unwrap();
        }
        volume.flush().unwrap();
        let before = volume.status().populated;
        let ours = read(&volume, 1, 20, scan);
        (ours, volume.status().populated, before)
    });
    let raw = simulate(move || read(&Parts::new(Mode::WriteThrough, 20_000, 1000).raw(), 1, 20, scan));
    println!("scan: {ours:.1} requests a second, raw {raw:.1}; {} pages came in", populated - before);
    assert!(ours >= 0.95 * raw, "{ours}, raw {raw}");
    // What came before the stream was long.
    assert!(populated - before <= (4 << 20) / PAGE, "{before}, {populated}");
}

/// One request to the disk for each request of a long stream, though clean pages of it are in the cache.
#[test]
fn a_stream_is_read_and_written_in_whole_requests() {
    simulate(|| {
        let parts = Parts::new(Mode::WriteBack, 1_000_000, 1_000_000);
        let volume = parts.create();
        warm(&parts, &volume, 512);
        let requests = || parts.disk.requests.load(SeqCst);
        let (before, mut data) = (requests(), vec![7; (64 * PAGE) as usize]);
        volume.read_of_stream(0, &mut data, true).unwrap();
        assert_eq!(requests() - before, 1);
        let before = requests();
        volume.write_of_stream(0, &data, false, true).unwrap();
        assert_eq!(requests() - before, 1);
        assert_eq!(volume.status().dirty_pages, 0);
        // Dirty pages stay in the cache, and are read from there.
        volume.write(10 * PAGE, &[8; PAGE as usize], false).unwrap();
        volume.write_of_stream(0, &[9; 32 * PAGE as usize], false, true).unwrap();
        // In both versions: staging has the older one, too.
        assert_eq!(volume.status().dirty_pages, 2);
        volume.read_of_stream(0, &mut data, true).unwrap();
        assert!(data[..32 * PAGE as usize].iter().all(|byte| *byte == 9));
        volume.close().unwrap();
        let volume =
            Volume::open(parts.disk.clone(), parts.label.clone(), parts.flash.clone(), parts.options.clone());
        volume.unwrap().0.read(0, &mut data).unwrap();
        assert!(data[..32 * PAGE as usize].iter().all(|byte| *byte == 9));
    });
}

/// A database's page of 16 KiB is one request to the disk, whatever the policy, though it is four pages here.
#[test]
fn adjacent_pages_are_written_through_in_one_request() {
    for (policy, mode) in [
        (PolicyKind::FaceGsc, Mode::WriteThrough),
        (PolicyKind::Flashcache, Mode::WriteThrough),
        (PolicyKind::Lru, Mode::WriteThrough),
        (PolicyKind::Flashcache, Mode::WriteAround),
    ] {
        simulate(|| {
            let parts = Parts::of(policy, mode, 1_000_000, 1_000_000);
            let volume = parts.create();
            let before = parts.disk.requests.load(SeqCst);
            volume.write(64 * PAGE, &[7; 4 * PAGE as usize], false).unwrap();
            let requests = parts.disk.requests.load(SeqCst) - before;
            assert_eq!(requests, 1, "{} {}", policy.name(), mode.name());
            let mut data = vec![0; 4 * PAGE as usize];
            volume.read(64 * PAGE, &mut data).unwrap();
            assert!(data.iter().all(|byte| *byte == 7));
            volume.close().unwrap();
        });
    }
}

/// With a budget, pages that were read do not enter once half of an hour's worth is written; writes of pages
/// that are not dirty go to disk once all of it is. Without, they do. Dirty pages are written to the cache
/// again until they have left it: that is a cache's worth at most.
#[test]
fn writes_to_flash_stay_within_the_budget() {
    let written = |daily| {
        simulate(move || {
            let parts = Parts::new(Mode::WriteBack, 100_000, 2_000);
            let volume = parts.create();
            volume.steer(SteerOptions { flash_writes_per_day: daily, ..SteerOptions::default() });
            let mut rng = Rng::new(5);
            for _ in 0..30_000 {
                let page = rng.below(PAGES);
                if rng.below(2) == 0 {
                    volume.write(page * PAGE, &[3; PAGE as usize], false).unwrap();
                } else {
                    volume.read(page * PAGE, &mut [0; PAGE as usize]).unwrap();
                }
                sleep(Duration::from_millis(1));
            }
            let status = volume.status();
            let why = status.bypassed.iter().find(|by| by.why == "budget").unwrap().clone();
            (status.flash_writes * PAGE, why)
        })
    };
    let (free, none) = written(DailyWrites::Unlimited);
    assert_eq!((none.reads, none.stayed_out, none.writes), (0, 0, 0));
    // An hour's worth is 8 MiB; the run takes half a minute.
    let limit: u64 = 24 * (8 << 20);
    let (limited, by_budget) = written(DailyWrites::Bytes(limit));
    println!("{free} bytes without a limit, {limited} with; {by_budget:?}");
    assert!(free > 60 << 20 && limited <= (8 << 20) + u64::from(SLOTS) * PAGE, "{free}, {limited}");
    assert!(by_budget.stayed_out > 500 && by_budget.writes > 1000, "{by_budget:?}");
}

/// Above the limit, writes of pages that are not dirty go to disk alone.
#[test]
fn dirty_pages_stay_below_their_limit() {
    let dirty = |dirty_percent_max| {
        simulate(move || {
            let parts = Parts::new(Mode::WriteBack, 100_000, 100_000);
            let volume = parts.create();
            volume.steer(SteerOptions { dirty_percent_max, ..SteerOptions::default() });
            for page in 0..3000 {
                volume.write(page * PAGE, &[3; PAGE as usize], false).unwrap();
                sleep(Duration::from_millis(2));
            }
            volume.status().dirty_pages * 100 / u64::from(SLOTS)
        })
    };
    let (free, limited) = (dirty(100), dirty(20));
    assert!(free > 60 && (15..=25).contains(&limited), "{free} %, {limited} %");
}
