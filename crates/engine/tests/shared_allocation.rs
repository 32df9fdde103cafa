//! A front of another process allocates nothing when it fetches, evicts and forgets pages: an allocator
//! counts the calls of each thread.

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_device::{Device, FileDevice, FileOptions};
use entresol_engine::{
    AttachOptions, Deletes, FlashTier, Handed, Layer, SharedFront, Sharing, Source, WholeDisk, disk_offset,
    flash_bytes,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::sync::Arc;
use support::{PAGE, build, load, small, victim};

const PAGES: u64 = 400;

thread_local! {
    /// Calls of the allocator by this thread.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, which counts.
struct Counting;

impl Counting {
    fn count(&self) {
        // A thread that ends has no counter any more.
        let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
    }
}

#[allow(unsafe_code)]
// SAFETY: everything is the system's allocator's; counting does not unwind and allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.count();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        self.count();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.count();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Calls of the allocator that `work` makes.
fn calls(work: impl FnOnce()) -> u64 {
    let before = CALLS.get();
    work();
    CALLS.get() - before
}

#[test]
fn the_allocator_counts() {
    assert_eq!(calls(|| drop(black_box(Box::new(1)))), 2);
}

#[test]
fn a_front_of_another_process_allocates_nothing() {
    let options = small(PolicyKind::FaceGsc, 96);
    let directory = tempfile::tempdir().unwrap();
    let open = |name: &str, bytes: u64| -> Arc<dyn Device> {
        let options = FileOptions { is_direct_wanted: false, ..FileOptions::create(bytes) };
        Arc::new(FileDevice::open(directory.path().join(name), options).unwrap())
    };
    let disk = open("disk", disk_offset(PageId(PAGES), PAGE as u32));
    load(disk.clone(), PAGES);
    let sharing = Sharing::at(directory.path().join("segment"), 2);
    let (flash, home) = (open("flash", flash_bytes(&options)), WholeDisk::new(disk, PAGE as u32));
    let tier = FlashTier::create_shared(flash, home, options.clone(), &sharing).unwrap();
    let attach = AttachOptions { is_direct: false, ..AttachOptions::default() };
    let front = SharedFront::attach(&sharing, &directory.path().join("flash"), &options, &attach).unwrap();
    let pages: Vec<Vec<u8>> = (0..PAGES).map(|page| build(PageId(page), 2)).collect();
    let mut buffer = vec![0; PAGE];
    let (mut from_flash, mut from_staging, mut absent, mut waited) = (0, 0, 0, 0);
    let allocated = calls(|| {
        for round in 0..4 * PAGES {
            let page = PageId(round % PAGES);
            let data = &pages[page.0 as usize];
            if front.try_evict(victim(page, 2, true, true), data).unwrap().is_none() {
                waited += 1;
                let handed = front.evict(victim(page, 2, true, true), data).unwrap();
                assert!(matches!(handed, Handed::Taken(_)));
            }
            for before in [0, 30, 300] {
                let page = PageId((page.0 + PAGES - before) % PAGES);
                match front.fetch(page, &mut buffer).unwrap() {
                    Some(fetched) if fetched.source == Source::Flash => from_flash += 1,
                    Some(_) => from_staging += 1,
                    None => absent += 1,
                }
            }
            front.forget(PageId(page.0 / 2), PageId(page.0 / 2 + 1)).unwrap();
            if round % 50 == 0 {
                front.forget(PageId(1), PageId(PAGES)).unwrap();
                front.flush().unwrap();
            }
        }
    });
    assert_eq!(
        allocated, 0,
        "{from_flash} from flash, {from_staging} from staging, {absent} absent, {waited} waited"
    );
    for (what, count) in
        [("from flash", from_flash), ("from staging", from_staging), ("absent", absent), ("waited", waited)]
    {
        assert!(count > 20, "{what}: {count}");
    }
    drop(front);
    tier.close().unwrap();
}
