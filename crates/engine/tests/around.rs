//! Pages that are written to disk past the flash, by an owner without a log.

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_device::MemoryDevice;
use entresol_engine::{DiskLayer, FlashTier, Layer, Mode, Pages, Reading, TierOptions, flash_bytes};
use entresol_format::PageFormat;
use std::sync::Arc;
use support::{PAGE, disk_bytes, open, simulate};

const PAGES: u64 = 8;

/// The bytes of a page.
fn filled(version: u8) -> Vec<u8> {
    vec![version; PAGE]
}

/// The program is killed after the write, before any flush: its older copy on flash does not come back.
#[test]
fn an_older_copy_is_forgotten_durably_before_the_disk_is_written() {
    for (policy, mode) in [PolicyKind::Face, PolicyKind::FaceGsc]
        .into_iter()
        .flat_map(|policy| [Mode::WriteThrough, Mode::WriteBack].map(|mode| (policy, mode)))
    {
        simulate(1, || {
            let options = TierOptions { page_format: PageFormat::Raw, mode, ..support::small(policy, 64) };
            let flash = Arc::new(MemoryDevice::new("flash", flash_bytes(&options)));
            let disk = Arc::new(MemoryDevice::new("disk", disk_bytes(PAGES)));
            DiskLayer::create(disk.clone(), PAGE as u32).unwrap().close().unwrap();
            let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
            (0..PAGES).for_each(|page| tier.write_pages(PageId(page), &filled(1)).unwrap());
            tier.checkpoint().unwrap();
            tier.destage(&Pages::ALL).unwrap();
            assert_eq!(tier.write_around(PageId(3), &filled(2)).unwrap(), 1, "{policy:?} {mode:?}");
            drop(tier);
            let tier = open(&flash, &disk, &options);
            let mut buffer = vec![0; PAGE];
            for page in 0..PAGES {
                tier.read_pages(PageId(page), &mut buffer, Reading::Populates).unwrap();
                let expected = if page == 3 { 2 } else { 1 };
                assert_eq!(buffer[0], expected, "{policy:?} {mode:?}: page {page}");
            }
            tier.close().unwrap();
        });
    }
}
