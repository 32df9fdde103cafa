//! Pages that leave the ring of `reuse` are on disk before others return to its rear.

mod support;

use entresol_core::{Costs, PageId, PolicyKind};
use entresol_device::{Device, Profile, Scale};
use entresol_engine::{Deletes, FlashTier, Layer, PageCache, TierError, TierOptions, disk_offset};
use entresol_format::PageFormat;
use entresol_runtime::rng::Rng;
use entresol_runtime::sim::{SimConfig, Simulation};
use entresol_runtime::{sleep, spawn};
use std::sync::Arc;
use std::time::Duration;
use support::{PAGE, build, load, memory, small, version, victim};

const PAGES: u64 = 240;
/// Each task has its own pages.
const TASKS: u64 = 8;

/// A flash that is quick for its disk.
fn options() -> TierOptions {
    let costs = Costs::of_times_ns([50_000, 5_000, 4_000, 2_000, 300_000, 300_000]);
    TierOptions { costs, group_pages: 8, background_workers: 8, ..small(PolicyKind::Reuse, 128) }
}

/// Reads its pages, most of them often, and writes them; forgets some and writes them to disk alone.
fn use_pages(tier: &FlashTier, disk: &dyn Device, task: u64, seed: u64) {
    let mut rng = Rng::new(seed * TASKS + task);
    let mut newest = vec![1; (PAGES / TASKS) as usize];
    let mut buffer = vec![0; PAGE];
    for number in 2..500 {
        let nth = rng.below(PAGES / TASKS).min(rng.below(PAGES / TASKS));
        let page = PageId(nth * TASKS + task);
        let known = &mut newest[nth as usize];
        let source = tier.fetch(page, &mut buffer).unwrap();
        assert_eq!(version(page, &buffer), *known, "{page} from {source:?}");
        if rng.below(30) == 0 {
            tier.flush().unwrap();
        }
        if rng.below(10) == 0 {
            let dies = tier.forget_for(page, page, || {
                sleep(Duration::from_micros(rng.below(200)));
                let mut bytes = build(page, number);
                PageFormat::Native.seal_for_disk(&mut bytes, page);
                disk.write(disk_offset(page, PAGE as u32), &bytes).unwrap();
                Ok::<(), TierError>(())
            });
            dies.unwrap();
            *known = number;
        } else {
            let changes = rng.below(3) == 0;
            *known = if changes { number } else { *known };
            tier.evict(victim(page, *known, changes, changes), &build(page, *known)).unwrap();
        }
    }
}

/// A dequeue waits for its turn, and so for the release of those before it, which wait for what makes pages
/// dead; and who makes them dead may wait for pages of that dequeue. (A task that waits for ever is an error
/// of the simulation.)
#[test]
fn dequeues_and_those_who_forget_do_not_wait_for_each_other() {
    for seed in 0..100 {
        let config = SimConfig { seed, random_order: true, preempt_one_of: 25, ..SimConfig::default() };
        let run = Simulation::new(config).run(|| {
            let options = options();
            let (flash, disk) = memory(&options, PAGES);
            load(disk.clone(), PAGES);
            let [flash, disk] = [(flash, "nvme"), (disk, "cloud")].map(|(device, name)| {
                let profile = Profile::named(name).unwrap();
                Arc::new(profile.build(device, Scale::FULL)) as Arc<dyn Device>
            });
            let tier = FlashTier::create(flash, disk.clone(), options).unwrap();
            let tasks = (0..TASKS).map(|task| {
                let (tier, disk) = (Arc::clone(&tier), Arc::clone(&disk));
                spawn("task", move || use_pages(&tier, &*disk, task, seed))
            });
            tasks.collect::<Vec<_>>().into_iter().for_each(|task| task.join());
            tier.checkpoint().unwrap();
            assert!(tier.metrics().second_chances > 50, "{:?}", tier.metrics());
            tier.close().unwrap();
        });
        run.unwrap();
    }
}
