//! A shutdown that leaves dirty pages on flash (3LA §3.3): the next open finds them, and only the next one.

mod support;

use entresol_core::{Directory, Lsn, Mode, PageId, PolicyKind};
use entresol_device::{Device, MemoryDevice};
use entresol_engine::{
    DiskLayer, FlashTier, Layer, Materialised, Source, TierOptions, disk_offset, flash_bytes,
};
use entresol_format::page;
use std::sync::Arc;
use support::{PAGE, build, disk_bytes, load, simulate, small, version, victim};

const PAGES: u64 = 120;
/// Changed pages: all of them fit on flash.
const CHANGED: u64 = 48;

struct World {
    flash: Arc<MemoryDevice>,
    disk: Arc<MemoryDevice>,
    options: TierOptions,
}

impl World {
    fn open(&self) -> Arc<FlashTier> {
        FlashTier::open(self.flash.clone(), self.disk.clone(), self.options.clone()).unwrap().0
    }

    /// The version of a page on disk.
    fn on_disk(&self, id: PageId) -> u64 {
        let mut bytes = vec![0; PAGE];
        self.disk.read(disk_offset(id, PAGE as u32), &mut bytes).unwrap();
        page::lsn(&bytes).0
    }

    fn older_on_disk(&self, number: u64) -> u64 {
        (0..CHANGED).filter(|page| self.on_disk(PageId(*page)) < number).count() as u64
    }
}

/// Fetches a page and hands it down again, as `number`, or as it is.
fn touch(layer: &dyn Layer, id: PageId, number: Option<u64>) -> (Source, u64) {
    let mut buffer = vec![0; PAGE];
    let fetched = layer.fetch(id, &mut buffer).unwrap();
    let found = version(id, &buffer);
    let given = match number {
        Some(number) => (victim(id, number, true, true), build(id, number)),
        None => (victim(id, found, fetched.dirty, fetched.fdirty), buffer),
    };
    layer.evict(given.0, &given.1).unwrap();
    (fetched.source, found)
}

fn change(layer: &dyn Layer, number: u64) {
    // First to bring them to flash, where LOC keeps a change.
    for change in [None, Some(number)] {
        for page in 0..CHANGED {
            touch(layer, PageId(page), change);
            entresol_runtime::sleep(std::time::Duration::from_millis(1));
        }
    }
}

fn quick_shutdown(layer: &dyn Layer) {
    assert!(layer.can_materialise());
    layer.checkpoint_begins();
    layer.materialise(Lsn(77)).unwrap();
}

/// For LOC and GLB: a cache that was closed with many pages of version 2 on flash alone.
fn with_worlds(body: impl Fn(World) + Sync) {
    for policy in PolicyKind::ALL.into_iter().filter(|policy| policy.directory() == Directory::AtShutdown) {
        for seed in 0..4 {
            simulate(seed, || {
                let options = TierOptions { mode: Mode::WriteBack, ..small(policy, 96) };
                let flash = Arc::new(MemoryDevice::new("flash", flash_bytes(&options)));
                let disk = Arc::new(MemoryDevice::new("disk", disk_bytes(PAGES)));
                load(disk.clone(), PAGES);
                let world = World { flash, disk, options };
                let made = FlashTier::create(world.flash.clone(), world.disk.clone(), world.options.clone());
                let layer = made.unwrap();
                change(&*layer, 2);
                quick_shutdown(&*layer);
                assert!(
                    world.older_on_disk(2) > CHANGED / 2,
                    "{}: the disk was not waited for",
                    policy.name()
                );
                body(world);
            });
        }
    }
}

#[test]
fn dirty_pages_are_there_after_a_shutdown_that_did_not_wait_for_the_disk() {
    with_worlds(|world| {
        let older = world.older_on_disk(2);
        let checked = entresol_engine::check(&*world.flash, Some(world.disk.clone())).unwrap();
        assert!(checked.is_sound() && checked.older_than_disk == 0, "{checked}");
        let layer = world.open();
        assert!(layer.materialised().dirty >= older, "{} of {older}", layer.materialised().dirty);
        assert_eq!(layer.materialised().end, Some(Lsn(77)), "nothing is missing");
        let found: Vec<_> = (0..CHANGED).map(|page| touch(&*layer, PageId(page), None)).collect();
        assert!(found.iter().all(|(_, found)| *found == 2), "{found:?}");
        assert!(found.iter().filter(|(source, _)| *source != Source::Disk).count() as u64 >= older);
        // And once more, and then as usual.
        quick_shutdown(&*layer);
        let layer = world.open();
        assert!(layer.materialised().dirty >= older);
        layer.checkpoint().unwrap();
        assert_eq!(world.older_on_disk(2), 0, "a checkpoint destages what was found");
        layer.close().unwrap();
        assert_eq!(world.open().materialised(), Materialised::default());
    });
}

/// 1. A cache is opened with dirty pages of the shutdown before.
/// 2. It is used, and makes a checkpoint or not.
/// 3. A crash: what the checkpoint made durable is there, and nothing else is taken for newer.
#[test]
fn the_directory_of_a_shutdown_is_void_after_a_crash() {
    with_worlds(|world| {
        let layer = world.open();
        let used = world.older_on_disk(2) % 2 == 0;
        if used {
            change(&*layer, 3);
            layer.checkpoint().unwrap();
            change(&*layer, 4);
        }
        drop(layer);
        let layer = world.open();
        assert_eq!(layer.materialised(), Materialised::default());
        for id in (0..CHANGED).map(PageId) {
            let expected = world.on_disk(id);
            let (source, found) = touch(&*layer, id, None);
            assert_eq!((source, found), (Source::Disk, expected));
            assert!(!used || found >= 3, "page {id}: {found}");
        }
        layer.close().unwrap();
    });
}

/// The disk alone is used meanwhile, from the log of its owner.
#[test]
fn the_directory_of_a_shutdown_is_void_after_the_disk_was_used_without_it() {
    with_worlds(|world| {
        let alone = DiskLayer::open(world.disk.clone(), PAGE as u32).unwrap();
        for page in 0..CHANGED / 2 {
            alone.evict(victim(PageId(page), 9, true, true), &build(PageId(page), 9)).unwrap();
        }
        alone.close().unwrap();
        let layer = world.open();
        assert_eq!(layer.materialised(), Materialised::default());
        for id in (0..CHANGED / 2).map(PageId) {
            assert_eq!(touch(&*layer, id, None), (Source::Disk, 9));
        }
        layer.close().unwrap();
    });
}

/// 1. A block of the directory is damaged.
/// 2. The open leaves its entries out, and does not say that everything is there: the log is repeated.
#[test]
fn a_directory_that_is_damaged_does_not_count_as_complete() {
    with_worlds(|world| {
        let offset = world.options.layout().directory_offset(0);
        let mut block = vec![0; 4096];
        world.flash.read(offset, &mut block).unwrap();
        block[100] ^= 1;
        world.flash.write(offset, &block).unwrap();
        let layer = world.open();
        assert_eq!(layer.materialised().end, None);
        layer.close().unwrap();
    });
}

/// In write-through mode the disk has everything: nothing that it lacks is served.
#[test]
fn the_dirty_pages_of_a_shutdown_are_left_out_in_another_mode() {
    with_worlds(|world| {
        let options = TierOptions { mode: Mode::WriteThrough, ..world.options.clone() };
        let (layer, report) = FlashTier::open(world.flash.clone(), world.disk.clone(), options)
            .expect("it is its disk's cache");
        assert!(report.notices.iter().any(|notice| notice.contains("mode has changed")), "{report:?}");
        assert!(layer.materialised().dirty == 0 && !layer.can_materialise());
        for id in (0..CHANGED).map(PageId) {
            assert_eq!(touch(&*layer, id, None), (Source::Disk, world.on_disk(id)));
        }
        layer.close().unwrap();
    });
}
