//! Caches of raw pages: bytes of somebody else. (What power failures do to them: the test kit's `raw`.)

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_device::Device;
use entresol_engine::{FlashTier, Layer, Mode, TierOptions, check, detach, disk_offset};
use entresol_format::PageFormat;
use support::{PAGE, load, simulate, victim};

const PAGES: u64 = 150;

fn options(policy: PolicyKind, mode: Mode) -> TierOptions {
    let small = support::small(policy, 80);
    TierOptions { page_format: PageFormat::Raw, mode, staging_groups: 4, segment_entries: 16, ..small }
}

/// Raw bytes that tell page and version.
fn bytes(page: u64, version: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    for chunk in bytes.chunks_exact_mut(16) {
        chunk[..8].copy_from_slice(&page.to_le_bytes());
        chunk[8..].copy_from_slice(&version.to_le_bytes());
    }
    bytes
}

/// The version in `found`, all of which must be of one version of the page; 0: what was on the disk before.
fn version(page: u64, found: &[u8]) -> u64 {
    let number = |at: usize| u64::from_le_bytes(found[at..at + 8].try_into().unwrap());
    if number(0) == page && found == bytes(page, number(8)) { number(8) } else { 0 }
}

#[test]
fn the_disk_has_the_bytes_as_they_are() {
    let options = options(PolicyKind::FaceGsc, Mode::WriteBack);
    simulate(1, || {
        let (flash, disk) = support::memory(&options, PAGES);
        load(disk.clone(), PAGES);
        let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
        for number in 1..4 {
            for page in 0..PAGES {
                tier.evict(victim(PageId(page), 0, true, true), &bytes(page, number)).unwrap();
            }
        }
        let mut buffer = vec![0; PAGE];
        for page in 0..PAGES {
            tier.fetch(PageId(page), &mut buffer).unwrap();
            assert_eq!(version(page, &buffer), 3);
        }
        tier.close().unwrap();
        let report = check(&*flash, Some(disk.clone())).unwrap();
        assert!(report.faults.is_empty(), "{report}");
        detach(flash, disk.clone()).unwrap();
        for page in 0..PAGES {
            disk.read(disk_offset(PageId(page), PAGE as u32), &mut buffer).unwrap();
            assert_eq!(version(page, &buffer), 3);
        }
    });
}
