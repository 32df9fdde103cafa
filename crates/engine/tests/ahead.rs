//! Reads that the caller carries out after a look-up.

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_device::MemoryDevice;
use entresol_engine::{
    Deletes, DiskLayer, FLASH_READ_PAGES_MAX, FlashTier, FragmentOptions, FragmentTier, Layer, Mode,
    PageCache, ReadRoute, TierOptions, flash_bytes,
};
use entresol_format::PageFormat;
use std::sync::Arc;
use support::{PAGE, disk_bytes, simulate};

const PAGES: u64 = 512;
const SLOTS: u32 = 64;

/// Page `page` in its version: `version` in each byte but the first.
fn filled(page: u64, version: u8) -> Vec<u8> {
    let mut bytes = vec![version; PAGE];
    bytes[0] = page as u8;
    bytes
}

fn write(tier: &FlashTier, pages: impl Iterator<Item = u64>, version: u8) {
    pages.for_each(|page| tier.write_pages(PageId(page), &filled(page, version)).unwrap());
}

/// Runs with a tier that has pages 0 to 7 in version 1 on flash.
fn with_tier(policy: PolicyKind, main: impl FnOnce(&Arc<FlashTier>) + Send) {
    simulate(1, || {
        let mode = Mode::WriteThrough;
        let options = TierOptions { page_format: PageFormat::Raw, mode, ..support::small(policy, SLOTS) };
        let flash = Arc::new(MemoryDevice::new("flash", flash_bytes(&options)));
        let disk = Arc::new(MemoryDevice::new("disk", disk_bytes(PAGES)));
        DiskLayer::create(disk.clone(), PAGE as u32).unwrap().close().unwrap();
        let tier = FlashTier::create(flash, disk, options).unwrap();
        write(&tier, 0..8, 1);
        tier.checkpoint().unwrap();
        main(&tier);
        tier.close().unwrap();
    });
}

#[test]
fn what_was_looked_up_is_read_and_counted() {
    for policy in [PolicyKind::Face, PolicyKind::FaceGsc, PolicyKind::Lru] {
        with_tier(policy, |tier| {
            let read = tier.clone().begin_read(PageId(2), 4).expect("they are on flash");
            let parts = read.parts();
            assert_eq!(parts.iter().map(|part| part.length).sum::<usize>(), 4 * PAGE, "{policy:?}");
            let mut buffer = vec![0; 4 * PAGE];
            read.read_now(&mut buffer).unwrap();
            let before = tier.metrics().flash_hits;
            assert!(read.end(&mut buffer), "{policy:?}");
            assert_eq!(tier.metrics().flash_hits, before + 4);
            let expected = (2..6).flat_map(|page| filled(page, 1)).collect::<Vec<_>>();
            assert!(buffer == expected, "{policy:?}");
            // Other bytes than those of the page are not served.
            buffer[PAGE + 5] ^= 1;
            assert!(!read.end(&mut buffer), "{policy:?}");
            assert_eq!(tier.metrics().flash_hits, before + 4);
        });
    }
}

/// 1. Two pages are looked up. 2. They are written anew, and so much else that their slots are used again.
/// 3. They are read: other pages, or newer versions, are there.
#[test]
fn what_was_overwritten_after_the_look_up_is_not_proved() {
    for policy in [PolicyKind::Face, PolicyKind::FaceGsc, PolicyKind::Lru] {
        with_tier(policy, |tier| {
            let read = tier.clone().begin_read(PageId(2), 2).expect("they are on flash");
            write(tier, 2..4, 2);
            for round in 0..4 {
                write(tier, 16..16 + u64::from(SLOTS), 10 + round);
            }
            tier.checkpoint().unwrap();
            let mut buffer = vec![0; 2 * PAGE];
            read.read_now(&mut buffer).unwrap();
            assert!(!read.end(&mut buffer), "{policy:?}");
        });
    }
}

#[test]
fn what_is_not_all_on_flash_is_not_begun() {
    with_tier(PolicyKind::FaceGsc, |tier| {
        assert!(tier.clone().begin_read(PageId(6), 3).is_none(), "page 8 is on disk alone");
        write(tier, 6..7, 2);
        let too_many = FLASH_READ_PAGES_MAX + 1;
        assert!(tier.clone().begin_read(PageId(0), too_many).is_none());
        assert!(tier.clone().begin_read(PageId(0), 6).is_some());
    });
}

/// As the tests above, of fragments.
#[test]
fn fragments_are_looked_up_and_proved() {
    simulate(1, || {
        let usual = FragmentOptions::of_pages(64, PAGE as u32, PageFormat::Raw).with_fragments(8, 8);
        let options = FragmentOptions { pace_permille: 1000, ..usual };
        let flash = Arc::new(MemoryDevice::new("flash", options.flash_bytes()));
        let disk = Arc::new(MemoryDevice::new("disk", disk_bytes(PAGES)));
        DiskLayer::create(disk.clone(), PAGE as u32).unwrap().close().unwrap();
        let tier = FragmentTier::open(flash, disk, options).unwrap();
        let mut bytes = vec![0; PAGE];
        let write = |page: u64, version: u8| tier.write_pages(PageId(page), &filled(page, version)).unwrap();
        (0..8).for_each(|page| write(page, 1));
        // Read often enough, the fragment is brought in.
        while tier.clone().begin_read(PageId(2), 4).is_none() {
            (0..8).for_each(|page| {
                _ = tier.read_pages(PageId(page), &mut bytes, ReadRoute::Populates).unwrap()
            });
            entresol_runtime::sleep(std::time::Duration::from_millis(1));
        }
        let read = tier.clone().begin_read(PageId(2), 4).expect("they are on flash");
        assert_eq!(read.parts().len(), 1, "they are adjacent");
        let mut buffer = vec![0; 4 * PAGE];
        read.read_now(&mut buffer).unwrap();
        let before = tier.metrics().flash_hits;
        assert!(read.end(&mut buffer));
        assert_eq!(tier.metrics().flash_hits, before + 4);
        assert!(buffer == (2..6).flat_map(|page| filled(page, 1)).collect::<Vec<_>>());
        write(3, 2);
        // What was looked up before is the older version, and what is there now is not it.
        assert!(!{
            read.read_now(&mut buffer).unwrap();
            read.end(&mut buffer)
        });
        assert_eq!(tier.metrics().flash_hits, before + 4);
        let too_many = FLASH_READ_PAGES_MAX + 1;
        assert!(tier.clone().begin_read(PageId(0), too_many).is_none());
        assert!(tier.clone().begin_read(PageId(6), 4).is_none(), "page 8 is on disk alone");
        tier.forget(PageId(5), PageId(5)).unwrap();
        assert!(tier.clone().begin_read(PageId(2), 4).is_none());
        tier.close().unwrap();
    });
}
