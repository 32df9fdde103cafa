//! Without crashes: whatever clients do, a fetch gives the newest version evicted, under every policy and
//! mode.

mod support;

use entresol_core::{Config, PageId, PolicyKind};
use entresol_device::{Device, MemoryDevice};
use entresol_engine::{DiskLayer, FlashTier, Layer, Mode, TierOptions, Upstream};
use entresol_runtime::rng::Rng;
use entresol_runtime::sync::{Mutex, Rank};
use entresol_runtime::{random, sleep, spawn};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use support::{Delayed, PAGE, build, disk_bytes, load, memory, simulate, small, version, victim};

const PAGES: u64 = 300;
const CLIENTS: u64 = 6;

/// What the last page out of DRAM was like.
type Frames = BTreeMap<u64, (u64, bool)>;

/// Gives clean pages that nobody holds when asked.
struct Pool {
    tier: Arc<dyn Layer>,
    frames: Arc<Mutex<Frames>>,
    told: Mutex<u64>,
}

impl Upstream for Pool {
    fn pull_victims(&self, pages: usize) -> usize {
        let mut gone = 0;
        for at in 0..pages as u64 {
            let page = PageId(PAGES + at);
            if self.tier.try_evict(victim(page, 1, true, true), &build(page, 1)).unwrap().is_some() {
                gone += 1;
            }
        }
        gone
    }
    fn destaged(&self, _page: PageId, _lsn: entresol_core::Lsn) {
        *self.told.lock() += 1;
        assert!(self.frames.try_lock().is_some());
    }
}

fn client(tier: &Arc<dyn Layer>, id: u64, rounds: u64) {
    let mut rng = Rng::new(random());
    let mut versions: Frames = BTreeMap::new();
    let mut buffer = vec![0; PAGE];
    for round in 0..rounds {
        // Pages of this client, the low ones more often.
        let number = rng.below(PAGES / CLIENTS).min(rng.below(PAGES / CLIENTS)) * CLIENTS + id;
        let page = PageId(number);
        let fetched = tier.fetch(page, &mut buffer).unwrap();
        let found = version(page, &buffer);
        assert!(fetched.dirty || !fetched.fdirty, "newer than flash alone, and not newer than disk");
        let expected = versions.get(&number).map_or(1, |(version, _)| *version);
        assert_eq!(found, expected, "page {page} from {:?}, round {round} of client {id}", fetched.source);
        if rng.below(3) > 0 {
            let data = build(page, found + 1);
            tier.evict(victim(page, found + 1, true, true), &data).unwrap();
            versions.insert(number, (found + 1, true));
        } else {
            tier.evict(victim(page, found, fetched.dirty, fetched.fdirty), &buffer).unwrap();
        }
        if rng.below(200) == 0 {
            tier.checkpoint().unwrap();
        }
        if rng.below(20) == 0 {
            sleep(Duration::from_micros(rng.below(50)));
        }
    }
}

#[test]
fn the_disk_alone_serves_the_newest_version() {
    let run = |seed| {
        let disk = Arc::new(MemoryDevice::new("disk", disk_bytes(PAGES)));
        simulate(seed, move || {
            load(disk.clone(), PAGES);
            let disk: Arc<dyn Device> = Arc::new(Delayed(disk));
            let layer: Arc<dyn Layer> = DiskLayer::open(disk, PAGE as u32).unwrap();
            let clients: Vec<_> = (0..CLIENTS)
                .map(|id| {
                    let layer = layer.clone();
                    spawn("client", move || client(&layer, id, 400))
                })
                .collect();
            clients.into_iter().for_each(|client| client.join());
            layer.close().unwrap();
            assert!(layer.fetch(PageId(0), &mut vec![0; PAGE]).is_err(), "a closed layer serves nothing");
            layer.metrics()
        })
    };
    for seed in 0..4 {
        let metrics = run(seed);
        assert!(metrics.staging_hits > 0 && metrics.disk_reads > 0 && metrics.disk_writes > 0, "{metrics:?}");
        assert!(metrics.disk_writes <= metrics.dirty_evictions, "{metrics:?}");
        assert_eq!(metrics, run(seed), "one seed gives one run");
    }
}

#[test]
fn the_smallest_cache_never_gets_stuck() {
    for policy in PolicyKind::ALL {
        for (seed, (group_pages, staging_groups)) in [(2, 2), (3, 2), (5, 3), (8, 2)].into_iter().enumerate()
        {
            let mut options = TierOptions { group_pages, staging_groups, ..small(policy, 96) };
            options.segment_entries = 12 * group_pages;
            options.slots = Config { group_pages, staging_groups, ..Config::new(policy, 96) }.slots_min();
            for workers in [1, 4] {
                let options =
                    TierOptions { write_workers: workers, background_workers: workers, ..options.clone() };
                serve_with(options, seed as u64);
            }
        }
    }
}

fn serve(policy: PolicyKind, mode: Mode, seed: u64) -> entresol_engine::TierMetrics {
    let mut options = small(policy, 96);
    options.mode = mode;
    serve_with(options, seed)
}

fn serve_with(options: TierOptions, seed: u64) -> entresol_engine::TierMetrics {
    let (flash, disk) = memory(&options, PAGES + 64);
    simulate(seed, move || {
        load(disk.clone(), PAGES + 64);
        let (flash, disk) = (Arc::new(Delayed(flash)), Arc::new(Delayed(disk)));
        let tier: Arc<dyn Layer> = FlashTier::create(flash, disk, options).unwrap();
        let frames = Arc::new(Mutex::new(Rank::Test, Frames::new()));
        let pool = Arc::new(Pool { tier: tier.clone(), frames, told: Mutex::new(Rank::Test, 0) });
        let upstream: Arc<dyn Upstream> = pool.clone();
        tier.attach(Arc::downgrade(&upstream));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|id| {
                let tier = tier.clone();
                spawn("client", move || client(&tier, id, 250))
            })
            .collect();
        clients.into_iter().for_each(|client| client.join());
        tier.close().unwrap();
        assert!(tier.fetch(PageId(0), &mut vec![0; PAGE]).is_err(), "a closed tier serves nothing");
        tier.metrics()
    })
}

#[test]
fn every_policy_and_mode_serves_the_newest_version() {
    for policy in PolicyKind::ALL {
        for mode in Mode::ALL {
            let options = TierOptions { mode, ..small(policy, 96) };
            // A read-only cache that begins empty stays so.
            if mode == Mode::ReadOnly || options.validate().is_err() {
                continue;
            }
            for seed in 0..2 {
                let metrics = serve(policy, mode, seed);
                let at = format!("{} {} seed {seed}: {metrics:?}", policy.name(), mode.name());
                assert!(metrics.flash_hits > 0 && metrics.disk_reads > 0 && metrics.disk_writes > 0, "{at}");
                assert_eq!(metrics.populated > 0, policy.populates(), "{at}");
                assert_eq!(metrics.moved_up > 0, policy.exclusive(), "{at}");
                assert_eq!(metrics.directory_writes > 0, policy == PolicyKind::Tac, "{at}");
                assert!(mode != Mode::WriteAround || metrics.bypassed > 0, "{at}");
                if policy == PolicyKind::FaceGsc {
                    assert!(metrics.second_chances > 0, "{at}");
                    assert_eq!(metrics.pulled > 0, mode == Mode::WriteBack, "{at}");
                }
                assert_eq!(metrics, serve(policy, mode, seed), "{at}: one seed gives one run");
            }
        }
    }
}

/// The background tasks may look before the page that needs a slot is copied in; whoever finds then that it
/// cannot be written tells them. Nobody else comes by here.
#[test]
fn a_single_page_whose_set_is_full_of_dirty_pages_reaches_flash() {
    const SLOTS: u64 = 96;
    const DIRTY: u64 = 8;
    let options = small(PolicyKind::Flashcache, SLOTS as u32);
    let (flash, disk) = memory(&options, PAGES + 64);
    simulate(1, move || {
        load(disk.clone(), PAGES + 64);
        let tier: Arc<dyn Layer> = FlashTier::create(flash, disk, options).unwrap();
        let pause = || sleep(Duration::from_millis(1));
        // The pages that entered first are dirty; so few are not cleaned.
        for number in 0..DIRTY {
            tier.evict(victim(PageId(number), 2, true, true), &build(PageId(number), 2)).unwrap();
            pause();
        }
        let mut buffer = vec![0; PAGE];
        for number in DIRTY..SLOTS {
            tier.fetch(PageId(number), &mut buffer).unwrap();
            pause();
        }
        assert_eq!(tier.metrics().flash_writes, SLOTS);
        for number in SLOTS..SLOTS + DIRTY {
            tier.evict(victim(PageId(number), 2, true, true), &build(PageId(number), 2)).unwrap();
            pause();
            assert_eq!(tier.metrics().flash_writes, number + 1, "page {number} waits in staging");
        }
        assert_eq!(tier.metrics().disk_writes, DIRTY);
        tier.close().unwrap();
    });
}
