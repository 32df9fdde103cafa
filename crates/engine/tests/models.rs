//! The staging hand-off under shuttle: evictors, fetchers, writers and background tasks of a real tier on
//! memory devices. Whatever the order, a fetch gives the version evicted last, nothing is dropped, and nobody
//! is forgotten (shuttle reports a deadlock).
//!
//! ```text
//! cargo test -p entresol-engine --features shuttle --test models
//! ```

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_device::{Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice};
use entresol_engine::{FlashTier, Layer, TierError, TierOptions, flash_bytes};
use entresol_runtime::spawn;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};
use std::sync::Arc;
use support::{PAGE, build, load, memory, version, victim};

/// Pages of each client, and how often it evicts each.
const PAGES: u64 = 6;
const VERSIONS: u64 = 4;
const CLIENTS: u64 = 2;

fn options(policy: PolicyKind) -> TierOptions {
    let of_slots = |slots| TierOptions {
        group_pages: 2,
        staging_groups: 2,
        segment_entries: 8,
        slots,
        history: policy.history(slots),
        write_workers: 2,
        background_workers: 1,
        ..TierOptions::new(policy, slots)
    };
    (1..100).map(|groups| of_slots(2 * groups)).find(|options| options.validate().is_ok()).unwrap()
}

fn hand_off(policy: PolicyKind) {
    let options = options(policy);
    let (flash, disk) = memory(&options, PAGES * CLIENTS);
    load(disk.clone(), PAGES * CLIENTS);
    let tier = FlashTier::create(flash, disk, options).unwrap();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let tier = tier.clone();
            spawn("client", move || {
                let mut buffer = vec![0; PAGE];
                for number in 2..2 + VERSIONS {
                    for page in (0..PAGES).map(|page| PageId(page * CLIENTS + client)) {
                        tier.evict(victim(page, number, true, true), &build(page, number)).unwrap();
                        tier.fetch(page, &mut buffer).unwrap();
                        assert_eq!(version(page, &buffer), number, "page {page}");
                    }
                }
                if client == 0 {
                    tier.checkpoint().unwrap();
                }
                for page in (0..PAGES).map(|page| PageId(page * CLIENTS + client)) {
                    tier.fetch(page, &mut buffer).unwrap();
                    assert_eq!(version(page, &buffer), 1 + VERSIONS, "page {page}");
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join());
    tier.close().unwrap();
}

/// The flash fails while pages on it are newer than disk. Every client is told what happened, none panics or
/// waits for ever, and a close does not say that all is well.
fn poisoned() {
    let options = options(PolicyKind::FaceGsc);
    let (_, disk) = memory(&options, PAGES * CLIENTS);
    load(disk.clone(), PAGES * CLIENTS);
    let plan = Arc::new(FaultPlan::none());
    let flash = MemoryDevice::new("flash", flash_bytes(&options));
    let flash = Arc::new(FaultyDevice::new("flash", flash, plan.clone()));
    let tier = FlashTier::create(flash, disk, options).unwrap();
    for page in 0..2 {
        tier.evict(victim(PageId(page), 2, true, true), &build(PageId(page), 2)).unwrap();
    }
    tier.checkpoint().unwrap();
    let fault = Fault::WriteError;
    plan.inject(Injection { at: plan.operations() + 1, device: None, fault, forever: true });
    let told = |error: TierError| assert!(matches!(error, TierError::Poisoned { .. }), "{error}");
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let tier = tier.clone();
            spawn("client", move || {
                let page = |nth| PageId(nth % PAGES * CLIENTS + client);
                let mut evictions =
                    (0..).map(|nth| tier.evict(victim(page(nth), 3, true, true), &build(page(nth), 3)));
                told(evictions.find_map(Result::err).expect("some eviction fails"));
            })
        })
        .collect();
    let closing = tier.clone();
    let closer = spawn("closer", move || told(closing.checkpoint().expect_err("it cannot be made")));
    clients.into_iter().for_each(|client| client.join());
    closer.join();
    told(tier.close().expect_err("the tier has failed"));
}

fn run(model: impl Fn() + Clone + Send + Sync + 'static) {
    let config = || {
        let mut config = Config::new();
        config.stack_size = 1 << 20;
        config
    };
    Runner::new(RandomScheduler::new(25), config()).run(model.clone());
    Runner::new(PctScheduler::new(3, 10), config()).run(model);
}

fn check(policy: PolicyKind) {
    run(move || hand_off(policy));
}

#[test]
fn a_tier_that_fails_tells_everybody_why() {
    run(poisoned);
}

#[test]
fn pages_pass_through_staging_by_groups_with_second_chances() {
    check(PolicyKind::FaceGsc);
}

#[test]
fn pages_pass_through_staging_one_by_one() {
    check(PolicyKind::Face);
}

#[test]
fn pages_pass_through_staging_to_any_slot() {
    check(PolicyKind::Lc);
}
