//! Which policies and modes take which pages, and that these come back as they were.

mod support;

use entresol_core::{PageId, Placement, PolicyKind};
use entresol_device::{Device, MemoryDevice};
use entresol_engine::{
    DiskLayer, FlashTier, Layer, Mode, PageCache, Source, TierOptions, disk_offset, flash_bytes,
};
use entresol_format::PageFormat;
use std::sync::Arc;

#[test]
fn policies_that_need_what_is_in_slots_refuse_raw_pages() {
    for policy in PolicyKind::ALL {
        for mode in Mode::ALL {
            let native = TierOptions { mode, ..support::small(policy, 64) };
            let raw = TierOptions { page_format: PageFormat::Raw, ..native.clone() };
            let page_format = PageFormat::Postgres;
            let postgres = TierOptions { page_format, page_bytes: 8192, ..native.clone() };
            let small = TierOptions { page_format, page_bytes: 4096, ..native.clone() };
            let kept = TierOptions { keeps_slots: true, ..raw.clone() };
            let may_keep = policy.may_keep_slots_in(mode) && policy.refusal(mode).is_none();
            assert_eq!(kept.validate().is_ok(), may_keep, "{} {}", policy.name(), mode.name());
            let (native, raw) = (native.validate(), raw.validate());
            if native.is_err() {
                continue;
            }
            let keeps_slots = matches!(policy, PolicyKind::Tac | PolicyKind::Loc | PolicyKind::Glb);
            let dirty_slots = policy.placement() == Placement::Slots && mode == Mode::WriteBack;
            assert_eq!(raw.is_err(), keeps_slots || dirty_slots, "{} {}", policy.name(), mode.name());
            assert_eq!(postgres.validate().is_err(), raw.is_err(), "{} {}", policy.name(), mode.name());
            let kept = TierOptions { keeps_slots: true, ..postgres };
            let may_keep = policy.may_keep_slots() && mode == Mode::WriteBack;
            assert_eq!(kept.validate().is_ok(), may_keep, "{} {}", policy.name(), mode.name());
            let told = small.validate().unwrap_err().to_string();
            assert!(told.contains("4096") && told.contains("choose 8192"), "{told}");
            if let Err(error) = raw {
                assert!(error.to_string().contains("raw pages are not possible"), "{error}");
            }
        }
    }
}

/// PostgreSQL's page `number`, or with `new` one that PostgreSQL has not initialized.
fn postgres_page(page_format: PageFormat, number: u64, version: u8, new: bool) -> Vec<u8> {
    let mut bytes = vec![version; 8192];
    match new {
        true => bytes.fill(0),
        false => page_format.unseal(&mut bytes, PageId(number)),
    }
    bytes
}

#[test]
fn postgresqls_pages_come_back_as_they_were() {
    for page_format in [PageFormat::Postgres, PageFormat::PostgresChecksums] {
        for policy in [PolicyKind::Face, PolicyKind::FaceGr, PolicyKind::FaceGsc, PolicyKind::Reuse] {
            for mode in [Mode::WriteBack, Mode::WriteThrough] {
                support::simulate(1, || pages_come_back(page_format, policy, mode));
            }
        }
        for policy in PolicyKind::ALL.into_iter().filter(|policy| policy.may_keep_slots()) {
            support::simulate(1, || pages_come_back(page_format, policy, Mode::WriteBack));
        }
    }
}

fn pages_come_back(page_format: PageFormat, policy: PolicyKind, mode: Mode) {
    const PAGES: u64 = 100;
    let keeps_slots = policy.placement() == Placement::Slots;
    let usual = support::small(policy, 64);
    // Of a policy that keeps pages out, all that have changed enter, as in PostgreSQL's door.
    let options =
        TierOptions { page_format, page_bytes: 8192, mode, keeps_slots, takes_changes: keeps_slots, ..usual };
    let flash = Arc::new(MemoryDevice::new("flash", flash_bytes(&options)));
    let disk = Arc::new(MemoryDevice::new("disk", disk_offset(PageId(PAGES), 8192)));
    DiskLayer::create(disk.clone(), 8192).unwrap().close().unwrap();
    let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
    let page = |number: u64| postgres_page(page_format, number, number as u8, number.is_multiple_of(7));
    for round in 0..3 {
        for number in 0..PAGES {
            let victim = support::victim(PageId(number), 0, true, true);
            // Each page is new in another round than it is not.
            let data = if round == 1 {
                postgres_page(page_format, number, 3, number % 7 == 1)
            } else {
                page(number)
            };
            tier.evict(victim, &data).unwrap();
        }
    }
    let is_as_it_was = |tier: &FlashTier| {
        let mut from_flash = 0;
        for number in 0..PAGES {
            let mut buffer = vec![1; 8192];
            let fetched = tier.fetch(PageId(number), &mut buffer).unwrap();
            assert!(buffer == page(number), "page {number} from {:?}", fetched.source);
            let is_new = number.is_multiple_of(7);
            assert!(!is_new || fetched.source == Source::Disk);
            from_flash += u64::from(fetched.source == Source::Flash);
        }
        assert!(from_flash > 20, "{from_flash}");
    };
    is_as_it_was(&tier);
    tier.close().unwrap();
    let (tier, _) = FlashTier::open(flash.clone(), disk.clone(), options).unwrap();
    is_as_it_was(&tier);
    tier.detach().unwrap();
    for number in 0..PAGES {
        let mut buffer = vec![1; 8192];
        disk.read(disk_offset(PageId(number), 8192), &mut buffer).unwrap();
        assert!(buffer == page(number), "page {number} on disk");
    }
}

/// A page is clean on flash, and is followed by a new one, which goes around the flash. The record that the
/// copy is stale waits for the disk: a flush and a shutdown see to that, though no slot waits for it.
#[test]
fn a_clean_copy_that_a_new_page_makes_stale_is_recorded_by_a_flush() {
    let page_format = PageFormat::Postgres;
    for (flushes, mode) in [(true, Mode::WriteBack), (false, Mode::WriteBack), (false, Mode::WriteThrough)] {
        let options =
            TierOptions { page_format, page_bytes: 8192, mode, ..support::small(PolicyKind::FaceGsc, 64) };
        support::simulate(1, || {
            let flash = Arc::new(MemoryDevice::new("flash", flash_bytes(&options)));
            let disk = Arc::new(MemoryDevice::new("disk", disk_offset(PageId(8), 8192)));
            DiskLayer::create(disk.clone(), 8192).unwrap().close().unwrap();
            let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
            for number in 0..8 {
                let data = postgres_page(page_format, number, 1, false);
                tier.evict(support::victim(PageId(number), 0, false, true), &data).unwrap();
            }
            tier.evict(support::victim(PageId(1), 0, true, true), &[0; 8192]).unwrap();
            if flushes {
                tier.flush().unwrap();
            }
            let written = tier.metrics().flash_writes;
            tier.close().unwrap();
            let turned = tier.metrics().flash_writes - written;
            assert!(turned < 64, "the ring was turned by {turned} pages");
            let (tier, _) = FlashTier::open(flash, disk, options.clone()).unwrap();
            let mut buffer = vec![1; 8192];
            assert_eq!(tier.fetch(PageId(1), &mut buffer).unwrap().source, Source::Disk);
        });
    }
}
