//! Power failures, and programs that are killed: after any of them, at any I/O, with any subset of unsynced
//! sectors surviving, each page comes back in a version at least as new as the last completed checkpoint
//! promised, and whole. What a restart after a kill has found, though it was not durable yet, is there after
//! a power failure, too.

mod support;

use entresol_core::{PageId, Placement, PolicyKind};
use entresol_device::{Device, Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice, Survival};
use entresol_engine::{
    DiskLayer, FlashTier, FragmentOptions, FragmentTier, Layer, Mode, TierError, TierOptions, flash_bytes,
};
use entresol_runtime::rng::Rng;
use entresol_runtime::sim::{Outcome, SimConfig, Simulation};
use entresol_runtime::sync::Rank;
use entresol_runtime::{random, spawn};
use parking_lot::Mutex;
use std::sync::Arc;
use support::{Delayed, PAGE, build, disk_bytes, load, small, version, victim};

const PAGES: u64 = 240;
const CLIENTS: u64 = 5;

/// Which versions of a page may be seen.
#[derive(Clone, Copy, Debug, Default)]
struct Legal {
    /// Promised by a checkpoint.
    durable: u64,
    /// Evicted: the call has returned.
    returned: u64,
    /// Evicted: the call has begun.
    begun: u64,
}

#[derive(Default)]
struct Oracle {
    pages: Vec<Legal>,
}

/// What lies between clients and disk.
#[derive(Clone)]
enum Kind {
    /// Nothing.
    Disk,
    Slots(TierOptions),
    Fragments(FragmentOptions),
}

impl Kind {
    fn slots(&self) -> Option<&TierOptions> {
        if let Kind::Slots(options) = self { Some(options) } else { None }
    }
}

fn no_faults() -> Arc<FaultPlan> {
    Arc::new(FaultPlan::none())
}

/// Flash and disk.
type Devices = [FaultyDevice; 2];

struct World {
    kind: Kind,
    oracle: Arc<Mutex<Oracle>>,
}

/// A client between fetch and eviction, and a checkpoint: a page that moved up is in DRAM alone, and a
/// checkpoint would evict it first (`Layer::checkpoint_begins`), so these wait for each other where pages
/// move.
type Gate = entresol_runtime::sync::RwLock<()>;

fn client(tier: &Arc<dyn Layer>, gate: &Gate, oracle: &Mutex<Oracle>, id: u64, rounds: u64) {
    let mut rng = Rng::new(random());
    let mut buffer = vec![0; PAGE];
    for _ in 0..rounds {
        let number = rng.below(PAGES / CLIENTS).min(rng.below(PAGES / CLIENTS)) * CLIENTS + id;
        let page = PageId(number);
        let passed = tier.moves_pages_up().then(|| gate.read());
        let fetched = tier.fetch(page, &mut buffer).unwrap();
        let found = version(page, &buffer);
        let expected = oracle.lock().pages[number as usize].returned;
        assert_eq!(found, expected, "page {page} from {:?}", fetched.source);
        if rng.below(3) > 0 {
            let next = found + 1;
            oracle.lock().pages[number as usize].begun = next;
            tier.evict(victim(page, next, true, true), &build(page, next)).unwrap();
            oracle.lock().pages[number as usize].returned = next;
        } else {
            tier.evict(victim(page, found, fetched.dirty, fetched.fdirty), &buffer).unwrap();
        }
        drop(passed);
        if rng.below(40) == 0 {
            let _passed = tier.moves_pages_up().then(|| gate.write());
            let promised: Vec<u64> = oracle.lock().pages.iter().map(|legal| legal.returned).collect();
            tier.checkpoint().unwrap();
            for (legal, promised) in oracle.lock().pages.iter_mut().zip(promised) {
                legal.durable = legal.durable.max(promised);
            }
        }
    }
}

impl World {
    /// After a crash: every page is there in a legal version. Then what redo would do: pages that are older
    /// than they were before are written again, unless the policy promises that what was found stays.
    fn recover(&self, tier: &dyn Layer, redo: bool) {
        let mut buffer = vec![0; PAGE];
        let keeps_out = self.kind.slots().is_some_and(|options| options.policy.keeps_out());
        for number in 0..PAGES {
            let page = PageId(number);
            let legal = self.oracle.lock().pages[number as usize];
            let mut is_torn = false;
            let found = match tier.fetch(page, &mut buffer) {
                Ok(_) => version(page, &buffer),
                // A torn write to disk since the last checkpoint: redo has the page's full image.
                Err(TierError::Damaged { place, .. })
                    if (redo || keeps_out) && place.starts_with("disk") && legal.begun > legal.durable =>
                {
                    is_torn = true;
                    legal.durable
                }
                Err(error) => panic!("page {page}, legal {legal:?}: {error}"),
            };
            let range = legal.durable..=legal.begun;
            assert!(range.contains(&found), "page {page}: version {found} found, {range:?} are legal");
            let changed = (redo || is_torn) && legal.begun > found;
            let next = if changed { legal.begun + 1 } else { found };
            let mut oracle = self.oracle.lock();
            oracle.pages[number as usize] = Legal { durable: found, returned: next, begun: next };
            drop(oracle);
            if changed {
                tier.evict(victim(page, next, true, true), &build(page, next)).unwrap();
            }
        }
    }

    /// What a power failure would leave on the devices breaks no invariant.
    fn check(&self, devices: &Devices, at: &str) {
        let Some(options) = self.kind.slots() else { return };
        for survival in [Survival::None, Survival::All] {
            let [flash, disk] = devices.each_ref().map(|device| device.after_crash(&survival));
            let report = entresol_engine::check(&flash, Some(Arc::new(disk))).unwrap();
            assert!(report.is_sound(), "{at}: {report}");
            let report = entresol_engine::inspect(&flash).unwrap();
            assert!(report.to_string().contains(options.policy.name()));
        }
    }

    fn start(&self, flash: Arc<dyn Device>, disk: Arc<dyn Device>, first: bool) -> Arc<dyn Layer> {
        let options = match self.kind.clone() {
            Kind::Disk => return DiskLayer::open(disk, PAGE as u32).unwrap(),
            Kind::Fragments(options) => return FragmentTier::open(flash, disk, options).unwrap(),
            Kind::Slots(options) => options,
        };
        if first {
            return FlashTier::create(flash, disk, options).unwrap();
        }
        let (tier, report) = FlashTier::open(flash, disk, options).unwrap();
        let usual = |notice: &String| {
            ["copied to disk first", "were written there again"].iter().any(|one| notice.contains(one))
        };
        let odd = report.notices.iter().any(|notice| !usual(notice));
        assert!(!odd, "{:?}", report.notices);
        tier
    }

    /// One life of the machine or of the program. Returns the devices as they are then, and whether it was
    /// cut off.
    fn live(&self, seed: u64, devices: &Devices, first: bool, crash_at: Option<u64>) -> (Devices, bool) {
        let crash = crash_at.map(|at| Injection { at, device: None, fault: Fault::Crash, forever: false });
        let plan = Arc::new(FaultPlan::new(seed, crash.into_iter().collect()));
        let [flash, disk] = devices.each_ref().map(|device| Arc::new(device.after_kill(plan.clone())));
        let config = SimConfig { seed, random_order: true, ..SimConfig::default() };
        let keeps = |options: &TierOptions| {
            options.policy.placement() == Placement::Log && options.mode == Mode::WriteBack
        };
        let redo = !self.kind.slots().is_some_and(keeps);
        let outcome = Simulation::new(config).run(|| {
            let flash: Arc<dyn Device> = Arc::new(Delayed(flash.clone()));
            let disk: Arc<dyn Device> = Arc::new(Delayed(disk.clone()));
            let tier = self.start(flash, disk, first);
            if !first {
                self.recover(&*tier, redo);
            }
            let gate = Arc::new(Gate::new(Rank::Test, ()));
            let clients: Vec<_> = (0..CLIENTS)
                .map(|id| {
                    let (tier, gate, oracle) = (tier.clone(), gate.clone(), self.oracle.clone());
                    spawn("client", move || client(&tier, &gate, &oracle, id, 120))
                })
                .collect();
            clients.into_iter().for_each(|client| client.join());
            tier.close().unwrap();
            for legal in &mut self.oracle.lock().pages {
                *legal = Legal { durable: legal.returned, ..*legal };
            }
        });
        match outcome {
            Outcome::Finished(()) => assert!(crash_at.is_none_or(|at| at > plan.operations())),
            Outcome::Halted => assert!(plan.has_crashed()),
            other => panic!("seed {seed}: {other:?}"),
        }
        let survival = match seed % 5 {
            0 => Survival::None,
            1 => Survival::All,
            _ => Survival::Seed(seed),
        };
        // Of some lives only the program ends.
        let left = [flash, disk].map(|device| match seed % 3 {
            0 => device.after_kill(no_faults()),
            _ => FaultyDevice::new(device.name(), device.after_crash(&survival), no_faults()),
        });
        (left, plan.has_crashed())
    }
}

/// Several lives one after the other; returns how many ended by a power failure.
fn lives(kind: Kind, seed: u64, lives: u64) -> u64 {
    let mut rng = Rng::new(seed);
    let pages = vec![Legal { durable: 1, returned: 1, begun: 1 }; PAGES as usize];
    let world = World { kind, oracle: Arc::new(Mutex::new(Oracle { pages })) };
    let disk = Arc::new(MemoryDevice::new("disk", disk_bytes(PAGES)));
    load(disk.clone(), PAGES);
    let disk = Arc::into_inner(disk).expect("the loader is through with it");
    let flash_bytes = match &world.kind {
        Kind::Disk => 0,
        Kind::Slots(options) => flash_bytes(options),
        Kind::Fragments(options) => options.flash_bytes(),
    };
    let device = |name, medium| FaultyDevice::new(name, medium, no_faults());
    let mut devices = [device("flash", MemoryDevice::new("flash", flash_bytes)), device("disk", disk)];
    let mut failures = 0;
    let mut born = false;
    for life in 0..lives {
        // Now and then soon after the start, in the middle of recovery.
        let at = if rng.below(3) == 0 { 1 + rng.below(120) } else { 1 + rng.below(2500) };
        let (left, failed) =
            world.live(seed * 100 + life, &devices, !born, (life > 0 || at > 200).then_some(at));
        devices = left;
        world.check(&devices, &format!("seed {seed} life {life}"));
        failures += u64::from(failed);
        born = true;
    }
    // And at last a life without failure: everything is as it was left.
    world.live(seed * 100 + 99, &devices, !born, None);
    failures
}

fn seeds() -> u64 {
    std::env::var("ENTRESOL_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(8)
}

fn survive(policy: PolicyKind, mode: Mode) {
    let mut options = small(policy, 96);
    options.mode = mode;
    survive_with(Kind::Slots(options));
}

fn survive_with(kind: Kind) {
    let mut failures = 0;
    for seed in 0..seeds() {
        failures += lives(kind.clone(), seed, 5);
    }
    assert!(failures > seeds(), "power failed only {failures} times");
}

#[test]
fn the_disk_alone_survives_power_failures() {
    survive_with(Kind::Disk);
}

/// The cache begins empty each time, whatever the last one left on flash.
#[test]
fn fragments_survive_power_failures() {
    survive_with(Kind::Fragments(support::fragments(10, 8)));
}

#[test]
fn face_survives_power_failures() {
    survive(PolicyKind::Face, Mode::WriteBack);
}

#[test]
fn face_gr_survives_power_failures() {
    survive(PolicyKind::FaceGr, Mode::WriteBack);
}

#[test]
fn face_gsc_survives_power_failures() {
    survive(PolicyKind::FaceGsc, Mode::WriteBack);
}

#[test]
fn lc_survives_power_failures() {
    survive(PolicyKind::Lc, Mode::WriteBack);
}

/// The slot directory and the disk agree after each of them (`check`), and the restart is warm.
#[test]
fn tac_survives_power_failures() {
    survive(PolicyKind::Tac, Mode::WriteThrough);
    survive(PolicyKind::Tac, Mode::WriteAround);
}

#[test]
fn exadata_survives_power_failures() {
    survive(PolicyKind::Exadata, Mode::WriteThrough);
}

#[test]
fn loc_survives_power_failures() {
    survive(PolicyKind::Loc, Mode::WriteBack);
    survive(PolicyKind::Loc, Mode::WriteAround);
}

#[test]
fn glb_survives_power_failures() {
    survive(PolicyKind::Glb, Mode::WriteBack);
}

#[test]
fn flashcache_survives_power_failures() {
    survive(PolicyKind::Flashcache, Mode::WriteBack);
    survive(PolicyKind::Flashcache, Mode::WriteAround);
}

#[test]
fn reuse_survives_power_failures() {
    survive(PolicyKind::Reuse, Mode::WriteBack);
    survive(PolicyKind::Reuse, Mode::WriteThrough);
    survive(PolicyKind::ReuseSlots, Mode::WriteBack);
}

#[test]
fn write_through_survives_power_failures() {
    survive(PolicyKind::FaceGsc, Mode::WriteThrough);
    survive(PolicyKind::Face, Mode::WriteThrough);
}
