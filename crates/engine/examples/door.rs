//! A door: what a program needs to use the flash tier. Here the program has pages of bytes, no log and no
//! memory for pages of its own, as a block device has. docs/WRITE-A-DOOR.md explains it.
//!
//! `cargo run --release -p entresol-engine --example door`

use entresol_core::{Mode, PageId, PolicyKind};
use entresol_device::{Device, FileOptions, open_device};
use entresol_engine::{
    Deletes, FlashTier, Layer, PageCache, ReadRoute, TierError, TierOptions, detach, disk_offset, flash_bytes,
};
use entresol_format::PageFormat;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

const PAGE_BYTES: usize = 4096;
/// Pages of the disk, and slots on flash.
const PAGES: u64 = 16_384;
const SLOTS: u32 = 4096;

fn options() -> TierOptions {
    TierOptions {
        page_format: PageFormat::Raw, // The pages are the owner's bytes, without our header.
        mode: Mode::WriteBack,
        ..TierOptions::new(PolicyKind::FaceGsc, SLOTS)
    }
}

/// Flash and disk: files here, or block devices.
fn devices(folder: &Path) -> Result<[Arc<dyn Device>; 2], Box<dyn Error>> {
    let disk_bytes = disk_offset(PageId(PAGES), PAGE_BYTES as u32);
    let flash = open_device(folder.join("flash.img"), FileOptions::create(flash_bytes(&options())))?;
    let disk = open_device(folder.join("disk.img"), FileOptions::create(disk_bytes))?;
    Ok([flash.device, disk.device])
}

/// Pages by number, with a flash cache before the disk.
struct Door {
    tier: Arc<FlashTier>,
}

impl Door {
    fn create(folder: &Path) -> Result<Self, Box<dyn Error>> {
        let [flash, disk] = devices(folder)?;
        Ok(Self { tier: FlashTier::create(flash, disk, options())? })
    }

    /// Opens it after a shutdown or a crash.
    fn open(folder: &Path) -> Result<Self, Box<dyn Error>> {
        let [flash, disk] = devices(folder)?;
        let (tier, report) = FlashTier::open(flash, disk, options())?;
        report.notices.iter().for_each(|notice| eprintln!("{notice}"));
        Ok(Self { tier })
    }

    /// Reads adjacent pages from `first` on.
    fn read(&self, first: u64, buffer: &mut [u8]) -> Result<(), TierError> {
        self.tier.read_pages(PageId(first), buffer, ReadRoute::Populates)?;
        Ok(())
    }

    /// Writes adjacent pages. They are served at once, and durable after the next flush.
    fn write(&self, first: u64, data: &[u8]) -> Result<(), TierError> {
        self.tier.write_pages(PageId(first), data)
    }

    /// All writes that have returned are durable.
    fn flush(&self) -> Result<(), TierError> {
        self.tier.flush()
    }

    /// The pages are unneeded: reads get the disk's bytes.
    fn trim(&self, first: u64, last: u64) -> Result<(), TierError> {
        self.tier.forget(PageId(first), PageId(last))?;
        Ok(())
    }

    /// Shuts down: the next open is warm.
    fn close(self) -> Result<(), TierError> {
        self.tier.close()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("entresol-door-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let page = |number: u64| vec![number as u8; PAGE_BYTES];

    let door = Door::create(&folder)?;
    for number in 0..PAGES {
        door.write(number, &page(number))?;
    }
    door.flush()?;
    door.close()?; // After a crash the next open finds all flushed pages, too.

    let door = Door::open(&folder)?;
    let mut buffer = vec![0; PAGE_BYTES];
    for number in 0..PAGES {
        door.read(number, &mut buffer)?;
        assert_eq!(buffer, page(number), "page {number}");
    }
    let metrics = door.tier.metrics();
    println!("{PAGES} pages are there; {} were read from flash", metrics.flash_hits);
    door.trim(0, 9)?;
    door.close()?;

    // To take the flash away: all pages to the disk.
    let [flash, disk] = devices(&folder)?;
    println!("{} pages were newer than disk", detach(flash, disk)?.pages_written);
    std::fs::remove_dir_all(folder)?;
    Ok(())
}
