//! A cache in files, that other processes attach.

use super::{PAGE, build, load, small, version, victim};
use entresol_core::{PageId, PolicyKind};
use entresol_device::{Device, FileDevice, FileOptions};
use entresol_engine::{
    AttachOptions, DiskLayer, FlashTier, Handed, Layer, SharedFront, Sharing, TierError, TierOptions,
    WholeDisk, disk_offset, flash_bytes,
};
use entresol_format::PageFormat;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

pub const PAGES: u64 = 600;

/// Files of a cache, and what it is shared by.
pub struct World {
    pub directory: tempfile::TempDir,
    pub options: TierOptions,
    pub sharing: Sharing,
}

impl World {
    pub fn new(options: TierOptions) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let sharing = Sharing::at(directory.path().join("segment"), 8);
        let world = Self { directory, options, sharing };
        let disk = world.open("disk", disk_offset(PageId(PAGES), world.options.page_bytes));
        match world.options.page_format {
            PageFormat::Native => load(disk, PAGES),
            _ => DiskLayer::create(disk, world.options.page_bytes).unwrap().close().unwrap(),
        }
        world
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn open(&self, name: &str, bytes: u64) -> Arc<dyn Device> {
        let options = FileOptions { is_direct_wanted: false, ..FileOptions::create(bytes) };
        Arc::new(FileDevice::open(self.path(name), options).unwrap())
    }

    pub fn devices(&self) -> (Arc<dyn Device>, Arc<WholeDisk>) {
        let flash = self.open("flash", flash_bytes(&self.options));
        let page_bytes = self.options.page_bytes;
        let disk = self.open("disk", disk_offset(PageId(PAGES), page_bytes));
        (flash, WholeDisk::new(disk, page_bytes))
    }

    pub fn create(&self) -> Arc<FlashTier> {
        let (flash, home) = self.devices();
        FlashTier::create_shared(flash, home, self.options.clone(), &self.sharing).unwrap()
    }

    pub fn reopen(&self) -> Arc<FlashTier> {
        let (flash, home) = self.devices();
        FlashTier::open_shared(flash, home, self.options.clone(), &self.sharing).unwrap().0
    }

    pub fn attach(&self) -> Result<SharedFront, TierError> {
        let attach = AttachOptions { is_direct: false, ..AttachOptions::default() };
        SharedFront::attach(&self.sharing, &self.path("flash"), &self.options, &attach)
    }

    /// Fetches a page through `front`, or from disk; whether it was in the cache, and its version.
    pub fn fetch(&self, front: &SharedFront, page: PageId, buffer: &mut [u8]) -> (bool, u64) {
        match front.fetch(page, buffer).unwrap() {
            Some(_) => (true, version(page, buffer)),
            None => {
                let disk = File::open(self.path("disk")).unwrap();
                disk.read_exact_at(buffer, disk_offset(page, PAGE as u32)).unwrap();
                (false, version(page, buffer))
            }
        }
    }
}

pub fn put(front: &SharedFront, page: PageId, version: u64) {
    let handed = front.evict(victim(page, version, true, true), &build(page, version)).unwrap();
    assert!(matches!(handed, Handed::Taken(evicted) if evicted.dirty), "{handed:?}");
}

/// Small caches that processes can share: of a log, and of each policy whose slots survive a crash.
pub fn survivors() -> impl Iterator<Item = TierOptions> {
    let of_log = [PolicyKind::Face, PolicyKind::FaceGr, PolicyKind::FaceGsc].map(|policy| small(policy, 96));
    let in_slots = PolicyKind::ALL.into_iter().filter(|policy| policy.may_keep_slots());
    let in_slots =
        in_slots.map(|policy| TierOptions { keeps_slots: true, takes_changes: true, ..small(policy, 96) });
    of_log.into_iter().chain(in_slots)
}
