//! The back looks after damage that a front has met, while fronts go on with the page.

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_device::{Device, DeviceError};
use entresol_engine::{FlashTier, Home, Names, TierError, WholeDisk, disk_offset};
use entresol_format::PageFormat;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use support::shared::{World, put};
use support::{PAGE, build, small, victim};

/// A disk whose next read of one page stops after it was read, until it is told to go on.
struct Stopping {
    disk: Arc<WholeDisk>,
    page: AtomicU64,
    reached: mpsc::SyncSender<()>,
    goes_on: std::sync::Mutex<mpsc::Receiver<()>>,
}

impl Home for Stopping {
    fn label(&self) -> &dyn Device {
        self.disk.label()
    }
    fn capacity_pages(&self) -> u64 {
        self.disk.capacity_pages()
    }
    fn place(&self, page: PageId, names: &dyn Names) -> String {
        self.disk.place(page, names)
    }
    fn read(&self, first: PageId, buffer: &mut [u8], names: &dyn Names) -> Result<(), DeviceError> {
        self.disk.read(first, buffer, names)?;
        if self.page.compare_exchange(first.0, u64::MAX, SeqCst, SeqCst).is_ok() {
            self.reached.send(()).unwrap();
            self.goes_on.lock().unwrap().recv().unwrap();
        }
        Ok(())
    }
    fn write(&self, pages: &[(PageId, &[u8])], names: &dyn Names) -> Result<(), DeviceError> {
        self.disk.write(pages, names)
    }
    fn sync(&self) -> Result<(), DeviceError> {
        self.disk.sync()
    }
    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.disk.drop_cached()
    }
}

fn damage(world: &World, page: PageId) {
    let path = world.path("flash");
    let mut bytes = std::fs::read(&path).unwrap();
    for chunk in bytes.chunks_exact_mut(PAGE) {
        let head = entresol_format::page::header(chunk);
        if head.page.get() == page.0 && entresol_format::page::verify(chunk, page, None).is_ok() {
            chunk[PAGE / 2] ^= 1;
        }
    }
    File::options().write(true).open(&path).unwrap().write_all_at(&bytes, 0).unwrap();
}

fn write(world: &World, page: PageId, number: u64) {
    let mut bytes = build(page, number);
    PageFormat::Native.seal_for_disk(&mut bytes, page);
    let disk = File::options().write(true).open(world.path("disk")).unwrap();
    disk.write_all_at(&bytes, disk_offset(page, PAGE as u32)).unwrap();
}

/// While the back has read the page from disk, and has not handed it to the cache, a front does something.
fn while_the_back_reads(is_evicted: bool) {
    let world = World::new(small(PolicyKind::FaceGsc, 96));
    let (reached, is_reached) = mpsc::sync_channel(1);
    let (go_on, goes_on) = mpsc::sync_channel(1);
    let (flash, disk) = world.devices();
    let home = Arc::new(Stopping {
        disk,
        page: AtomicU64::new(u64::MAX),
        reached,
        goes_on: std::sync::Mutex::new(goes_on),
    });
    let tier = FlashTier::create_shared(flash, home.clone(), world.options.clone(), &world.sharing).unwrap();
    let front = world.attach().unwrap();
    let page = PageId(7);
    front.evict(victim(page, 1, false, true), &build(page, 1)).unwrap();
    (100..140).for_each(|page| put(&front, PageId(page), 2));
    front.checkpoint().unwrap();
    damage(&world, page);
    home.page.store(page.0, SeqCst);
    let mut buffer = vec![0; PAGE];
    // The front's caller reads the page from disk, changes it, and ...
    assert_eq!(world.fetch(&front, page, &mut buffer), (false, 1));
    is_reached.recv_timeout(Duration::from_secs(10)).expect("the back reads the page");
    match is_evicted {
        true => put(&front, page, 2),
        false => front
            .write_around(page, || {
                write(&world, page, 2);
                Ok::<(), TierError>(())
            })
            .unwrap(),
    }
    assert_eq!(world.fetch(&front, page, &mut buffer).1, 2, "before the back goes on");
    go_on.send(()).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let found = world.fetch(&front, page, &mut buffer);
    drop(front);
    tier.abandon();
    assert_eq!(found.1, 2, "after the back has looked after the damage; from the cache: {}", found.0);
}

#[test]
fn a_page_that_is_evicted_meanwhile_is_not_overtaken_by_the_disks() {
    while_the_back_reads(true);
}

#[test]
fn a_page_that_is_written_past_the_cache_meanwhile_is_not_overtaken_by_the_disks() {
    while_the_back_reads(false);
}
