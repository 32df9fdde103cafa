//! The staging hand-off under shuttle: evictors, fetchers, writers and chores of a real tier on memory devices. Whatever
//! the order, a fetch gives the version handed down last, nothing is dropped, and nobody is forgotten (shuttle reports a
//! deadlock).
//!
//! ```text
//! cargo test -p entresol-engine --features shuttle --test models
//! ```

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_engine::{FlashTier, Layer, TierOptions};
use entresol_runtime::spawn;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};
use support::{PAGE, build, load, memory, version, victim};

/// Pages of each client, and how often it hands each down.
const PAGES: u64 = 6;
const VERSIONS: u64 = 4;
const CLIENTS: u64 = 2;

fn options(policy: PolicyKind) -> TierOptions {
    let of_slots = |slots| TierOptions {
        group_pages: 2,
        staging_groups: 2,
        segment_entries: 8,
        slots,
        history: if policy == PolicyKind::Lc { slots } else { 0 },
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

fn check(policy: PolicyKind) {
    let config = || {
        let mut config = Config::new();
        config.stack_size = 1 << 20;
        config
    };
    Runner::new(RandomScheduler::new(25), config()).run(move || hand_off(policy));
    Runner::new(PctScheduler::new(3, 10), config()).run(move || hand_off(policy));
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
