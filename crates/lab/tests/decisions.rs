//! Same decisions: one trace through the lab's replay and through the store's engine (memory devices,
//! simulated runtime) gives one decision hash, for every policy.
//!
//! The engine has one writer and one background task here and comes to rest after each event, so that its
//! jobs come in the order in which the replay does them.

use entresol_core::{Cache, Lsn, Mode, PageId, PolicyKind};
use entresol_device::{Device, MemoryDevice};
use entresol_engine::{
    DiskLayer, FlashTier, FragmentOptions, FragmentTier, Layer, TierMetrics, TierOptions, Upstream, Victim,
    disk_offset, flash_bytes,
};
use entresol_format::page;
use entresol_lab::replay::device::{Catalogue, DeviceSpec};
use entresol_lab::replay::pool::{self, DIRTY, FDIRTY, Lru, Pool};
use entresol_lab::replay::{FragmentKnobs, RunConfig, SimulationResult, core_config, simulate};
use entresol_runtime::rng::Rng;
use entresol_runtime::sim::{SimConfig, Simulation};
use entresol_trace::{Op, Request, Trace};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

const PAGES: u64 = 700;
const HOT_PAGES: u64 = 200;
const FRAMES: u32 = 40;
const SLOTS: u32 = 260;
const PAGE_BYTES: usize = 4096;

/// Skewed references, three in ten of which change their page.
fn trace() -> Trace {
    let mut rng = Rng::new(23);
    let mut dense: HashMap<u64, u32> = HashMap::new();
    let mut trace = Trace { name: "skewed".into(), page_bytes: PAGE_BYTES as u32, ..Trace::default() };
    for _ in 0..5_000 {
        let number = rng.below(PAGES) * rng.below(PAGES) / PAGES;
        let next = dense.len() as u32;
        let page = *dense.entry(number).or_insert(next);
        if page == next {
            trace.pages.push(number);
        }
        trace.requests.push(Request::new(page, if rng.below(10) < 3 { Op::Write } else { Op::Read }));
    }
    trace
}

/// Three in four references go to a page that is used once only, the others to a few hot ones.
fn mostly_used_once() -> Trace {
    let mut rng = Rng::new(29);
    let mut trace = Trace { name: "once".into(), page_bytes: PAGE_BYTES as u32, ..Trace::default() };
    trace.pages.extend(0..HOT_PAGES);
    for _ in 0..12_000 {
        let page = if rng.below(4) == 0 { rng.below(HOT_PAGES) } else { trace.pages.len() as u64 };
        if page == trace.pages.len() as u64 {
            trace.pages.push(page);
        }
        let op = if rng.below(10) < 5 { Op::Write } else { Op::Read };
        trace.requests.push(Request::new(page as u32, op));
    }
    trace
}

/// Pages of the disk.
fn disk_pages(trace: &Trace) -> u64 {
    trace.pages.iter().max().map_or(0, |last| last + 1).max(PAGES)
}

fn replayed(trace: &Trace, flash_layer: Option<Cache>, mode: Mode) -> SimulationResult {
    simulate(trace, &[config(trace, flash_layer, mode)], &|_, _| {}).expect("a possible run").remove(0)
}

fn config(trace: &Trace, flash_layer: Option<Cache>, mode: Mode) -> RunConfig {
    let catalogue = Catalogue::builtin();
    let flash = catalogue.flash("nvme").expect("built in");
    let disk = catalogue.device("sata-disk").expect("built in");
    let memory = catalogue.memory("dram").expect("built in");
    RunConfig {
        mode,
        dram_pages: FRAMES,
        flash_pages: SLOTS,
        ..RunConfig::new(flash_layer, (flash, disk), memory, 0..trace.requests.len())
    }
}

/// A buffer pool of the lab's over the engine.
struct Store {
    pool: Mutex<Pool<Lru>>,
    layer: Arc<dyn Layer>,
    ids: Vec<u64>,
    dense: HashMap<u64, u32>,
    versions: Mutex<Vec<u64>>,
}

/// A page with its version in it, unsealed.
fn content(id: PageId, version: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE_BYTES];
    let head = page::header_mut(&mut bytes);
    head.page.set(id.0);
    head.lsn.set(version);
    bytes
}

impl Store {
    fn victim(&self, evicted: pool::Victim) -> (Victim, Vec<u8>) {
        let page = PageId(self.ids[evicted.page as usize]);
        let version = self.versions.lock()[evicted.page as usize];
        let victim = Victim { page, lsn: Lsn(version), dirty: evicted.dirty(), fdirty: evicted.fdirty() };
        (victim, content(page, version))
    }

    /// Lets the background tasks do all there is to do.
    fn settle() {
        entresol_runtime::sleep(Duration::from_micros(10));
    }

    fn reference(&self, request: Request) {
        let page = request.page();
        let frame = self.pool.lock().reference(page);
        match frame {
            Some(frame) if request.changes() => self.pool.lock().soil(frame),
            Some(_) => {}
            None => self.miss(request),
        }
        if request.changes() {
            self.versions.lock()[page as usize] += 1;
        }
    }

    fn miss(&self, request: Request) {
        let evicted = {
            let mut pool = self.pool.lock();
            if pool.free_frames() == 0 { pool.take_coldest() } else { None }
        };
        if let Some(evicted) = evicted {
            let (victim, data) = self.victim(evicted);
            self.layer.evict(victim, &data).expect("memory does not fail");
            Self::settle();
        }
        let page = request.page();
        let id = PageId(self.ids[page as usize]);
        let mut buffer = vec![0; PAGE_BYTES];
        let fetched = self.layer.fetch(id, &mut buffer).expect("memory does not fail");
        assert_eq!(
            page::lsn(&buffer).0,
            self.versions.lock()[page as usize],
            "page {id}: the newest version"
        );
        Self::settle();
        let flags = match (request.changes(), fetched.dirty) {
            (true, _) => DIRTY | FDIRTY,
            (false, true) => DIRTY,
            (false, false) => 0,
        };
        self.pool.lock().enter(page, flags);
    }
}

impl Upstream for Store {
    fn pull_victims(&self, pages: usize) -> usize {
        let room = self.pool.lock().room_to_pull(pages as u32) as usize;
        for pulled in 0..room {
            let Some(evicted) = self.pool.lock().take_coldest() else { return pulled };
            let (victim, data) = self.victim(evicted);
            if self.layer.try_evict(victim, &data).expect("memory does not fail").is_none() {
                self.pool.lock().put_back(evicted);
                return pulled;
            }
        }
        room
    }

    fn destaged(&self, page: PageId, _lsn: Lsn) {
        self.pool.lock().destaged(self.dense[&page.0]);
    }
}

fn through_slots(trace: &Trace, policy: PolicyKind, mode: Mode) -> TierMetrics {
    let core = core_config(policy, SLOTS).expect("a possible size");
    let options = TierOptions {
        group_pages: core.group_pages,
        slots: core.slots,
        history: core.history,
        segment_entries: 64,
        mode,
        write_workers: 1,
        background_workers: 1,
        costs: config(trace, None, mode).costs(PAGE_BYTES as u32),
        ..TierOptions::new(policy, SLOTS)
    };
    let bytes = flash_bytes(&options);
    through_the_engine(trace, bytes, |flash, disk| {
        FlashTier::create(flash, disk, options).expect("a possible cache")
    })
}

/// One trace through a layer that `open` makes of a flash device of so many bytes and a disk.
fn through_the_engine(
    trace: &Trace,
    flash_bytes: u64,
    open: impl FnOnce(Arc<dyn Device>, Arc<dyn Device>) -> Arc<dyn Layer> + Send,
) -> TierMetrics {
    Simulation::new(SimConfig::default())
        .run(|| {
            let disk = Arc::new(MemoryDevice::new(
                "disk",
                disk_offset(PageId(disk_pages(trace)), PAGE_BYTES as u32),
            ));
            let flash = Arc::new(MemoryDevice::new("flash", flash_bytes));
            let loader = DiskLayer::create(disk.clone(), PAGE_BYTES as u32).expect("a new disk");
            for number in 0..disk_pages(trace) {
                let victim = Victim { page: PageId(number), lsn: Lsn(1), dirty: true, fdirty: true };
                loader.evict(victim, &content(PageId(number), 1)).expect("memory does not fail");
            }
            loader.close().expect("memory does not fail");
            let layer = open(flash, disk);
            let store = Arc::new(Store {
                pool: Mutex::new(Pool::new(trace.pages.len(), FRAMES)),
                layer: layer.clone(),
                ids: trace.pages.clone(),
                dense: trace.pages.iter().enumerate().map(|(dense, id)| (*id, dense as u32)).collect(),
                versions: Mutex::new(vec![1; trace.pages.len()]),
            });
            let upstream: Arc<dyn Upstream> = store.clone();
            layer.attach(Arc::downgrade(&upstream));
            Store::settle();
            trace.requests.iter().for_each(|request| store.reference(*request));
            let metrics = layer.metrics();
            layer.close().expect("memory does not fail");
            metrics
        })
        .unwrap()
}

#[test]
fn the_engine_decides_as_the_replay() {
    let bypassed = decides_as_the_replay(&trace(), &PolicyKind::ALL);
    assert!(bypassed > 0);
}

#[test]
fn the_engine_keeps_out_what_the_replay_does() {
    for policy in [PolicyKind::Reuse, PolicyKind::ReuseSlots] {
        let bypassed = decides_as_the_replay(&mostly_used_once(), &[policy]);
        assert!(bypassed > 500, "{}: {bypassed} changed pages kept out", policy.name());
    }
}

/// Gives the changed pages that the engine has not taken in write-back mode.
fn decides_as_the_replay(trace: &Trace, policies: &[PolicyKind]) -> u64 {
    let mut bypassed = 0;
    for policy in policies.iter().copied() {
        for mode in Mode::ALL.into_iter().filter(|mode| policy.refusal(*mode).is_none()) {
            let ours = replayed(trace, Some(Cache::Policy(policy)), mode);
            let engine = through_slots(trace, policy, mode);
            bypassed += if mode == Mode::WriteBack { engine.bypassed } else { 0 };
            let name = format!("{} {}", policy.name(), mode.name());
            let counts = |reads, hits, writes, pulled| (reads, hits, writes, pulled);
            assert_eq!(
                counts(
                    ours.disk_reads,
                    ours.flash_reads - ours.destage_reads,
                    ours.flash_writes,
                    ours.pulled
                ),
                counts(engine.disk_reads, engine.flash_hits, engine.flash_writes, engine.pulled),
                "{name}: reads from disk and flash, writes to flash, pulls"
            );
            assert_eq!(
                (ours.disk_writes, ours.second_chances),
                (engine.disk_writes, engine.second_chances),
                "{name}"
            );
            assert_eq!(ours.decision_hash, format!("{:016x}", engine.decision_hash), "{name}");
            let turned = ours.flash_writes > 2 * u64::from(SLOTS);
            assert!(turned || mode != policy.usual_mode(), "{name}: the cache was turned over");
        }
    }
    bypassed
}

/// SCE's decisions depend on which worker is free, so that times must be the same: here nothing takes any.
#[test]
fn the_engine_decides_as_the_replay_by_fragments() {
    let mut trace = trace();
    // The engine's volume has all pages, the replay's those of the trace.
    let known: HashMap<u64, u32> = trace.pages.iter().enumerate().map(|(at, id)| (*id, at as u32)).collect();
    for number in (0..PAGES).filter(|number| !known.contains_key(number)) {
        trace.requests.push(Request::new(trace.pages.len() as u32, Op::Read));
        trace.pages.push(number);
    }
    let instant = |spec: DeviceSpec| DeviceSpec {
        random_read_iops: f64::INFINITY,
        random_write_iops: f64::INFINITY,
        sequential_read_mb_s: None,
        sequential_write_mb_s: None,
        read_us: None,
        write_us: None,
        ..spec
    };
    for (fragment_pages, workers, pace_permille) in [(4, 1, 200), (16, 1, 1000), (1, 1, 1000), (8, 3, 500)] {
        let knobs = FragmentKnobs {
            fragment_pages: Some(fragment_pages),
            workers: Some(workers),
            pace_permille: Some(pace_permille),
        };
        let base = config(&trace, Some(Cache::Fragments), Mode::WriteThrough);
        let run = RunConfig {
            fragments: knobs,
            flash_device: instant(base.flash_device.clone()),
            disk_device: instant(base.disk_device.clone()),
            ..base
        };
        let ours = simulate(&trace, &[run], &|_, _| {}).expect("a possible run").remove(0);
        let options = FragmentOptions {
            slots: SLOTS / fragment_pages,
            fragment_pages,
            workers,
            pace_permille,
            ..FragmentOptions::new(SLOTS)
        };
        let engine = through_the_engine(&trace, options.flash_bytes(), |flash, disk| {
            FragmentTier::open(flash, disk, options).expect("a possible cache")
        });
        let name = format!("fragments of {fragment_pages} pages, {workers} workers");
        assert_eq!(
            (ours.disk_reads, ours.flash_reads, ours.flash_writes, ours.disk_writes),
            (
                engine.disk_reads + engine.populated,
                engine.flash_hits,
                engine.flash_writes,
                engine.disk_writes
            ),
            "{name}: reads from disk and flash, writes to flash and disk"
        );
        assert_eq!(ours.decision_hash, format!("{:016x}", engine.decision_hash), "{name}");
        assert!(engine.flash_hits > 300 && engine.populated > u64::from(SLOTS), "{name}: {engine:?}");
        assert!(engine.flash_writes > engine.populated, "{name}: some writes go through");
    }
}
