//! Changed pages that a log policy keeps out: only the disk has them, durably with the next sync of it.

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_device::{FaultPlan, FaultyDevice, MemoryDevice, Survival};
use entresol_engine::{FlashTier, Layer, Source, check, flash_bytes};
use std::collections::VecDeque;
use std::sync::Arc;
use support::{PAGE, build, disk_bytes, load, memory, simulate, small, version, victim};

const PAGES: u64 = 4000;
/// One page in so many is used again.
const HOT_PART: u64 = 25;
/// Steps after which it is used, again and again.
const DISTANCE: u64 = 8;
const USES: u64 = 24;
/// Pages that are held in memory until the ring has gone on.
const HELD: usize = 100;

/// Changes a page, which is at version 2 then.
fn change(tier: &FlashTier, page: PageId, buffer: &mut [u8]) {
    tier.fetch(page, buffer).unwrap();
    tier.evict(victim(page, 2, true, true), &build(page, 2)).unwrap();
}

/// The pages that are used again after page `number` was changed.
fn used_again(number: u64) -> impl Iterator<Item = PageId> {
    let before = (1..=USES).filter_map(move |use_| number.checked_sub(use_ * DISTANCE));
    before.filter(|again| again % HOT_PART == 0).map(PageId)
}

/// Nearly all pages are used once only and changed, so that they are kept out. The others are changed once,
/// too, and then fetched from disk several times. They enter, unchanged. At any time the power may fail, and
/// the disk loses all that was not synced: a page that is clean on flash is the same on disk.
#[test]
fn a_page_that_is_clean_on_flash_is_durable_on_disk() {
    let options = small(PolicyKind::Reuse, 80);
    let (kept_out, entered) = simulate(1, || {
        let blank = |name, bytes| MemoryDevice::new(name, bytes);
        let disk = Arc::new(blank("disk", disk_bytes(PAGES)));
        load(disk.clone(), PAGES);
        let disk = Arc::into_inner(disk).expect("the loader is through with it");
        let device = |name, medium| Arc::new(FaultyDevice::new(name, medium, Arc::new(FaultPlan::none())));
        let (flash, disk) = (device("flash", blank("flash", flash_bytes(&options))), device("disk", disk));
        let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
        let mut buffer = vec![0; PAGE];
        let mut entered = 0;
        for number in 0..PAGES {
            change(&tier, PageId(number), &mut buffer);
            for page in used_again(number) {
                let fetched = tier.fetch(page, &mut buffer).unwrap();
                entered += u64::from(fetched.source == Source::Flash && !fetched.dirty);
                tier.evict(victim(page, 2, fetched.dirty, fetched.fdirty), &buffer).unwrap();
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

/// A page is fetched from flash, changed there, and is not changed again. When it leaves memory, the ring has
/// gone on, and the disk has the page. It is not written there again: a power failure could leave an
/// unreadable sector, and no log has an image of a page that has not changed. The test hands another page
/// over, which would show.
#[test]
fn a_page_that_was_destaged_meanwhile_is_not_written_again() {
    // Few of the pages that enter are dirty.
    const LONG: u64 = 4 * PAGES;
    let options = small(PolicyKind::Reuse, 80);
    let left_alone = simulate(1, || {
        let (flash, disk) = memory(&options, LONG);
        load(disk.clone(), LONG);
        let tier = FlashTier::create(flash, disk, options.clone()).unwrap();
        let mut buffer = vec![0; PAGE];
        let (mut held, mut left_alone) = (VecDeque::new(), 0);
        for number in 0..LONG {
            change(&tier, PageId(number), &mut buffer);
            for page in used_again(number) {
                if held.contains(&page) {
                    continue;
                }
                if tier.fetch(page, &mut buffer).unwrap().dirty {
                    held.push_back(page);
                } else {
                    tier.evict(victim(page, 2, true, true), &buffer).unwrap();
                }
            }
            if held.len() > HELD {
                let page = held.pop_front().unwrap();
                tier.evict(victim(page, 3, true, false), &build(page, 3)).unwrap();
                if tier.fetch(page, &mut buffer).unwrap().source == Source::Disk {
                    assert_eq!(version(page, &buffer), 2, "page {page} was written to disk again");
                    left_alone += 1;
                }
            }
        }
        tier.close().unwrap();
        left_alone
    });
    println!("{left_alone} pages were destaged while they were in memory, and not written again");
    assert!(left_alone > 10, "{left_alone}");
}
