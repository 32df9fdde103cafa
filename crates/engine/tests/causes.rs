//! Many tasks forget pages at the same time: none waits for ever, nothing is written in vain meanwhile, and
//! no page of a long range outlives it.

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_device::{Device, Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice, Profile, Scale};
use entresol_engine::{Deletes, FlashTier, Layer, PageCache, TierError, TierOptions, flash_bytes};
use entresol_format::PageFormat;
use entresol_runtime::rng::Rng;
use entresol_runtime::sim::{SimConfig, Simulation};
use entresol_runtime::{JoinHandle, sleep, spawn};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use support::{PAGE, disk_bytes, load, memory, simulate, small, victim};

/// Runs `main` with tasks that are preempted at one point in `one_of`. A task that waits for ever is an
/// error.
fn run(seed: u64, one_of: u64, main: impl FnOnce() + Send) {
    let config = SimConfig { seed, random_order: true, preempt_one_of: one_of, ..SimConfig::default() };
    Simulation::new(config).run(main).unwrap();
}

fn nothing() -> Result<(), TierError> {
    Ok(())
}

fn read(tier: &FlashTier, page: PageId) {
    let mut buffer = vec![0; PAGE];
    let found = tier.fetch(page, &mut buffer).unwrap();
    tier.evict(victim(page, 1, found.dirty, found.fdirty), &buffer).unwrap();
}

/// A cache over a disk with so many pages, and the disk's own device.
fn cache(options: &TierOptions, pages: u64, profile: Option<&str>) -> (Arc<FlashTier>, Arc<MemoryDevice>) {
    let (flash, _) = memory(options, 1);
    let disk = Arc::new(MemoryDevice::new("disk", disk_bytes(pages)));
    load(disk.clone(), pages);
    let counted = flash.clone();
    let flash: Arc<dyn Device> = match profile {
        Some(name) => Arc::new(Profile::named(name).unwrap().build(flash, Scale::FULL)),
        None => flash,
    };
    (FlashTier::create(flash, disk, options.clone()).unwrap(), counted)
}

/// Tasks that read pages until they are told to end.
struct Readers {
    is_over: Arc<AtomicBool>,
    tasks: Vec<JoinHandle>,
}

impl Readers {
    fn of(tier: &Arc<FlashTier>, tasks: u64, pages: Range<u64>) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let tasks = (0..tasks).map(|task| {
            let (tier, is_over, pages) = (tier.clone(), is_over.clone(), pages.clone());
            spawn("reader", move || {
                let mut rng = Rng::new(task);
                while !is_over.load(SeqCst) {
                    read(&tier, PageId(pages.start + rng.below(pages.end - pages.start)));
                }
            })
        });
        let tasks = tasks.collect();
        Self { is_over, tasks }
    }

    fn end(self) {
        self.is_over.store(true, SeqCst);
        self.tasks.into_iter().for_each(|task| task.join());
    }
}

/// A page of a long range is about to get a second chance while the range is being forgotten, and the record
/// of it could be on flash by then.
#[test]
fn no_page_of_a_long_range_outlives_it() {
    const LIVING: u64 = 3_600;
    const ALL: u64 = LIVING + 2_700;
    for seed in 0..80 {
        run(seed, 1, || {
            let options = small(PolicyKind::FaceGsc, 4_800);
            let (tier, _) = cache(&options, ALL, None);
            // They are the next to be dequeued, and were used since they came.
            for page in (LIVING..ALL).chain(LIVING..ALL).chain(0..2_100) {
                read(&tier, PageId(page));
            }
            let readers = Readers::of(&tier, 8, 0..LIVING);
            (0..5 * seed).for_each(|page| read(&tier, PageId(page)));
            let range = (PageId(LIVING), PageId(u64::MAX));
            let forgotten = tier.forget(range.0, range.1).unwrap();
            let left = tier.cached_among(range.0, range.1).unwrap();
            assert!(forgotten > 100, "few of {forgotten} pages were there");
            assert_eq!(left, [], "of {forgotten} pages that were forgotten");
            readers.end();
            tier.close().unwrap();
        });
    }
}

/// The flash fails while pages that are dead already are forgotten in many steps. Nothing depends on them, so
/// the cache goes on without it.
#[test]
fn dead_pages_do_not_keep_a_cache_from_going_on_without_its_flash() {
    for seed in 0..30 {
        run(seed, 1, || {
            let options = TierOptions { page_format: PageFormat::Raw, ..small(PolicyKind::FaceGsc, 2_400) };
            let plan = Arc::new(FaultPlan::none());
            let flash = MemoryDevice::new("flash", flash_bytes(&options));
            let flash = Arc::new(FaultyDevice::new("flash", flash, plan.clone()));
            let disk = Arc::new(MemoryDevice::new("disk", disk_bytes(4_000)));
            let tier = FlashTier::create(flash, disk, options).unwrap();
            (0..2_000).for_each(|page| tier.write_pages(PageId(page), &[7; PAGE]).unwrap());
            tier.flush().unwrap();
            let writer = spawn("writes", {
                let (tier, plan) = (tier.clone(), plan.clone());
                move || {
                    let at = plan.operations() + 1;
                    let (device, fault) = (Some("flash".to_owned()), Fault::WriteError);
                    plan.inject(Injection { at, device, fault, forever: true });
                    (0..60).for_each(|page| drop(tier.write_pages(PageId(page), &[8; PAGE])));
                }
            });
            tier.forget(PageId(100), PageId(u64::MAX)).unwrap();
            writer.join();
            sleep(Duration::from_secs(1));
            assert_eq!(tier.failure().map(|error| error.to_string()), None);
            assert!(tier.notice().is_some(), "it goes on without its flash");
        });
    }
}

/// A page goes from staging to its slot while the pages of a long range are looked for.
#[test]
fn no_page_outlives_its_range_in_slots() {
    const ALL: u64 = 2_000;
    for (seed, policy) in (0..20).flat_map(|seed| [(seed, PolicyKind::Lc), (seed, PolicyKind::ReuseSlots)]) {
        run(seed, 2, || {
            let (tier, _) = cache(&small(policy, 1_600), ALL, None);
            let range = (PageId(1_000), PageId(u64::MAX));
            (0..ALL / 2).for_each(|page| read(&tier, PageId(page)));
            (0..8).for_each(|nth| read(&tier, PageId(range.0.0 + nth)));
            let found = tier.forget(range.0, range.1).unwrap();
            assert_eq!(tier.cached_among(range.0, range.1).unwrap(), [], "{found} were forgotten");
            tier.close().unwrap();
        });
    }
}

/// The parts of a range would have more records than there is room for, if other pages enter between them;
/// and none could be written before all are forgotten.
#[test]
fn a_range_has_room_for_its_record() {
    const DEAD: u64 = 80_000;
    run(1, 1, || {
        let (tier, _) = cache(&small(PolicyKind::FaceGsc, 82_000), DEAD + 3_000, None);
        (0..DEAD).for_each(|page| read(&tier, PageId(page)));
        let readers = Readers::of(&tier, 30, DEAD..DEAD + 3_000);
        let range = (PageId(0), PageId(DEAD - 1));
        tier.forget_for(range.0, range.1, nothing).unwrap();
        assert_eq!(tier.cached_among(range.0, range.1).unwrap(), []);
        readers.end();
        tier.close().unwrap();
    });
}

/// Far more tasks forget pages than there is room for records of them.
#[test]
fn those_who_wait_for_room_do_not_hold_up_those_who_make_it() {
    const TASKS: u64 = 200;
    for seed in 0..24 {
        run(seed, 20, || {
            let (tier, _) = cache(&small(PolicyKind::FaceGsc, 1_000), 4 * TASKS, Some("nvme"));
            let tasks = (0..TASKS).map(|task| {
                let tier = tier.clone();
                spawn("forgets", move || {
                    let mut rng = Rng::new(seed * TASKS + task);
                    for _ in 0..20 {
                        // Of neighbours there would be one record.
                        let page = PageId(4 * task + 2 * rng.below(2));
                        read(&tier, page);
                        let make_dead = || {
                            sleep(Duration::from_micros(rng.below(50)));
                            nothing()
                        };
                        tier.forget_for(page, page, make_dead).unwrap();
                    }
                })
            });
            tasks.collect::<Vec<_>>().into_iter().for_each(|task| task.join());
            tier.close().unwrap();
        });
    }
}

/// What makes a page dead takes long. Those who wait for room meanwhile write nothing: it would not make any.
#[test]
fn nothing_is_written_in_vain_while_there_is_no_room() {
    simulate(1, || {
        let (tier, flash) = cache(&small(PolicyKind::FaceGsc, 320), 300, Some("nvme"));
        (0..300).for_each(|page| read(&tier, PageId(page)));
        tier.flush().unwrap();
        let mut waiting = Vec::new();
        let make_dead = || {
            waiting.extend((1..80).map(|nth| {
                let (tier, page) = (tier.clone(), PageId(2 * nth));
                spawn("forgets", move || tier.forget_for(page, page, nothing).unwrap())
            }));
            sleep(Duration::from_secs(1));
            let before = flash.counters();
            sleep(Duration::from_secs(1));
            assert_eq!(flash.counters(), before, "parts of groups are written, and make no room");
            nothing()
        };
        tier.forget_for(PageId(0), PageId(0), make_dead).unwrap();
        waiting.into_iter().for_each(|task| task.join());
        tier.close().unwrap();
    });
}
