//! The label is on the disk, beside the pages: a sync of the label that fails may have lost writes of pages.

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_device::{
    Device, Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice, Profile, Scale, Survival,
};
use entresol_engine::{FlashTier, PageCache, TierError, TierOptions, disk_offset, flash_bytes};
use entresol_format::PageFormat;
use std::ops::Range;
use std::sync::Arc;
use support::{PAGE, disk_bytes, simulate};

/// Pages that only the flash has when it fails, and pages that it has not.
const MISSING: Range<u64> = 0..60;
const OTHERS: Range<u64> = 60..120;
/// Versions that are written while the flash fails, the first, and after that. Of the first one, pages may be
/// on the flash alone.
const VERSIONS: Range<u64> = 3..9;

fn write(tier: &FlashTier, mut pages: Range<u64>, version: u64) -> Result<(), TierError> {
    pages.try_for_each(|page| tier.write_pages(PageId(page), &[version as u8; PAGE]))
}

fn device(name: &str, bytes: u64, plan: &Arc<FaultPlan>) -> Arc<FaultyDevice> {
    Arc::new(FaultyDevice::new(name, MemoryDevice::new(name, bytes), plan.clone()))
}

fn inject(plan: &FaultPlan, after: u64, device: &str, fault: Fault) {
    let at = plan.operations() + 1 + after;
    plan.inject(Injection { at, device: Some(device.to_owned()), fault, forever: false });
}

/// Writes the other pages again and again, with flushes, while pages of the flash that has failed are copied
/// to disk. What a flush has promised is on disk.
fn go_on(tier: &FlashTier, disk: &FaultyDevice) {
    for version in VERSIONS {
        if write(tier, OTHERS, version).and_then(|()| tier.flush()).is_err() {
            break;
        }
        let after = disk.after_crash(&Survival::None);
        let mut found = vec![0; PAGE];
        for page in OTHERS.map(PageId) {
            after.read(disk_offset(page, PAGE as u32), &mut found).unwrap();
            let is_kept = u64::from(found[0]) >= version || version == VERSIONS.start;
            assert!(is_kept, "{page}: version {version} is promised, and a crash finds {}", found[0]);
        }
    }
}

#[test]
fn a_sync_of_the_label_that_fails_is_one_of_the_disk() {
    let mut struck = 0;
    for after in 0..300 {
        struck += simulate(after, || {
            let options =
                TierOptions { page_format: PageFormat::Raw, ..support::small(PolicyKind::FaceGsc, 80) };
            let plan = Arc::new(FaultPlan::none());
            let flash = device("flash", flash_bytes(&options), &plan);
            let disk = device("disk", disk_bytes(OTHERS.end), &plan);
            let nvme = Profile::named("nvme").unwrap();
            let [slow_flash, slow_disk] = [&flash, &disk]
                .map(|device| Arc::new(nvme.build(device.clone(), Scale::FULL)) as Arc<dyn Device>);
            let tier = FlashTier::create(slow_flash, slow_disk, options.clone()).unwrap();
            (1..3).for_each(|version| write(&tier, MISSING, version).unwrap());
            tier.flush().unwrap();
            inject(&plan, 0, "flash", Fault::NoSpace);
            inject(&plan, after, "disk", Fault::SyncErrorLosingWrites);
            go_on(&tier, &disk);
            let struck = plan.struck();
            drop(tier);
            u64::from(struck == 2)
        });
    }
    assert!(struck > 20, "{struck}");
}
