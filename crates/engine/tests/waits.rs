//! Who forgets waits for the dequeues that may have an older version, and for no later ones. A flush that
//! meets a failing flash says the same as a checkpoint; and pages that are lost are not called destaged.

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_device::{Device, DeviceError, Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice};
use entresol_engine::{
    Deletes, FlashTier, Home, Layer, Mode, Names, PageCache, PageSet, TierOptions, flash_bytes,
};
use entresol_format::PageFormat;
use entresol_format::label::LABEL_AREA_BYTES;
use entresol_objects::{Locator, ObjectId};
use entresol_runtime::rng::Rng;
use entresol_runtime::{now, sleep, spawn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use support::{PAGE, build, disk_bytes, simulate, small, victim};

/// Pages of a file.
const FILE_PAGES: u64 = 20_000;

/// A disk of files, one for each name. A request takes some time.
struct Files(MemoryDevice);

impl Files {
    fn new() -> Arc<Self> {
        Arc::new(Self(MemoryDevice::new("disk", LABEL_AREA_BYTES + 3 * FILE_PAGES * PAGE as u64)))
    }

    fn place_of(&self, page: PageId, names: &dyn Names) -> Option<u64> {
        let file = u64::from(names.locator(ObjectId(page.object()))?[0]);
        Some(LABEL_AREA_BYTES + (file * FILE_PAGES + u64::from(page.number())) * PAGE as u64)
    }
}

impl Home for Files {
    fn label(&self) -> &dyn Device {
        &self.0
    }
    fn capacity_pages(&self) -> u64 {
        FILE_PAGES * 3
    }
    fn has_room(&self, page: PageId, names: &dyn Names) -> bool {
        self.place_of(page, names).is_some()
    }
    fn place(&self, page: PageId, _: &dyn Names) -> String {
        format!("page {} of its file", page.number())
    }
    fn read(&self, first: PageId, buffer: &mut [u8], names: &dyn Names) -> Result<(), DeviceError> {
        self.place_of(first, names).map_or(Ok(()), |offset| self.0.read(offset, buffer))
    }
    fn write(&self, pages: &[(PageId, &[u8])], names: &dyn Names) -> Result<(), DeviceError> {
        sleep(Duration::from_millis(5));
        pages.iter().try_for_each(|(page, data)| {
            self.place_of(*page, names).map_or(Ok(()), |offset| self.0.write(offset, data))
        })
    }
    fn sync(&self) -> Result<(), DeviceError> {
        sleep(Duration::from_millis(5));
        self.0.sync()
    }
    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.0.drop_cached()
    }
}

fn name(file: u8) -> Locator {
    let mut name = Locator::default();
    name[0] = file;
    name
}

fn put(tier: &FlashTier, page: PageId, version: u64) {
    tier.evict(victim(page, version, true, true), &build(page, version)).unwrap();
}

/// How long `forget` takes while pages of another object are written, as fast as the disk takes older ones.
/// Before, pages of its own are in each group of the ring.
fn while_others_write(forget: impl FnOnce(&FlashTier, ObjectId) + Send) -> Duration {
    const SLOTS: u32 = 4_800;
    simulate(1, || {
        let options = TierOptions { objects: 6, ..small(PolicyKind::FaceGsc, SLOTS) };
        let flash = Arc::new(MemoryDevice::new("flash", flash_bytes(&options)));
        let tier = FlashTier::create_at(flash, Files::new(), options).unwrap();
        let dead = tier.define(&name(0)).unwrap().unwrap();
        let other = tier.define(&name(1)).unwrap().unwrap();
        for nth in 0..SLOTS * 5 / 4 {
            match nth % 4 {
                0 => put(&tier, dead.page(nth % 16), 2 + u64::from(nth)),
                _ => put(&tier, other.page(nth % FILE_PAGES as u32), 2 + u64::from(nth)),
            }
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let tasks = (0..6).map(|task| {
            let (tier, is_over) = (tier.clone(), is_over.clone());
            spawn("writes", move || {
                let (mut rng, mut version) = (Rng::new(task), 1_000_000);
                let begin = now();
                while !is_over.load(SeqCst) && now().since(begin) < Duration::from_secs(30) {
                    version += 1;
                    // No two tasks write a page.
                    let number = rng.below(FILE_PAGES / 6) * 6 + task;
                    put(&tier, other.page(number as u32), version);
                }
            })
        });
        let tasks: Vec<_> = tasks.collect();
        sleep(Duration::from_millis(200));
        let begin = now();
        forget(&tier, dead);
        let took = now().since(begin);
        is_over.store(true, SeqCst);
        tasks.into_iter().for_each(|task| task.join());
        took
    })
}

/// A dequeue takes some 20 ms.
const LONG: Duration = Duration::from_millis(300);

#[test]
fn objects_that_match_are_retired_while_others_write() {
    let took = while_others_write(|tier, _| assert_eq!(tier.retire_matching(|it| it[0] == 0).unwrap(), 1));
    assert!(took < LONG, "{took:?}");
}

#[test]
fn an_object_is_retired_while_others_write() {
    let took = while_others_write(|tier, dead| assert!(tier.retire(dead).unwrap()));
    assert!(took < LONG, "{took:?}");
}

#[test]
fn an_object_is_cut_while_others_write() {
    let took = while_others_write(|tier, dead| tier.cut(dead, 0).unwrap());
    assert!(took < LONG, "{took:?}");
}

#[test]
fn a_page_is_forgotten_while_others_write() {
    let took = while_others_write(|tier, dead| _ = tier.forget(dead.page(0), dead.page(15)).unwrap());
    assert!(took < LONG, "{took:?}");
}

#[test]
fn a_range_is_forgotten_while_others_write() {
    let took = while_others_write(|tier, dead| _ = tier.forget(dead.page(0), dead.page(u32::MAX)).unwrap());
    assert!(took < LONG, "{took:?}");
}

/// The flash dies when nothing on it is needed: the disk alone serves, and a flush says so, as a checkpoint
/// does.
fn the_flash_dies(end: impl FnOnce(&FlashTier) -> Result<(), entresol_engine::TierError> + Send) {
    simulate(1, || {
        let options = TierOptions { objects: 6, mode: Mode::WriteThrough, ..small(PolicyKind::FaceGsc, 96) };
        let plan = Arc::new(FaultPlan::none());
        let flash = MemoryDevice::new("flash", flash_bytes(&options));
        let flash = Arc::new(FaultyDevice::new("flash", flash, plan.clone()));
        let tier = FlashTier::create_at(flash, Files::new(), options).unwrap();
        tier.define(&name(0)).unwrap().unwrap();
        tier.flush().unwrap();
        tier.define(&name(1)).unwrap().unwrap();
        let at = plan.operations() + 1;
        plan.inject(Injection { at, device: Some("flash".to_owned()), fault: Fault::Death, forever: true });
        let ended = end(&tier);
        assert!(tier.notice().is_some(), "it goes on from disk");
        assert_eq!(ended.map_err(|error| error.to_string()), Ok(()));
    });
}

#[test]
fn a_checkpoint_while_the_flash_dies_is_made_on_disk() {
    the_flash_dies(|tier| tier.checkpoint());
}

#[test]
fn a_flush_while_the_flash_dies_is_made_on_disk() {
    the_flash_dies(FlashTier::flush);
}

/// A degraded cache that cannot copy pages to disk does not say that it did.
#[test]
fn pages_that_are_lost_are_not_called_destaged() {
    simulate(1, || {
        let options = TierOptions {
            page_format: PageFormat::Raw,
            staging_groups: 4,
            segment_entries: 16,
            ..small(PolicyKind::FaceGsc, 80)
        };
        let plan = Arc::new(FaultPlan::none());
        let flash = MemoryDevice::new("flash", flash_bytes(&options));
        let flash = Arc::new(FaultyDevice::new("flash", flash, plan.clone()));
        let disk = Arc::new(MemoryDevice::new("disk", disk_bytes(120)));
        let tier = FlashTier::create(flash, disk, options).unwrap();
        (0..40).for_each(|page| tier.write_pages(PageId(page), &[7; PAGE]).unwrap());
        tier.flush().unwrap();
        let at = plan.operations() + 1;
        plan.inject(Injection { at, device: Some("flash".to_owned()), fault: Fault::Death, forever: true });
        tier.write_pages(PageId(50), &[7; PAGE]).unwrap();
        tier.flush().unwrap();
        assert!(tier.missing().is_some_and(|missing| missing.pages > 0), "{:?}", tier.missing());
        let destaged = tier.destage(&PageSet::ALL);
        let missing = tier.missing().map_or(0, |missing| missing.pages);
        assert!(destaged.is_err() || missing == 0, "{destaged:?}, and the disk lacks {missing} pages");
    });
}
