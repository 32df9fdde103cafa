//! A tier keeps its budget of writes, whatever comes: reads of many pages, and pages that change again and
//! again. And it serves the newest version of each, wherever that went.

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_engine::{FlashTier, Layer, TierError, TierOptions, WriteBudget};
use entresol_runtime::rng::Rng;
use entresol_runtime::{now, sleep};
use std::time::Duration;
use support::{PAGE, build, load, memory, simulate, version, victim};

const SLOTS: u32 = 2048;
const PAGES: u64 = 4 * SLOTS as u64;
const DAY_S: u64 = 86_400;

fn options(policy: PolicyKind, pages_a_second: Option<u64>) -> TierOptions {
    let bytes_per_day = pages_a_second.map(|pages| pages * PAGE as u64 * DAY_S);
    let write_budget = WriteBudget { bytes_per_day, holds: Duration::from_secs(10) };
    TierOptions { write_budget, ..TierOptions::new(policy, SLOTS) }
}

/// Seconds that are measured.
const MEASURED: u64 = 30;

/// Pages written to flash in that time, if so many of a hundred pages change.
fn written(policy: PolicyKind, pages_a_second: Option<u64>, changes: u64) -> u64 {
    simulate(1, || {
        let options = options(policy, pages_a_second);
        let (flash, disk) = memory(&options, PAGES);
        load(disk.clone(), PAGES);
        let tier = FlashTier::create(flash, disk, options).unwrap();
        let mut rng = Rng::new(7);
        let mut versions = vec![1; PAGES as usize];
        let mut bytes = vec![0; PAGE];
        let mut work_for = |seconds| {
            let until = now() + Duration::from_secs(seconds);
            while now() < until {
                // Skewed.
                let draw = rng.below(1 << 12);
                let page = PageId((draw * draw * PAGES) >> 24);
                let fetched = tier.fetch(page, &mut bytes).unwrap();
                let newest = &mut versions[page.0 as usize];
                assert_eq!(version(page, &bytes), *newest, "page {page} from {fetched:?}");
                let is_changed = rng.below(100) < changes;
                *newest += u64::from(is_changed);
                let (dirty, fdirty) = (fetched.dirty || is_changed, fetched.fdirty || is_changed);
                tier.evict(victim(page, *newest, dirty, fdirty), &build(page, *newest)).unwrap();
                sleep(Duration::from_micros(500));
            }
            tier.metrics().flash_writes
        };
        // What the bucket holds at first is gone by then.
        let before = work_for(40);
        let after = work_for(MEASURED);
        tier.close().unwrap();
        after - before
    })
}

#[test]
fn budgets_are_kept() {
    for (policy, changes) in [
        (PolicyKind::Reuse, 5),
        (PolicyKind::ReuseSlots, 5),
        // All that is left are pages in the cache that have changed.
        (PolicyKind::ReuseSlots, 60),
    ] {
        let free = written(policy, None, changes);
        for part in [2, 5, 20] {
            let each_second = free / part / MEASURED;
            let budget = each_second * MEASURED;
            let did = written(policy, Some(each_second), changes);
            let permille = did * 1000 / budget;
            println!("{policy:?}, {changes} % change: {did} of {budget} pages, {free} without a budget");
            assert!((700..1060).contains(&permille), "{policy:?}: {did} of {budget} pages");
        }
    }
}

#[test]
fn a_policy_that_does_not_weigh_writes_has_no_budget() {
    let (flash, disk) = memory(&options(PolicyKind::Lc, None), PAGES);
    let refused = FlashTier::create(flash, disk, options(PolicyKind::Lc, Some(100)));
    let Err(TierError::Config(sentence)) = refused else { panic!("not refused") };
    assert!(sentence.contains("policy lc does not weigh"), "{sentence}");
}
