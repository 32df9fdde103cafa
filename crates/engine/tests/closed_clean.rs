//! A cache that is closed without dirty pages: its disk does not need it, and it is warm at the next open.

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_engine::{
    Deletes, FlashTier, Home, Layer, TierError, WholeDisk, cache_on, disk_offset, is_flash_needed,
};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use support::shared::{PAGES, World, put};
use support::{PAGE, small, version};

const DIRTY: u64 = 60;

/// A cache that had `DIRTY` dirty pages in version 2, and was closed without.
fn closed() -> World {
    let world = World::new(small(PolicyKind::FaceGsc, 96));
    let tier = world.create();
    let front = world.attach().unwrap();
    (0..DIRTY).for_each(|page| put(&front, PageId(page), 2));
    front.forget(PageId(7), PageId(7)).unwrap();
    drop(front);
    tier.close_clean().unwrap();
    world
}

fn on_disk(world: &World, page: u64) -> u64 {
    let mut bytes = vec![0; PAGE];
    let disk = File::open(world.path("disk")).unwrap();
    disk.read_exact_at(&mut bytes, disk_offset(PageId(page), PAGE as u32)).unwrap();
    version(PageId(page), &bytes)
}

#[test]
fn the_disk_has_everything_and_the_next_open_is_warm() {
    let world = closed();
    (0..DIRTY).filter(|page| *page != 7).for_each(|page| assert_eq!(on_disk(&world, page), 2, "page {page}"));
    let (flash, home) = world.devices();
    assert!(!is_flash_needed(home.label()).unwrap());
    assert!(!cache_on(&*flash, home.label()).unwrap().unwrap().dirty_possible);
    drop((flash, home));
    let tier = world.reopen();
    let front = world.attach().unwrap();
    let mut page = vec![0; PAGE];
    for at in (0..DIRTY).filter(|page| *page != 7) {
        let (is_cached, found) = world.fetch(&front, PageId(at), &mut page);
        assert!(is_cached && found == 2, "page {at}: version {found}, in the cache: {is_cached}");
        assert!(!tier.is_dirty(PageId(at)), "page {at}");
    }
    assert!(!front.is_on_flash(PageId(7)), "it was forgotten");
    // From now on the disk needs it again.
    put(&front, PageId(1), 3);
    front.flush().unwrap();
    tier.abandon();
    drop((front, tier));
    let tier = world.reopen();
    let front = world.attach().unwrap();
    assert_eq!(world.fetch(&front, PageId(1), &mut page), (true, 3));
    drop(front);
    tier.close_clean().unwrap();
    assert_eq!(on_disk(&world, 1), 3);
}

#[test]
fn a_lost_or_damaged_flash_loses_nothing() {
    let world = closed();
    let flash = File::options().write(true).open(world.path("flash")).unwrap();
    // All but the superblocks.
    let bytes = fs::metadata(world.path("flash")).unwrap().len();
    let at = 1 << 20;
    flash.write_all_at(&vec![0xee; (bytes - at) as usize], at).unwrap();
    let tier = world.reopen();
    let front = world.attach().unwrap();
    let mut page = vec![0; PAGE];
    for at in (0..DIRTY).filter(|page| *page != 7) {
        assert_eq!(world.fetch(&front, PageId(at), &mut page).1, 2, "page {at}");
    }
    drop(front);
    tier.close_clean().unwrap();
    drop(tier);
    fs::remove_file(world.path("flash")).unwrap();
    let tier = world.reopen();
    assert_eq!(tier.metrics().slots_valid, 0);
    tier.close().unwrap();
}

/// The flash may be another disk's from then on, and that of a disk that needs it may not.
#[test]
fn another_disk_may_take_the_flash() {
    let take = |world: &World| -> Result<(), TierError> {
        let disk = world.open("other", disk_offset(PageId(PAGES), PAGE as u32));
        let flash = world.devices().0;
        let home = WholeDisk::new(disk, world.options.page_bytes);
        FlashTier::create_at(flash, home, world.options.clone())?.close()
    };
    let world = closed();
    let tier = world.reopen();
    tier.close().unwrap();
    drop(tier);
    let refusal = take(&world).unwrap_err().to_string();
    assert!(refusal.contains("another disk"), "{refusal}");
    world.reopen().close_clean().unwrap();
    take(&world).unwrap();
}
