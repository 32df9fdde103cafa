//! Nothing is allocated or freed under the cache partition's latch: an allocator asks the runtime whether the
//! task that calls it holds a lock which forbids that. Debug builds only, since release builds do not know.
#![cfg(debug_assertions)]

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_device::{Device, Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice};
use entresol_engine::{
    FlashTier, FragmentTier, Layer, Mode, PageCache, TierError, TierMetrics, TierOptions, Upstream,
};
use entresol_runtime::rng::Rng;
use entresol_runtime::sync::{Rank, TinyMutex, allocation_is_forbidden, allowing_allocation};
use entresol_runtime::{random, spawn};
use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::sync::Arc;
use support::{Delayed, PAGE, build, disk_bytes, fragments, load, memory, simulate, small, version, victim};

const PAGES: u64 = 300;
const CLIENTS: u64 = 4;

thread_local! {
    /// Calls of the allocator by this thread under a lock that forbids them. A simulation is one thread.
    static CAUGHT: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, which looks at each call.
struct Watching;

impl Watching {
    fn look(&self) {
        if let Some(rank) = allocation_is_forbidden() {
            CAUGHT.set(CAUGHT.get() + 1);
            allowing_allocation(|| eprintln!("memory, under {rank}:\n{}", Backtrace::force_capture()));
        }
    }
}

#[allow(unsafe_code)]
// SAFETY: everything is the system's allocator's; what is done besides never unwinds: it allocates only after
// it has switched itself off.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.look();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        self.look();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.look();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watching = Watching;

/// What `work` gives, and how often it was caught.
fn watched<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = CAUGHT.get();
    let result = work();
    (result, CAUGHT.get() - before)
}

#[test]
fn an_allocation_under_the_latch_is_caught() {
    let partition = TinyMutex::new(Rank::CachePartition, Vec::new());
    let ((), caught) = watched(|| partition.lock().push(1u64));
    assert_eq!(caught, 1, "the vector grows under the latch");
    let ((), caught) = watched(|| partition.lock().push(2));
    assert_eq!(caught, 0, "the vector has room");
    let ((), caught) = watched(|| drop(std::mem::take(&mut *partition.lock())));
    assert_eq!(caught, 1, "the latch is held until the end of the statement");
    let other = TinyMutex::new(Rank::Failure, Vec::new());
    let ((), caught) = watched(|| other.lock().push(1u64));
    assert_eq!(caught, 0, "other locks allow it");
    let ((), caught) = watched(|| {
        simulate(1, || {
            let partition = TinyMutex::new(Rank::CachePartition, Vec::new());
            partition.lock().push(1u64);
        })
    });
    assert_eq!(caught, 1, "a simulated task is watched, too");
}

/// Gives a clean page when asked.
struct Pool(Arc<dyn Layer>);

impl Upstream for Pool {
    fn pull_victims(&self, pages: usize) -> usize {
        let give = |at| {
            let page = PageId(PAGES + at);
            matches!(self.0.try_evict(victim(page, 1, true, true), &build(page, 1)), Ok(Some(_)))
        };
        (0..pages as u64).filter(|at| give(*at)).count()
    }
    fn destaged(&self, _page: PageId, _lsn: entresol_core::Lsn) {}
}

/// Fetches and evicts pages of its own, some of them changed, with a checkpoint now and then.
fn client(layer: &dyn Layer, id: u64, rounds: u64) -> Result<(), TierError> {
    let mut rng = Rng::new(random());
    let mut buffer = vec![0; PAGE];
    for _ in 0..rounds {
        let number = rng.below(PAGES / CLIENTS).min(rng.below(PAGES / CLIENTS));
        let page = PageId(number * CLIENTS + id);
        let fetched = layer.fetch(page, &mut buffer)?;
        layer.is_on_flash(page);
        let found = version(page, &buffer);
        if rng.below(2) == 0 {
            layer.evict(victim(page, found + 1, true, true), &build(page, found + 1))?;
        } else {
            layer.evict(victim(page, found, fetched.dirty, fetched.fdirty), &buffer)?;
        }
        if rng.below(60) == 0 {
            layer.checkpoint()?;
        }
    }
    Ok(())
}

/// Several clients at once; whether none got an error.
fn clients(layer: &Arc<dyn Layer>) -> bool {
    let pool: Arc<dyn Upstream> = Arc::new(Pool(layer.clone()));
    layer.attach(Arc::downgrade(&pool));
    let errors = Arc::new(TinyMutex::new(Rank::Measurement, 0));
    let tasks: Vec<_> = (0..CLIENTS)
        .map(|id| {
            let (layer, errors) = (layer.clone(), errors.clone());
            spawn("client", move || *errors.lock() += u32::from(client(&*layer, id, 150).is_err()))
        })
        .collect();
    tasks.into_iter().for_each(|task| task.join());
    *errors.lock() == 0
}

fn injected(fault: Option<Fault>, at: u64) -> Arc<FaultPlan> {
    let injection = |fault| Injection { at, device: Some("flash".to_owned()), fault, forever: true };
    Arc::new(FaultPlan::new(1, fault.map(injection).into_iter().collect()))
}

/// A cache is created, used, closed, opened again, used, and then either detached or left to a failing flash.
fn life_of_a_tier(options: &TierOptions, fault: Option<(Fault, u64)>) -> TierMetrics {
    let (flash, disk) = memory(options, PAGES + 64);
    simulate(1, || {
        load(disk.clone(), PAGES + 64);
        let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
        let layer: Arc<dyn Layer> = tier;
        assert!(clients(&layer));
        layer.close().unwrap();
        drop(layer);
        let flash = Arc::into_inner(flash).expect("nobody else has it");
        let plan = injected(fault.map(|(fault, _)| fault), fault.map_or(0, |(_, at)| at));
        let flash = Arc::new(Delayed(FaultyDevice::new("flash", flash, plan)));
        let disk: Arc<dyn Device> = Arc::new(Delayed(disk.clone()));
        let (tier, _) = FlashTier::open(flash, disk, options.clone()).unwrap();
        let layer: Arc<dyn Layer> = tier.clone();
        let went_well = clients(&layer) && tier.notice().is_none();
        assert_eq!(went_well, fault.is_none(), "the flash fails if it should");
        assert!(tier.detach().is_ok() || fault.is_some());
        layer.metrics()
    })
}

#[test]
fn no_step_of_the_tier_allocates_under_the_latch() {
    let mut sum = TierMetrics::default();
    for policy in PolicyKind::ALL {
        for mode in [Mode::WriteBack, Mode::WriteThrough, Mode::WriteAround] {
            let options = TierOptions { mode, ..small(policy, 96) };
            if options.validate().is_err() {
                continue;
            }
            let (metrics, caught) = watched(|| life_of_a_tier(&options, None));
            assert_eq!(caught, 0, "{} {}", policy.name(), mode.name());
            sum.flash_hits += metrics.flash_hits;
            sum.flash_writes += metrics.flash_writes;
            sum.dequeue_reads += metrics.dequeue_reads;
            sum.second_chances += metrics.second_chances;
            sum.pulled += metrics.pulled;
            sum.moved_up += metrics.moved_up;
            sum.populated += metrics.populated;
            sum.directory_writes += metrics.directory_writes;
        }
    }
    let all = [
        sum.flash_hits,
        sum.flash_writes,
        sum.dequeue_reads,
        sum.second_chances,
        sum.pulled,
        sum.moved_up,
        sum.populated,
        sum.directory_writes,
    ];
    assert!(!all.contains(&0), "every step is made somewhere: {sum:?}");
}

#[test]
fn no_step_of_a_failing_tier_allocates_under_the_latch() {
    for policy in PolicyKind::ALL {
        for mode in [Mode::WriteBack, Mode::WriteThrough] {
            let options = TierOptions { mode, ..small(policy, 96) };
            if options.validate().is_err() {
                continue;
            }
            for fault in [Fault::WriteError, Fault::Death] {
                let (_, caught) = watched(|| life_of_a_tier(&options, Some((fault, 150))));
                assert_eq!(caught, 0, "{} {} {fault:?}", policy.name(), mode.name());
            }
        }
    }
}

#[test]
fn no_step_of_the_fragments_allocates_under_the_latch() {
    let options = fragments(8, 8);
    for fault in [None, Some(Fault::WriteError)] {
        let (metrics, caught) = watched(|| {
            simulate(1, || {
                let flash = MemoryDevice::new("flash", options.flash_bytes());
                let disk = Arc::new(MemoryDevice::new("disk", disk_bytes(PAGES + 64)));
                load(disk.clone(), PAGES + 64);
                let flash = Arc::new(Delayed(FaultyDevice::new("flash", flash, injected(fault, 20))));
                let tier = FragmentTier::open(flash, Arc::new(Delayed(disk)), options).unwrap();
                let layer: Arc<dyn Layer> = tier.clone();
                assert!(clients(&layer));
                assert_eq!(tier.notice().is_some(), fault.is_some());
                layer.close().unwrap();
                layer.metrics()
            })
        });
        assert_eq!(caught, 0, "{fault:?}");
        assert!(metrics.populated > 0, "{metrics:?}");
    }
}
