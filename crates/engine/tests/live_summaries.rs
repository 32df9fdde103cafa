//! A ring that is nearly full: the places after its rear are those of its oldest groups. A damaged summary
//! there is one of theirs, and no torn write of a group that was to come.

mod support;

use entresol_core::{PageId, PolicyKind, Position};
use entresol_device::{Device, MemoryDevice};
use entresol_engine::{FlashTier, Layer, PageCache, TierOptions, inspect};
use entresol_format::PageFormat;
use std::sync::Arc;
use std::time::Duration;
use support::{PAGE, build, load, memory, simulate, small, victim};

const PAGES: u64 = 400;
const SLOTS: u32 = 96;

/// A cache that was left after so many evictions, and its disk. Pages are at version 2.
fn used(options: &TierOptions, evictions: u64) -> (MemoryDevice, MemoryDevice) {
    simulate(evictions, || {
        let (flash, disk) = memory(options, PAGES);
        load(disk.clone(), PAGES);
        let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
        for page in (0..evictions).map(|at| PageId(at % PAGES)) {
            tier.evict(victim(page, 2, true, true), &build(page, 2)).unwrap();
        }
        tier.flush().unwrap();
        drop(tier);
        entresol_runtime::sleep(Duration::from_millis(10));
        (flash.fork("flash"), disk.fork("disk"))
    })
}

/// Opens the cache twice, and does nothing with it the first time; then each page must be there.
fn is_whole(options: &TierOptions, flash: &MemoryDevice, disk: &MemoryDevice) -> Result<(), String> {
    simulate(2, || {
        let (flash, disk) = (Arc::new(flash.fork("flash")), Arc::new(disk.fork("disk")));
        let open = || FlashTier::open(flash.clone(), disk.clone(), options.clone());
        drop(open().map_err(|error| format!("first: {error}"))?);
        entresol_runtime::sleep(Duration::from_millis(10));
        let (tier, _) = open().map_err(|error| format!("second: {error}"))?;
        let mut found = vec![0; PAGE];
        for page in (0..PAGES).map(PageId) {
            tier.fetch(page, &mut found).map_err(|error| error.to_string())?;
            if found[32..] != build(page, 2)[32..] {
                return Err(format!("page {page} is older"));
            }
        }
        Ok(())
    })
}

#[test]
fn a_damaged_summary_of_the_oldest_groups_is_kept() {
    for (page_format, policy) in
        [PageFormat::Raw, PageFormat::Native].into_iter().zip([PolicyKind::FaceGsc, PolicyKind::FaceGr])
    {
        let options =
            TierOptions { page_format, staging_groups: 4, segment_entries: SLOTS, ..small(policy, SLOTS) };
        let group = |position: Position| position.0 / u64::from(options.group_pages);
        // The front on flash is now and then behind the one in memory.
        let nearly_full = (PAGES..3 * PAGES).find_map(|evictions| {
            let (flash, disk) = used(&options, evictions);
            let report = inspect(&flash).unwrap();
            let (superblock, directory) = (report.superblock, report.directory.unwrap());
            let (front, rear) = (group(directory.front), group(directory.rear));
            let reach = rear + u64::from(options.staging_groups);
            let is_nearly_full = reach > front + options.layout().groups();
            // Nothing else tells of these groups.
            let has_no_segment = superblock.segment_next * u64::from(SLOTS) <= directory.front.0;
            (is_nearly_full && has_no_segment).then_some((flash, disk, front, rear))
        });
        let (flash, disk, front, rear) = nearly_full.expect("a ring is nearly full");
        for group in front..rear {
            let damaged = flash.fork("damaged");
            let offset = options.layout().summary_offset(group, 0);
            let mut byte = [0; 512];
            damaged.read(offset, &mut byte).unwrap();
            byte[100] ^= 0x40;
            damaged.write(offset, &byte).unwrap();
            is_whole(&options, &damaged, &disk).unwrap_or_else(|what| {
                panic!("{page_format:?}, summary of group {group} ({front} to {rear}) is damaged: {what}")
            });
        }
    }
}
