//! Changed pages that a log policy keeps out: only the disk has them, durably with the next sync of it.

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_device::{FaultPlan, FaultyDevice, MemoryDevice, Survival};
use entresol_engine::{FlashTier, Layer, Source, check, flash_bytes};
use std::sync::Arc;
use support::{PAGE, build, disk_bytes, load, simulate, small, victim};

const PAGES: u64 = 4000;
/// One page in so many is used again.
const HOT_PART: u64 = 25;
/// Steps after which it is used, again and again.
const DISTANCE: u64 = 8;
const USES: u64 = 24;

/// Nearly all pages are used once only and changed, so that they are kept out. The others are changed once,
/// too, and then fetched from disk several times. They enter, unchanged. At any time the power may fail, and
/// the disk loses all that was not synced: a page that is clean on flash is the same on disk.
#[test]
fn a_page_that_is_clean_on_flash_is_durable_on_disk() {
    let options = small(PolicyKind::Reuse, 80);
    let (kept_out, entered) = simulate(1, || {
        let memory = |name, bytes| MemoryDevice::new(name, bytes);
        let disk = Arc::new(memory("disk", disk_bytes(PAGES)));
        load(disk.clone(), PAGES);
        let disk = Arc::into_inner(disk).expect("the loader is through with it");
        let device = |name, medium| Arc::new(FaultyDevice::new(name, medium, Arc::new(FaultPlan::none())));
        let (flash, disk) = (device("flash", memory("flash", flash_bytes(&options))), device("disk", disk));
        let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
        let mut buffer = vec![0; PAGE];
        let mut entered = 0;
        for number in 0..PAGES {
            let page = PageId(number);
            tier.fetch(page, &mut buffer).unwrap();
            tier.evict(victim(page, 2, true, true), &build(page, 2)).unwrap();
            for again in (1..=USES).filter_map(|use_| number.checked_sub(use_ * DISTANCE)) {
                let page = PageId(again);
                if again % HOT_PART == 0 {
                    let fetched = tier.fetch(page, &mut buffer).unwrap();
                    entered += u64::from(fetched.source == Source::Flash && !fetched.dirty);
                    tier.evict(victim(page, 2, fetched.dirty, fetched.fdirty), &buffer).unwrap();
                }
            }
            let [on_flash, on_disk] = [&flash, &disk].map(|device| device.after_crash(&Survival::None));
            let report = check(&on_flash, Some(Arc::new(on_disk))).unwrap();
            assert!(report.is_sound(), "page {number}: {report}");
        }
        let kept_out = tier.metrics().bypassed;
        tier.close().unwrap();
        (kept_out, entered)
    });
    println!("{kept_out} changed pages kept out, {entered} clean ones fetched from flash");
    assert!(kept_out > PAGES / 2 && entered > 100, "{kept_out} and {entered}");
}
