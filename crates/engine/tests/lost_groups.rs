//! Groups whose writes the device has lost or sent elsewhere, found by recovery: what lies in their place
//! must not pass for them.

mod support;

use entresol_core::{PageId, PolicyKind, STAGING_GROUPS_MAX};
use entresol_device::MemoryDevice;
use entresol_engine::{FlashTier, Layer, TierError, TierOptions};
use entresol_format::summary::Summary;
use std::collections::BTreeMap;
use std::sync::Arc;
use support::{PAGE, PAGES, build, bytes_of, device_of, load, memory, simulate, small, victim, write_all};

/// Bytes of a group: four pages and a summary.
const GROUP: usize = 5 * PAGE;

/// Groups by their number, with the offset of their summaries.
fn summaries(image: &[u8]) -> BTreeMap<u64, usize> {
    let decode = |offset: usize| Some(Summary::decode(&image[offset..offset + PAGE], 4).ok()?.head.group);
    (0..image.len()).step_by(PAGE).filter_map(|offset| Some((decode(offset)?, offset))).collect()
}

/// Evicts the first pages at version `number`: a few groups, fewer than a directory segment takes.
fn write(tier: &dyn Layer, number: u64) {
    for page in (0..40).map(PageId) {
        tier.evict(victim(page, number, true, true), &build(page, number)).unwrap();
    }
}

/// What the recovery of these devices does: the first pages at `version`, or an error. An older version is
/// never served.
fn recovers(image: &[u8], disk: &MemoryDevice, options: &TierOptions, version: u64) -> Result<(), String> {
    let (flash, disk) = (device_of(image), Arc::new(disk.fork("disk")));
    simulate(1, || match FlashTier::open(flash, disk, options.clone()) {
        Ok((tier, _)) => {
            let mut buffer = vec![0; PAGE];
            for page in (0..40).map(PageId) {
                tier.fetch(page, &mut buffer).map_err(|error| error.to_string())?;
                assert_eq!(support::version(page, &buffer), version, "page {page}");
            }
            Ok(())
        }
        Err(TierError::Refused(why)) => Err(why),
        Err(other) => panic!("{other}"),
    })
}

/// 1. a life writes the pages of a group, and power fails before its summary is durable: it is missing, or
///    torn;
/// 2. the next life gives the same positions out again, and the device loses its write of the group;
/// 3. the pages of 1 have the right positions, and are older than those of 2.
#[test]
fn pages_of_a_group_that_a_crash_took_back_do_not_pass_for_the_next_one() {
    for is_torn in [false, true] {
        let options = small(PolicyKind::FaceGsc, 160);
        let (first, disk) = simulate(1, || {
            let (flash, disk) = memory(&options, PAGES);
            load(disk.clone(), PAGES);
            let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
            write_all(&*tier, 2);
            tier.checkpoint().unwrap();
            write(&*tier, 3);
            drop(tier);
            (bytes_of(&*flash), disk)
        });
        // Of the last group there are the pages; the log's rear is before it.
        let mut image = first.clone();
        let (last, offset) = summaries(&image).pop_last().unwrap();
        match is_torn {
            true => image[offset + 60..offset + PAGE].fill(0),
            false => image[offset..offset + PAGE].fill(0),
        }
        let (began, image, disk) = simulate(1, || {
            let flash = device_of(&image);
            let tier = FlashTier::open(flash.clone(), disk.clone(), options.clone()).unwrap().0;
            let began = bytes_of(&*flash);
            write(&*tier, 4);
            tier.checkpoint().unwrap();
            drop(tier);
            (began, bytes_of(&*flash), disk)
        });
        assert!(began[offset..offset + PAGE].iter().all(|byte| *byte == 0), "a torn summary stays");
        let first_page = offset + PAGE - GROUP;
        assert!(began[first_page..offset] == first[first_page..offset], "the leftover is there");
        let groups = summaries(&image);
        assert!(groups[&last] == offset, "the ring has gone round");
        assert_eq!(recovers(&image, &disk, &options, 4), Ok(()));
        let mut lost = image;
        lost[first_page..offset + PAGE].copy_from_slice(&began[first_page..offset + PAGE]);
        let told = recovers(&lost, &disk, &options, 4).expect_err("an older version is on flash alone");
        assert!(
            told.contains(&format!("group {last} was durable")) && told.contains("lost a write"),
            "{told}"
        );
    }
}

/// The device sends a page to where the summary of a group lies. Far enough behind the rear of the open, all
/// pages that are there are the group's own; one that is missing was lost, too: it does not pass for a place
/// that was never filled.
#[test]
fn a_group_whose_summary_was_overwritten_is_read_from_its_pages() {
    let options = small(PolicyKind::FaceGsc, 160);
    let (before, image, disk) = simulate(1, || {
        let (flash, disk) = memory(&options, PAGES);
        load(disk.clone(), PAGES);
        let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
        for number in 2..5 {
            write_all(&*tier, number);
        }
        tier.checkpoint().unwrap();
        let before = bytes_of(&*flash);
        write(&*tier, 5);
        tier.checkpoint().unwrap();
        drop(tier);
        (before, bytes_of(&*flash), disk)
    });
    let groups = summaries(&image);
    let last = *groups.last_key_value().unwrap().0;
    assert!(last > STAGING_GROUPS_MAX.into(), "{last}");
    let mut read_from_pages = 0;
    for number in last - 8..last {
        let mut image = image.clone();
        let offset = groups[&number];
        image.copy_within(offset - PAGE..offset, offset);
        assert_eq!(recovers(&image, &disk, &options, 5), Ok(()), "group {number} of {last}");
        let first_page = offset + PAGE - GROUP;
        image[first_page..first_page + PAGE].copy_from_slice(&before[first_page..first_page + PAGE]);
        let told = recovers(&image, &disk, &options, 5).expect_err("a page is missing");
        // A directory segment tells which pages the groups before it have.
        let of_segment = told.contains("is damaged (page 0:");
        read_from_pages += u32::from(!of_segment);
        assert!(of_segment || told.contains(&format!("group {number} was durable")), "{told}");
    }
    assert!(read_from_pages > 2, "{read_from_pages}");
}
