//! How much of its owner's log replaces a cache in a log on flash: the bases of dirty pages, through newer
//! versions, second chances, restarts and copies to disk. (`crates/core/tests/bases.rs` has a model of all
//! steps; the store's torture lets the flash die.)

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_device::{Device, MemoryDevice};
use entresol_engine::{FlashTier, HorizonReport, Layer, TierOptions, disk_offset, inspect};
use entresol_format::{BLOCK_BYTES, page};
use std::sync::Arc;
use support::{PAGE, PAGES, build, load, memory, simulate, small, version, victim};

fn options() -> TierOptions {
    TierOptions { keeps_bases: true, ..small(PolicyKind::FaceGsc, 64) }
}

/// A cache, and the owner's checkpoints.
struct Cache {
    flash: Arc<MemoryDevice>,
    disk: Arc<MemoryDevice>,
    tier: Option<Arc<FlashTier>>,
    checkpoint: u64,
}

impl Cache {
    fn new() -> Self {
        let (flash, disk) = memory(&options(), PAGES);
        load(disk.clone(), PAGES);
        let tier = FlashTier::create(flash.clone(), disk.clone(), options()).unwrap();
        tier.resume_checkpoints(0).unwrap();
        let mut cache = Self { flash, disk, tier: Some(tier), checkpoint: 0 };
        cache.complete();
        cache
    }

    fn tier(&self) -> &FlashTier {
        self.tier.as_ref().expect("it is open")
    }

    fn evict(&self, page: u64, version: u64) {
        let page = PageId(page);
        self.tier().evict(victim(page, version, true, true), &build(page, version)).unwrap();
    }

    /// A checkpoint of the owner that brings pages with a base before `number` to disk. The horizon.
    fn complete_from(&mut self, number: u64) -> u64 {
        self.tier().checkpoint().unwrap();
        let horizon = self.tier().bring_to_disk_before(number).unwrap();
        self.checkpoint += 1;
        self.tier().checkpoint_complete(self.checkpoint).unwrap();
        horizon
    }

    fn complete(&mut self) -> u64 {
        self.complete_from(0)
    }

    /// The horizon, without a copy.
    fn horizon(&self) -> u64 {
        self.tier().bring_to_disk_before(0).unwrap()
    }

    /// The program is killed and started again.
    fn restart(&mut self, options: TierOptions) {
        self.open(options);
        self.tier().resume_checkpoints(self.checkpoint).unwrap();
    }

    /// As [`Cache::restart`], and the owner has not told of its checkpoints yet.
    fn open(&mut self, options: TierOptions) {
        self.tier = None;
        while Arc::strong_count(&self.flash) > 1 {
            entresol_runtime::yield_now();
        }
        self.tier = Some(FlashTier::open(self.flash.clone(), self.disk.clone(), options).unwrap().0);
    }

    fn on_disk(&self, page: u64) -> u64 {
        let mut bytes = vec![0; PAGE];
        self.disk.read(disk_offset(PageId(page), PAGE as u32), &mut bytes).unwrap();
        page::lsn(&bytes).0
    }

    fn report(&self) -> HorizonReport {
        let report = inspect(&*self.flash).unwrap().directory.expect("it has a directory");
        report.horizon.expect("bases are known")
    }
}

#[test]
fn a_newer_version_keeps_the_base_of_the_one_before_until_the_disk_has_it() {
    simulate(1, || {
        let mut cache = Cache::new();
        cache.evict(7, 2);
        for version in 3..9 {
            assert_eq!(cache.complete(), 1);
            cache.evict(7, version);
            cache.evict(40 + version, version);
        }
        assert_eq!(cache.on_disk(7), 1, "no copy was asked for");
        // Page 7 alone holds the horizon.
        assert_eq!(cache.complete_from(2), 2);
        assert_eq!((cache.on_disk(7), cache.on_disk(43)), (8, 1));
        assert_eq!(cache.complete_from(5), 5);
        assert_eq!((cache.on_disk(44), cache.on_disk(46)), (4, 1));
    });
}

/// DRAM keeps a page that a checkpoint handed down, and calls it newer than disk until it is evicted.
#[test]
fn a_page_that_was_copied_to_disk_does_not_enter_again_as_a_dirty_one() {
    simulate(8, || {
        let mut cache = Cache::new();
        cache.evict(7, 2);
        cache.complete();
        assert_eq!((cache.complete_from(2), cache.on_disk(7)), (2, 2));
        // Clean pages push its copy out of the ring.
        for page in 20..20 + 2 * PAGES.min(64) {
            let page = PageId(page % (PAGES - 8) + 8);
            cache.tier().evict(victim(page, 1, false, false), &build(page, 1)).unwrap();
        }
        assert!(!cache.tier().is_dirty(PageId(7)));
        let writes = cache.disk.counters().writes;
        cache.tier().evict(victim(PageId(7), 2, true, false), &build(PageId(7), 2)).unwrap();
        assert_eq!((cache.complete_from(3), cache.horizon()), (3, 4));
        assert_eq!(
            cache.disk.counters().writes,
            writes,
            "a write that fails would cost what the log no longer has"
        );
        // A newer version counts.
        cache.evict(7, 3);
        cache.complete();
        assert_eq!((cache.horizon(), cache.on_disk(7)), (4, 2));
        cache.restart(options());
        assert_eq!((cache.horizon(), cache.on_disk(7)), (4, 2));
    });
}

#[test]
fn a_second_chance_keeps_the_base() {
    simulate(2, || {
        let mut cache = Cache::new();
        cache.evict(7, 2);
        cache.complete();
        let mut buffer = vec![0; PAGE];
        for round in 0..6 {
            // Clean pages fill the ring; page 7 is in use.
            for page in 20..60 {
                let id = PageId(page);
                cache.tier().fetch(id, &mut buffer).unwrap();
                cache.tier().evict(victim(id, 1, false, true), &build(id, 1)).unwrap();
            }
            cache.tier().fetch(PageId(7), &mut buffer).unwrap();
            assert_eq!(version(PageId(7), &buffer), 2);
            cache.complete();
            match cache.on_disk(7) {
                1 => assert_eq!(cache.horizon(), 1, "round {round}"),
                copied => assert!(copied == 2 && cache.horizon() > 1, "round {round}"),
            }
            if round == 3 {
                assert!(cache.tier().metrics().second_chances > 0, "{:?}", cache.tier().metrics());
                assert_eq!(cache.on_disk(7), 1, "it got a second chance");
            }
        }
    });
}

#[test]
fn a_restart_knows_the_bases_and_takes_what_was_copied_for_clean() {
    simulate(3, || {
        let mut cache = Cache::new();
        cache.evict(7, 2);
        cache.complete();
        cache.evict(8, 3);
        cache.complete();
        cache.restart(options());
        assert_eq!(cache.horizon(), 1);
        let HorizonReport { checkpoint, horizon, behind } = cache.report();
        assert!(checkpoint >= 2 && horizon == 1 && behind >= 1, "{:?}", cache.report());
        assert_eq!(cache.complete_from(2), 2);
        assert_eq!((cache.on_disk(7), cache.on_disk(8)), (2, 1));
        let dirty = || inspect(&*cache.flash).unwrap().directory.unwrap().occupancy.dirty;
        assert_eq!(dirty(), 1, "page 8");
        let shown = inspect(&*cache.flash).unwrap().to_string();
        assert!(shown.contains("the log replaces it from checkpoint 2 on"), "{shown}");
        cache.restart(options());
        assert_eq!(cache.horizon(), 2);
        // The copy of a page that is clean is not written to disk again.
        let bytes = build(PageId(7), 1);
        cache.disk.write(disk_offset(PageId(7), PAGE as u32), &bytes).unwrap();
        assert_eq!(cache.complete_from(3), 4);
        assert_eq!((cache.on_disk(7), cache.on_disk(8)), (1, 3));
    });
}

/// A page that was found by its own header has no base. It must not be written to disk again if that has it:
/// the log may have no image of it any more.
#[test]
fn a_page_of_a_damaged_summary_is_clean_if_the_disk_has_it() {
    simulate(7, || {
        let mut cache = Cache::new();
        cache.evict(7, 2);
        cache.complete();
        assert_eq!(cache.complete_from(2), 2);
        assert_eq!(cache.on_disk(7), 2);
        cache.evict(8, 3);
        cache.tier().checkpoint().unwrap();
        let layout = options().layout();
        for (group, copy) in
            (0..8).flat_map(|group| (0..layout.summary_copies()).map(move |copy| (group, copy)))
        {
            cache.flash.mark_unreadable(layout.summary_offset(group, copy), BLOCK_BYTES as u64);
        }
        cache.restart(options());
        assert_eq!(cache.tier().metrics().slots_dirty, 1, "page 8");
        assert_eq!(cache.horizon(), 3, "its base");
        cache.complete_from(4);
        assert_eq!((cache.on_disk(7), cache.on_disk(8)), (2, 3));
    });
}

/// Bases that were not kept for a while are unknown, and no horizon is named before all is copied.
#[test]
fn a_cache_that_begins_to_keep_bases_names_a_horizon_when_the_disk_has_all_from_before() {
    simulate(4, || {
        let mut cache = Cache::new();
        cache.evict(7, 2);
        cache.complete();
        cache.restart(TierOptions { keeps_bases: false, ..options() });
        assert_eq!(cache.horizon(), 0);
        cache.evict(9, 2);
        cache.complete();
        cache.restart(options());
        assert_eq!(cache.horizon(), 0);
        let shown = inspect(&*cache.flash).unwrap().to_string();
        assert!(shown.contains("is needed until pages from before were copied to disk"), "{shown}");
        assert_eq!(cache.complete_from(cache.checkpoint), cache.checkpoint - 1);
        assert_eq!((cache.on_disk(7), cache.on_disk(9)), (2, 2));
    });
}

/// Second chances may be staged before the owner tells of its checkpoints: their bases are unknown, too.
#[test]
fn pages_that_move_before_the_owner_tells_of_its_checkpoints_hold_the_horizon() {
    simulate(5, || {
        let mut cache = Cache::new();
        cache.restart(TierOptions { keeps_bases: false, ..options() });
        let mut buffer = vec![0; PAGE];
        for page in 0..40 {
            cache.evict(page, 2);
        }
        cache.complete();
        cache.open(options());
        for page in 0..40 {
            cache.tier().fetch(PageId(page), &mut buffer).unwrap();
        }
        let mut page = 40;
        while cache.tier().metrics().second_chances == 0 {
            cache.evict(page, 2);
            page += 1;
        }
        cache.tier().resume_checkpoints(cache.checkpoint).unwrap();
        assert_eq!(cache.horizon(), 0, "of no page is it known what it needs");
        let number = cache.checkpoint;
        assert_eq!(cache.complete_from(number), number);
        for page in 0..page {
            assert_eq!(cache.on_disk(page), 2, "page {page}");
        }
    });
}

/// The first open that keeps bases was cut off before it had copied what was there, and so was the next one.
#[test]
fn pages_of_unknown_bases_stay_dirty_through_opens_that_are_cut_off() {
    simulate(6, || {
        let mut cache = Cache::new();
        cache.restart(TierOptions { keeps_bases: false, ..options() });
        cache.evict(7, 2);
        cache.complete();
        cache.restart(options());
        cache.tier().checkpoint().unwrap();
        cache.open(options());
        cache.tier().checkpoint().unwrap();
        let dirty = inspect(&*cache.flash).unwrap().directory.unwrap().occupancy.dirty;
        assert_eq!(dirty, 1, "page 7");
        cache.restart(options());
        let number = cache.checkpoint;
        assert_eq!(cache.complete_from(number), number);
        assert_eq!(cache.on_disk(7), 2);
    });
}
