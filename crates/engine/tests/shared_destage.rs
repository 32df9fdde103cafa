//! Fronts of a shared cache that want pages on disk.

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_engine::{Layer, PageCache, PageSet, disk_offset};
use std::fs::File;
use std::os::unix::fs::FileExt;
use support::shared::{World, put};
use support::{PAGE, small, version};

/// The version of a page on disk.
fn on_disk(world: &World, page: PageId) -> u64 {
    let mut bytes = vec![0; PAGE];
    let disk = File::open(world.path("disk")).unwrap();
    disk.read_exact_at(&mut bytes, disk_offset(page, PAGE as u32)).unwrap();
    version(page, &bytes)
}

#[test]
fn a_front_has_pages_on_disk_that_it_wants_there() {
    let world = World::new(small(PolicyKind::FaceGsc, 96));
    let tier = world.create();
    let front = world.attach().unwrap();
    (0..20).for_each(|page| put(&front, PageId(page), 2));
    front.destage(&PageSet::Range(PageId(5), PageId(9))).unwrap();
    for page in 0..20 {
        let is_wanted = (5..=9).contains(&page);
        assert_eq!(on_disk(&world, PageId(page)), if is_wanted { 2 } else { 1 }, "page {page}");
        assert_eq!(tier.is_dirty(PageId(page)), !is_wanted, "page {page}");
        assert!(world.fetch(&front, PageId(page), &mut [0; PAGE]).0, "it stays in the cache");
    }
    // Fronts at once: more than there are places for.
    std::thread::scope(|scope| {
        for id in 0..7 {
            let world = &world;
            scope.spawn(move || {
                let front = world.attach().unwrap();
                for round in 0..20 {
                    let page = PageId(100 + id);
                    put(&front, page, round + 2);
                    front.destage(&PageSet::Range(page, page)).unwrap();
                    assert_eq!(on_disk(world, page), round + 2);
                }
            });
        }
    });
    front.destage(&PageSet::ALL).unwrap();
    assert_eq!(tier.dirty_pages(), 0);
    tier.close().unwrap();
}

#[test]
fn a_page_that_is_taken_out_is_on_disk_in_its_newest_version() {
    let world = World::new(small(PolicyKind::FaceGsc, 96));
    let tier = world.create();
    let front = world.attach().unwrap();
    let page = PageId(3);
    put(&front, page, 2);
    front.take_out(page).unwrap();
    assert_eq!(on_disk(&world, page), 2);
    assert_eq!(world.fetch(&front, page, &mut [0; PAGE]), (false, 2));
    front.flush().unwrap();
    tier.abandon();
    drop(tier);
    let tier = world.reopen();
    let front = world.attach().unwrap();
    assert_eq!(world.fetch(&front, page, &mut [0; PAGE]), (false, 2), "and after a crash");
    tier.close().unwrap();
}
