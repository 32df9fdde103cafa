//! Pages that are forgotten for something that is not durable yet: a crash finds them on flash until it is,
//! and never after.

mod support;

use entresol_core::{Lsn, Mode, PageId, PolicyKind};
use entresol_device::{
    Counters, Device, DeviceError, Fault, FaultPlan, FaultyDevice, Geometry, Injection, Io, MemoryDevice,
    Profile, Scale,
};
use entresol_engine::{
    Deletes, DurableGroup, FlashTier, Layer, PageCache, TierError, TierOptions, Upstream, flash_bytes,
};
use entresol_format::PageFormat;
use entresol_runtime::{sleep, spawn};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::time::Duration;
use support::{PAGE, build, bytes_of, device_of, load, memory, open, simulate, small, version, victim};

/// The pages that are forgotten, and others that fill groups meanwhile.
const DEAD: [u64; 2] = [5, 6];
const OTHERS: std::ops::Range<u64> = 20..90;

fn put(tier: &FlashTier, page: u64, number: u64) {
    tier.evict(victim(PageId(page), number, true, true), &build(PageId(page), number)).unwrap();
}

/// The versions that a cache finds whose machine stops now.
fn after_a_crash(flash: &dyn Device, disk: &dyn Device, options: &TierOptions) -> [u64; 2] {
    let (flash, disk) = (device_of(&bytes_of(flash)), device_of(&bytes_of(disk)));
    let tier = open(&flash, &disk, options);
    let mut buffer = vec![0; PAGE];
    let found = DEAD.map(|page| {
        tier.fetch(PageId(page), &mut buffer).unwrap();
        version(PageId(page), &buffer)
    });
    tier.close().unwrap();
    found
}

/// Writes the pages to disk as their owner does, past the tier.
fn write_past(disk: &dyn Device, number: u64) {
    for page in DEAD.map(PageId) {
        let mut bytes = build(page, number);
        PageFormat::Native.seal_for_disk(&mut bytes, page);
        disk.write(entresol_engine::disk_offset(page, PAGE as u32), &bytes).unwrap();
    }
}

#[test]
fn a_forgotten_page_is_found_until_what_makes_it_dead_is_durable() {
    for policy in [PolicyKind::Face, PolicyKind::FaceGr, PolicyKind::FaceGsc] {
        simulate(1, || {
            let options = small(policy, 96);
            let (flash, disk) = memory(&options, support::PAGES);
            load(disk.clone(), support::PAGES);
            let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
            DEAD.iter().for_each(|page| put(&tier, *page, 2));
            tier.checkpoint().unwrap();
            let (first, last) = (PageId(DEAD[0]), PageId(DEAD[1]));
            let done = tier.forget_for(first, last, || {
                let mut buffer = vec![0; PAGE];
                tier.fetch(first, &mut buffer)?;
                assert_eq!(version(first, &buffer), 1, "{policy:?}: forgotten in memory");
                // Groups that could name the forgotten pages, and directory segments.
                OTHERS.for_each(|page| put(&tier, page, 2));
                assert_eq!(after_a_crash(&*flash, &*disk, &options), [2, 2], "{policy:?}");
                write_past(&*disk, 3);
                Ok::<(), TierError>(())
            });
            done.unwrap();
            tier.checkpoint().unwrap();
            assert_eq!(after_a_crash(&*flash, &*disk, &options), [3, 3], "{policy:?}");
            // What would make them dead fails: a restart finds them.
            DEAD.iter().for_each(|page| put(&tier, *page, 4));
            tier.checkpoint().unwrap();
            let failed = tier.forget_for(first, last, || Err(TierError::Interrupted));
            assert!(matches!(failed, Err(TierError::Interrupted)), "{failed:?}");
            let told = tier.fetch(first, &mut vec![0; PAGE]).err();
            assert!(matches!(told, Some(TierError::Poisoned { .. })), "{policy:?}: {told:?}");
            drop(tier);
            assert_eq!(after_a_crash(&*flash, &*disk, &options), [4, 4], "{policy:?}");
        });
    }
}

/// The flash fails while nothing in the cache is dirty, but a page is only about to be dead. The cache does
/// not leave the flash behind: the page's newest version is there.
#[test]
fn a_flash_that_fails_is_needed_until_what_makes_pages_dead_is_durable() {
    simulate(1, || {
        let options = small(PolicyKind::FaceGsc, 96);
        let (_, disk) = memory(&options, support::PAGES);
        load(disk.clone(), support::PAGES);
        let plan = Arc::new(FaultPlan::none());
        let flash = MemoryDevice::new("flash", flash_bytes(&options));
        let flash = Arc::new(FaultyDevice::new("flash", flash, plan.clone()));
        let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
        DEAD.iter().for_each(|page| put(&tier, *page, 2));
        tier.checkpoint().unwrap();
        let failed = tier.forget_for(PageId(DEAD[0]), PageId(DEAD[1]), || {
            let (at, fault) = (plan.operations() + 1, Fault::WriteError);
            plan.inject(Injection { at, device: None, fault, forever: true });
            let clean =
                |page| tier.evict(victim(PageId(page), 1, false, true), &build(PageId(page), 1)).map(drop);
            OTHERS.clone().try_for_each(clean)?;
            panic!("the flash has failed: {:?}", tier.notice());
        });
        assert!(matches!(failed, Err(TierError::Poisoned { .. })), "{failed:?}");
        assert_eq!(after_a_crash(&*flash, &*disk, &options), [2, 2]);
    });
}

/// What makes pages dead cannot be made durable: the checkpoint that meets this says so, and the cache has
/// failed. (Were it not, a task of the cache that makes checkpoints would repeat them for ever.)
#[test]
fn a_checkpoint_that_cannot_make_pages_dead_fails_the_cache() {
    for mode in [Mode::WriteBack, Mode::WriteThrough] {
        simulate(1, || {
            let options =
                TierOptions { mode, page_format: PageFormat::Raw, ..small(PolicyKind::FaceGsc, 96) };
            let (flash, _) = memory(&options, support::PAGES);
            let plan = Arc::new(FaultPlan::none());
            let bytes = entresol_engine::disk_offset(PageId(support::PAGES), PAGE as u32);
            let disk = MemoryDevice::new("disk", bytes);
            let disk = Arc::new(FaultyDevice::new("disk", disk, plan.clone()));
            let tier = FlashTier::create(flash, disk, options).unwrap();
            DEAD.iter().for_each(|page| put(&tier, *page, 2));
            tier.checkpoint().unwrap();
            tier.forget_for(PageId(DEAD[0]), PageId(DEAD[1]), || Ok::<(), TierError>(())).unwrap();
            let (at, fault) = (plan.operations() + 1, Fault::SyncError);
            plan.inject(Injection { at, device: Some("disk".to_owned()), fault, forever: true });
            let failed = tier.checkpoint();
            assert!(matches!(failed, Err(TierError::Device { role: "disk", .. })), "{mode:?}: {failed:?}");
            assert!(tier.failure().is_some(), "{mode:?}: it goes on as if nothing had happened");
        });
    }
}

#[test]
fn slots_forget_only_what_is_dead() {
    let options = small(PolicyKind::Lc, 96);
    let (flash, disk) = memory(&options, support::PAGES);
    load(disk.clone(), support::PAGES);
    let tier = FlashTier::create(flash, disk, options).unwrap();
    let refused = tier.forget_for(PageId(1), PageId(2), || -> Result<(), TierError> { panic!("not called") });
    assert!(matches!(refused, Err(TierError::Config(why)) if why.contains("slot placement")));
    tier.close().unwrap();
}

/// A device whose writes wait while its gate is shut; so many of them are let through before.
struct Gated {
    device: Arc<MemoryDevice>,
    shut: AtomicBool,
    lets_through: AtomicU64,
    waits: AtomicBool,
}

impl Device for Gated {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }
    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        let writes = batch.iter().filter(|io| matches!(io, Io::Write { .. })).count() as u64;
        while writes > 0 && self.shut.load(SeqCst) {
            let left = self.lets_through.load(SeqCst);
            if left >= writes {
                self.lets_through.store(left - writes, SeqCst);
                break;
            }
            self.waits.store(true, SeqCst);
            sleep(Duration::from_millis(1));
        }
        self.device.run(batch)
    }
    fn sync(&self) -> Result<(), DeviceError> {
        self.device.sync()
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.device.discard(offset, length)
    }
    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.device.drop_cached()
    }
    fn counters(&self) -> Counters {
        self.device.counters()
    }
}

impl Gated {
    fn over(device: Arc<MemoryDevice>) -> Arc<Self> {
        let [shut, waits] = [false, false].map(AtomicBool::new);
        Arc::new(Self { device, shut, lets_through: AtomicU64::new(0), waits })
    }
}

/// Such a flash, and a disk with pages.
fn gated(options: &TierOptions) -> (Arc<Gated>, Arc<MemoryDevice>) {
    let (flash, disk) = memory(options, support::PAGES);
    load(disk.clone(), support::PAGES);
    (Gated::over(flash), disk)
}

/// A page is in staging when a flush, or a checkpoint, begins, and is forgotten before it is written. The
/// flush holds what it promised of that page only when what made it dead is durable.
#[test]
fn a_flush_waits_for_what_is_forgotten_beside_it() {
    for (policy, checkpoint) in [
        (PolicyKind::FaceGsc, false),
        (PolicyKind::FaceGsc, true),
        (PolicyKind::Reuse, false),
        (PolicyKind::Reuse, true),
    ] {
        simulate(1, || flush_beside(policy, checkpoint));
    }
}

fn flush_beside(policy: PolicyKind, checkpoint: bool) {
    let options = TierOptions { write_workers: 1, ..small(policy, 96) };
    let (flash, disk) = gated(&options);
    let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
    DEAD.iter().for_each(|page| put(&tier, *page, 2));
    tier.flush().unwrap();
    // A group, whose write waits; the pages are in the one after it.
    flash.shut.store(true, SeqCst);
    (0..2 + u64::from(options.group_pages)).for_each(|page| put(&tier, OTHERS.start + page, 2));
    while !flash.waits.load(SeqCst) {
        sleep(Duration::from_millis(1));
    }
    DEAD.iter().for_each(|page| put(&tier, *page, 3));
    let is_over = Arc::new(AtomicBool::new(false));
    let flusher = spawn("flusher", {
        let (tier, is_over) = (tier.clone(), is_over.clone());
        move || {
            if checkpoint { tier.checkpoint() } else { tier.flush() }.unwrap();
            is_over.store(true, SeqCst);
        }
    });
    sleep(Duration::from_millis(100));
    let done = tier.forget_for(PageId(DEAD[0]), PageId(DEAD[1]), || {
        flash.shut.store(false, SeqCst);
        sleep(Duration::from_secs(1));
        assert!(!is_over.load(SeqCst), "{policy:?}: version 3 is promised, and a crash finds version 2");
        write_past(&*disk, 4);
        Ok::<(), TierError>(())
    });
    done.unwrap();
    flusher.join();
    assert_eq!(after_a_crash(&*flash, &*disk, &options), [4, 4], "{policy:?}");
}

/// Slots wait for what makes forgotten pages dead, and a page waits for a slot. A flush makes that durable:
/// the page enters, though no job of the cache ends.
#[test]
fn a_flush_that_gives_room_tells_so() {
    simulate(1, || {
        let few = TierOptions { write_workers: 1, background_workers: 1, ..small(PolicyKind::FaceGsc, 64) };
        let (flash, disk) = gated(&few);
        let disk = Gated::over(disk);
        let tier = FlashTier::create(flash.clone(), disk.clone(), few.clone()).unwrap();
        // The first groups leave the ring, and the background task waits at the disk with the next one.
        let leave = 2 * u64::from(few.group_pages);
        disk.lets_through.store(leave, SeqCst);
        disk.shut.store(true, SeqCst);
        OTHERS.take(leave as usize).chain(DEAD).for_each(|page| put(&tier, page, 2));
        let entered = Arc::new(AtomicU64::new(0));
        let evict = || {
            let (tier, entered) = (tier.clone(), entered.clone());
            spawn("evictor", move || {
                for page in OTHERS.end - 60..OTHERS.end {
                    put(&tier, page, 3);
                    entered.fetch_add(1, SeqCst);
                }
            })
        };
        let mut evictor = None;
        let done = tier.forget_for(PageId(DEAD[0]), PageId(DEAD[1]), || {
            evictor = Some(evict());
            sleep(Duration::from_secs(1));
            flash.shut.store(true, SeqCst);
            Ok::<(), TierError>(())
        });
        done.unwrap();
        let before = entered.load(SeqCst);
        let flusher = spawn("flusher", {
            let tier = tier.clone();
            move || tier.flush().unwrap()
        });
        sleep(Duration::from_secs(1));
        assert!(disk.waits.load(SeqCst), "no job of the cache ends");
        assert!(entered.load(SeqCst) > before, "a page still waits, after {before} have entered");
        [&flash, &disk].iter().for_each(|gate| gate.shut.store(false, SeqCst));
        flusher.join();
        evictor.expect("it was started").join();
        tier.close().unwrap();
    });
}

/// What a buffer pool is told to be durable.
#[derive(Default)]
struct Told(Mutex<Vec<(PageId, Lsn)>>);

impl Upstream for Told {
    fn pull_victims(&self, _: usize) -> usize {
        0
    }
    fn destaged(&self, _: PageId, _: Lsn) {}
    fn durable(&self, pages: &[(PageId, Lsn)], _: Option<DurableGroup>) {
        self.0.lock().extend(pages);
    }
}

/// A page is forgotten after it was written to a group that is not complete, whose summary will not name it,
/// or while its group is written, whose next segment will not.
#[test]
fn a_forgotten_page_is_not_told_durable_with_its_group() {
    simulate(1, || forgotten_then_told(PolicyKind::Face, 2));
    simulate(1, || forgotten_then_told(PolicyKind::FaceGsc, 4));
}

/// Pages of a group are evicted, of which the first two are forgotten.
fn forgotten_then_told(policy: PolicyKind, evicted: u64) {
    let options = small(policy, 96);
    let (flash, disk) = gated(&options);
    let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
    let told = Arc::new(Told::default());
    let upstream: Arc<dyn Upstream> = told.clone();
    let upstream: Weak<dyn Upstream> = Arc::downgrade(&upstream);
    tier.attach(upstream);
    let is_whole = evicted == options.group_pages.into();
    flash.shut.store(is_whole, SeqCst);
    DEAD.iter().for_each(|page| put(&tier, *page, 2));
    OTHERS.clone().take(evicted as usize - DEAD.len()).for_each(|page| put(&tier, page, 2));
    sleep(Duration::from_secs(1));
    assert_eq!(flash.waits.load(SeqCst), is_whole, "{policy:?}: the group is being written");
    let done = tier.forget_for(PageId(DEAD[0]), PageId(DEAD[1]), || {
        flash.shut.store(false, SeqCst);
        OTHERS.clone().take(10).for_each(|page| put(&tier, page, 2));
        sleep(Duration::from_secs(1));
        let told = told.0.lock();
        assert!(told.contains(&(PageId(OTHERS.start), Lsn(2))), "the group is complete: {told:?}");
        let durable = DEAD.map(|page| told.contains(&(PageId(page), Lsn(2))));
        assert_eq!(durable, [false, false], "{policy:?}: told durable, and a crash may find version 1");
        Ok::<(), TierError>(())
    });
    done.unwrap();
    tier.close().unwrap();
}

/// More clean pages than there is room for records of them, while nobody flushes: what makes them dead is
/// made durable by the cache itself.
#[test]
fn clean_pages_are_forgotten_without_a_flush() {
    simulate(1, || {
        let options = TierOptions { mode: Mode::WriteThrough, ..small(PolicyKind::FaceGsc, 320) };
        let (flash, disk) = memory(&options, 300);
        load(disk.clone(), 300);
        let flash = Arc::new(Profile::named("nvme").unwrap().build(flash, Scale::FULL));
        let tier = FlashTier::create(flash, disk, options).unwrap();
        let mut buffer = vec![0; PAGE];
        for page in (0..300).map(PageId) {
            let found = tier.fetch(page, &mut buffer).unwrap();
            tier.evict(victim(page, 1, found.dirty, found.fdirty), &buffer).unwrap();
        }
        let is_done = Arc::new(AtomicBool::new(false));
        let (own_tier, own_done) = (tier.clone(), is_done.clone());
        let task = spawn("forgets", move || {
            // Of neighbours there would be one record.
            for page in (0..300).step_by(2).map(PageId) {
                let done = own_tier.forget_for(page, page, || Ok::<(), TierError>(()));
                done.unwrap();
            }
            own_done.store(true, SeqCst);
        });
        for _ in 0..1000 {
            sleep(Duration::from_millis(1));
            if is_done.load(SeqCst) {
                break;
            }
        }
        assert!(is_done.load(SeqCst), "it waits for room that nobody makes");
        task.join();
        tier.close().unwrap();
    });
}
