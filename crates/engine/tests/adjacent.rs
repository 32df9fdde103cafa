//! Pages of one request, while other tasks make theirs: they are adjacent on flash, so one request reads
//! them.

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_device::Device;
use entresol_engine::{DiskLayer, FlashTier, Layer, Mode, PageCache, ReadRoute, TierOptions};
use entresol_format::PageFormat;
use entresol_runtime::sim::{SimConfig, Simulation};
use entresol_runtime::spawn;
use std::sync::Arc;
use support::{Delayed, PAGE, memory};

/// Pages of a request, requests of a task, and tasks.
const RUN: u64 = 2;
const RUNS: u64 = 8;
const TASKS: u64 = 4;
const PAGES: u64 = RUN * RUNS * TASKS;

/// Each task works on its runs; then a read of each run is one request.
fn expect_adjacent(
    policy: PolicyKind,
    mode: Mode,
    seed: u64,
    work: impl Fn(&FlashTier, PageId) + Copy + Send + Sync + 'static,
) {
    let config = SimConfig { seed, random_order: true, preempt_one_of: 3, ..SimConfig::default() };
    let outcome = Simulation::new(config).run(|| {
        let options = TierOptions { page_format: PageFormat::Raw, mode, ..support::small(policy, 512) };
        let options = TierOptions { group_pages: 16, staging_groups: 8, ..options };
        let (flash, disk) = memory(&options, PAGES);
        DiskLayer::create(disk.clone(), PAGE as u32).unwrap().close().unwrap();
        let tier = FlashTier::create(flash.clone(), Arc::new(Delayed(disk)), options.clone()).unwrap();
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let tier = tier.clone();
                let runs = move || (0..RUNS).map(move |run| PageId((run * TASKS + task) * RUN));
                spawn("client", move || runs().for_each(|first| work(&tier, first)))
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join());
        tier.checkpoint().unwrap();
        let before = flash.counters().reads;
        let mut buffer = vec![0; PAGE * RUN as usize];
        for first in (0..PAGES).step_by(RUN as usize) {
            let served = tier.read_pages(PageId(first), &mut buffer, ReadRoute::StaysOut).unwrap();
            assert_eq!(
                (served.flash, served.disk),
                (RUN, 0),
                "{policy:?} {mode:?}, seed {seed}: page {first}"
            );
        }
        let requests = flash.counters().reads - before;
        assert_eq!(requests, PAGES / RUN, "{policy:?} {mode:?}, seed {seed}: requests to flash");
        tier.close().unwrap();
    });
    outcome.unwrap();
}

#[test]
fn pages_that_were_read_together_are_adjacent_on_flash() {
    for seed in 0..8 {
        for (policy, mode) in
            [(PolicyKind::FaceGsc, Mode::WriteBack), (PolicyKind::Reuse, Mode::WriteThrough)]
        {
            expect_adjacent(policy, mode, seed, |tier, first| {
                let mut buffer = vec![0; PAGE * RUN as usize];
                tier.read_pages(first, &mut buffer, ReadRoute::Populates).unwrap();
            });
        }
    }
}

#[test]
fn pages_that_were_written_together_are_adjacent_on_flash() {
    for seed in 0..8 {
        for (policy, mode) in
            [(PolicyKind::FaceGsc, Mode::WriteBack), (PolicyKind::FaceGsc, Mode::WriteThrough)]
        {
            expect_adjacent(policy, mode, seed, |tier, first| {
                tier.write_pages(first, &vec![7; PAGE * RUN as usize]).unwrap();
            });
        }
    }
}

/// Reads of runs, and writes of their second pages, at the same time: what was written is served.
#[test]
fn a_page_that_was_written_during_a_read_of_its_neighbours_stays_new() {
    for seed in 0..40 {
        let config = SimConfig { seed, random_order: true, preempt_one_of: 3, ..SimConfig::default() };
        let outcome = Simulation::new(config).run(|| {
            let options =
                TierOptions { page_format: PageFormat::Raw, ..support::small(PolicyKind::FaceGsc, 64) };
            let (flash, disk) = memory(&options, PAGES);
            DiskLayer::create(disk.clone(), PAGE as u32).unwrap().close().unwrap();
            let tier = FlashTier::create(flash, Arc::new(Delayed(disk)), options.clone()).unwrap();
            let reader = {
                let tier = tier.clone();
                let mut buffer = vec![0; PAGE * RUN as usize];
                spawn("reader", move || {
                    for first in (0..PAGES).step_by(RUN as usize) {
                        tier.read_pages(PageId(first), &mut buffer, ReadRoute::Populates).unwrap();
                    }
                })
            };
            for page in (1..PAGES).step_by(RUN as usize) {
                tier.write_around(PageId(page), &[7; PAGE]).unwrap();
            }
            reader.join();
            let mut buffer = vec![0; PAGE];
            for page in (1..PAGES).step_by(RUN as usize) {
                tier.read_pages(PageId(page), &mut buffer, ReadRoute::StaysOut).unwrap();
                assert_eq!(buffer, [7; PAGE], "seed {seed}: page {page}");
            }
            tier.close().unwrap();
        });
        outcome.unwrap();
    }
}
