//! The cache under test: its files and options, the same for every process.

use super::journal::{FRONTS, PAGES};
use super::roles::{PAGE, build};
use entresol_core::{Lsn, PageId, PolicyKind};
use entresol_device::{Device, FileDevice, FileOptions};
use entresol_engine::{
    AttachOptions, DiskLayer, FlashTier, Layer, SharedFront, Sharing, TierError, TierOptions, Victim,
    WholeDisk, disk_offset, flash_bytes,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// See the module's header.
pub struct World {
    directory: PathBuf,
    pub options: TierOptions,
    pub sharing: Sharing,
}

impl World {
    /// The world whose files are in `directory`.
    pub fn of(directory: &Path) -> Self {
        let options = TierOptions {
            group_pages: 8,
            staging_groups: 4,
            segment_entries: 64,
            write_workers: 2,
            background_workers: 3,
            ..TierOptions::new(PolicyKind::FaceGsc, 256)
        };
        let sharing = Sharing { path: directory.join("segment"), fronts: FRONTS as u32 * 2 + 2 };
        Self { directory: directory.to_owned(), options, sharing }
    }

    /// Makes the disk with all pages in version 1, and an empty cache.
    pub fn create(&self) {
        let layer = DiskLayer::create(self.open("disk", World::place(PAGES)), PAGE as u32).unwrap();
        for page in 0..PAGES {
            let victim = Victim { page: PageId(page), lsn: Lsn(1), dirty: true, fdirty: true };
            layer.evict(victim, &build(page, 1)).unwrap();
        }
        layer.close().unwrap();
        drop(layer);
        let (flash, home) = self.devices();
        FlashTier::create_at(flash, home, self.options.clone()).unwrap().close().unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Where `page` is on disk.
    pub fn place(page: u64) -> u64 {
        disk_offset(PageId(page), PAGE as u32)
    }

    fn open(&self, name: &str, bytes: u64) -> Arc<dyn Device> {
        let options = FileOptions { is_direct_wanted: false, ..FileOptions::create(bytes) };
        Arc::new(FileDevice::open(self.path(name), options).unwrap())
    }

    pub fn devices(&self) -> (Arc<dyn Device>, Arc<WholeDisk>) {
        let flash = self.open("flash", flash_bytes(&self.options));
        (flash, WholeDisk::new(self.open("disk", World::place(PAGES)), PAGE as u32))
    }

    pub fn attach(&self) -> Result<SharedFront, TierError> {
        let attach = AttachOptions { is_direct: false, ..AttachOptions::default() };
        SharedFront::attach(&self.sharing, &self.path("flash"), &self.options, &attach)
    }
}
