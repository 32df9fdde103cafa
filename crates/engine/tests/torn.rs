//! A write to disk that a power failure has torn, in write-through mode without a log above.

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_engine::{FlashTier, Mode, PageCache, ReadRoute, TierOptions, disk_offset};
use entresol_format::PageFormat;
use support::{PAGE, simulate};

const PAGES: u64 = 60;

fn bytes(page: u64) -> Vec<u8> {
    (page + 1).to_le_bytes().repeat(PAGE / 8)
}

/// In write-through mode power fails during the write of a page to disk, and the copy of another page on
/// flash is damaged: the cache is emptied, and first all that is whole on it is copied.
#[test]
fn a_torn_page_is_mended_from_flash_though_another_copy_is_damaged() {
    for policy in [PolicyKind::Face, PolicyKind::FaceGsc] {
        simulate(1, || {
            let options = TierOptions {
                mode: Mode::WriteThrough,
                page_format: PageFormat::Raw,
                staging_groups: 4,
                segment_entries: 16,
                ..support::small(policy, 80)
            };
            let (flash, disk) = support::memory(&options, PAGES);
            let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
            (0..PAGES).for_each(|page| tier.write_pages(PageId(page), &bytes(page)).unwrap());
            let (mut flash, mut disk) = (support::bytes_of(&*flash), support::bytes_of(&*disk));
            drop(tier);
            let torn = disk_offset(PageId(PAGES - 1), PAGE as u32) as usize;
            disk[torn + PAGE / 2..][..PAGE / 2].fill(0xee);
            let bad = flash.chunks_exact(PAGE).position(|block| block == bytes(PAGES - 2)).unwrap();
            flash[bad * PAGE + 40] ^= 1;
            let (flash, disk) = (support::device_of(&flash), support::device_of(&disk));
            let (tier, report) = FlashTier::open(flash, disk, options).unwrap();
            assert!(report.notices.concat().contains("the cache was emptied"), "{:?}", report.notices);
            for page in 0..PAGES {
                let mut found = vec![0; PAGE];
                tier.read_pages(PageId(page), &mut found, ReadRoute::StaysOut).unwrap();
                assert!(found == bytes(page), "{policy:?}: page {page}");
            }
        });
    }
}
