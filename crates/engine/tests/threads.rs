//! The same code on OS threads: clients, background tasks and destages run truly at once.

mod support;

use entresol_core::{Directory, PageId, PolicyKind};
use entresol_device::{Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice};
use entresol_engine::{DiskLayer, FlashTier, Layer, Mode, TierError, TierOptions};
use entresol_runtime::rng::Rng;
use std::sync::Arc;
use support::{PAGE, build, load, memory, small, version, victim};

const PAGES: u64 = 600;
const CLIENTS: u64 = 4;

/// Each client changes its own pages; returns their versions.
fn client(layer: &dyn Layer, id: u64) -> Vec<u64> {
    let mut rng = Rng::new(id);
    let mut versions = vec![1; (PAGES / CLIENTS) as usize];
    let mut buffer = vec![0; PAGE];
    for _ in 0..3000 {
        let at = rng.below(PAGES / CLIENTS);
        let page = PageId(at * CLIENTS + id);
        let fetched = layer.fetch(page, &mut buffer).unwrap();
        let newest = &mut versions[at as usize];
        assert_eq!(version(page, &buffer), *newest, "page {page} from {fetched:?}");
        if rng.below(2) == 0 {
            *newest += 1;
            layer.evict(victim(page, *newest, true, true), &build(page, *newest)).unwrap();
        } else {
            layer.evict(victim(page, *newest, fetched.dirty, false), &buffer).unwrap();
        }
        if rng.below(500) == 0 {
            layer.checkpoint().unwrap();
        }
    }
    versions
}

fn run(layer: Arc<dyn Layer>) -> Vec<Vec<u64>> {
    let clients: Vec<_> = (0..CLIENTS)
        .map(|id| {
            let layer = layer.clone();
            std::thread::spawn(move || client(&*layer, id))
        })
        .collect();
    let versions = clients.into_iter().map(|client| client.join().unwrap()).collect();
    layer.close().unwrap();
    versions
}

fn expect(layer: &dyn Layer, versions: &[Vec<u64>]) {
    let mut buffer = vec![0; PAGE];
    for (id, versions) in versions.iter().enumerate() {
        for (at, expected) in versions.iter().enumerate() {
            let page = PageId(at as u64 * CLIENTS + id as u64);
            layer.fetch(page, &mut buffer).unwrap();
            assert_eq!(version(page, &buffer), *expected);
        }
    }
}

#[test]
fn every_policy_works_on_threads_and_comes_back() {
    for policy in PolicyKind::ALL {
        let options = small(policy, 160);
        let (flash, disk) = memory(&options, PAGES);
        load(disk.clone(), PAGES);
        let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
        let versions = run(tier.clone());
        assert!(tier.metrics().flash_writes > 400, "{policy:?}: {:?}", tier.metrics());
        drop(tier);
        let (tier, report) = FlashTier::open(flash, disk, options).unwrap();
        assert_eq!(report.warm, policy.directory() != Directory::None, "{policy:?}");
        expect(&*tier, &versions);
        tier.close().unwrap();
    }
}

/// A device that panics at an operation, and at all after it, and its plan.
fn panicking(memory: MemoryDevice) -> (Arc<FaultyDevice>, impl Fn(u64)) {
    let plan = Arc::new(FaultPlan::none());
    let device = Arc::new(FaultyDevice::new("panicking", memory, plan.clone()));
    let panic_after = move |operations| {
        let at = plan.operations() + operations;
        plan.inject(Injection { at, device: None, fault: Fault::Panic, forever: true });
    };
    (device, panic_after)
}

#[test]
fn a_background_task_that_panics_leaves_nobody_waiting() {
    let options = small(PolicyKind::FaceGsc, 160);
    let (_, disk) = memory(&options, PAGES);
    load(disk.clone(), PAGES);
    let flash = MemoryDevice::new("flash", entresol_engine::flash_bytes(&options));
    let (flash, panic_after) = panicking(flash);
    let tier = FlashTier::create(flash, disk, options).unwrap();
    panic_after(60);
    let evicted = (0..PAGES).map(|page| {
        let page = PageId(page);
        tier.evict(victim(page, 2, true, true), &build(page, 2))
    });
    let error = evicted.filter_map(Result::err).next().expect("the tier fails").to_string();
    assert!(error.contains("a task panicked"), "{error}");
    assert!(tier.close().is_err_and(|error| matches!(error, TierError::Poisoned { .. })));
}

/// The disk panics in a client's thread, while it evicts a page whose frame is reserved.
#[test]
fn a_client_that_panics_leaves_nobody_waiting() {
    for (policy, mode) in [(PolicyKind::Tac, Mode::WriteThrough), (PolicyKind::FaceGsc, Mode::WriteThrough)] {
        let options = TierOptions { mode, ..small(policy, 160) };
        let (flash, disk) = memory(&options, PAGES);
        load(disk.clone(), PAGES);
        let disk = Arc::into_inner(disk).expect("the layer was closed");
        let (disk, panic_after) = panicking(disk);
        let tier = FlashTier::create(flash, disk, options).unwrap();
        panic_after(30);
        let clients: Vec<_> = (0..4)
            .map(|client| {
                let tier = tier.clone();
                std::thread::spawn(move || {
                    for page in (0..PAGES).filter(|page| page % 4 == client).map(PageId) {
                        tier.evict(victim(page, 2, true, true), &build(page, 2))?;
                    }
                    tier.checkpoint()
                })
            })
            .collect();
        let ends: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        let panicked = ends.iter().filter(|end| end.is_err()).count();
        assert!((1..=4).contains(&panicked), "{policy:?}: {panicked} panicked");
        for error in ends.into_iter().flatten() {
            let error = error.expect_err("a page could not be evicted").to_string();
            assert!(error.contains("panicked"), "{policy:?}: {error}");
        }
        assert!(tier.close().is_err_and(|error| matches!(error, TierError::Poisoned { .. })), "{policy:?}");
    }
}

#[test]
fn a_disk_writer_that_panics_leaves_nobody_waiting() {
    let (_, disk) = memory(&small(PolicyKind::Face, 96), PAGES);
    load(disk.clone(), PAGES);
    let disk = Arc::into_inner(disk).expect("the layer was closed");
    let (disk, panic_after) = panicking(disk);
    let layer = DiskLayer::open(disk, PAGE as u32).unwrap();
    panic_after(20);
    let evicted = (0..PAGES).map(|page| {
        let page = PageId(page);
        layer.evict(victim(page, 2, true, true), &build(page, 2))
    });
    let error = evicted.filter_map(Result::err).next().expect("the layer fails").to_string();
    assert!(error.contains("panicked"), "{error}");
    assert!(layer.checkpoint().is_err());
}

#[test]
fn the_disk_alone_works_on_threads() {
    let (_, disk) = memory(&small(PolicyKind::Face, 96), PAGES);
    load(disk.clone(), PAGES);
    let versions = run(DiskLayer::open(disk.clone(), PAGE as u32).unwrap());
    expect(&*DiskLayer::open(disk, PAGE as u32).unwrap(), &versions);
}
