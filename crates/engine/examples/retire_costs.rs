//! Retires an object with a given number of cached pages, and cuts another one, each in a function of its own
//! that callgrind can count. `benches/instructions.sh` at the root of the repository runs it.
//!
//! Usage: `retire_costs <retire | cut> <pages>`

use entresol_core::{Lsn, Mode, PolicyKind};
use entresol_device::{Device, MemoryDevice};
use entresol_engine::{
    Deletes, DiskLayer, FlashTier, Layer, PageCache, TierError, TierOptions, Victim, disk_offset, flash_bytes,
};
use entresol_format::PageFormat;
use entresol_objects::{Locator, ObjectId};
use std::hint::black_box;
use std::sync::Arc;

const PAGE_BYTES: usize = 4096;

#[inline(never)]
fn counted_retire(tier: &FlashTier, object: ObjectId) -> Result<bool, TierError> {
    black_box(tier.retire(object))
}

#[inline(never)]
fn counted_cut(tier: &FlashTier, object: ObjectId) -> Result<(), TierError> {
    black_box(tier.cut(object, 1))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let usage = "usage: retire_costs <retire | cut> <pages>";
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, pages] = arguments.as_slice() else { return Err(usage.into()) };
    let pages: u32 = pages.parse().map_err(|_| usage)?;
    let options = TierOptions {
        page_format: PageFormat::Raw,
        mode: Mode::WriteBack,
        objects: 16,
        ..TierOptions::new(PolicyKind::FaceGsc, (pages + 4096).next_multiple_of(64))
    };
    let flash = Arc::new(MemoryDevice::new("flash", flash_bytes(&options)));
    // The first object's pages have the first ids.
    let disk_bytes = disk_offset(ObjectId(0).page(pages), PAGE_BYTES as u32);
    let disk: Arc<dyn Device> = Arc::new(MemoryDevice::new("disk", disk_bytes));
    DiskLayer::create(disk.clone(), PAGE_BYTES as u32)?.close()?;
    let tier = FlashTier::create(flash, disk, options)?;
    let object = tier.define(&Locator::default())?.ok_or("the table has room")?;
    let data = vec![7; PAGE_BYTES];
    for page in 0..pages {
        let victim = Victim { page: object.page(page), lsn: Lsn(0), dirty: true, fdirty: true };
        tier.evict(victim, &data)?;
    }
    tier.flush()?;
    match what.as_str() {
        "retire" => _ = counted_retire(&tier, object)?,
        "cut" => counted_cut(&tier, object)?,
        _ => return Err(usage.into()),
    }
    println!("{} valid pages on flash", tier.metrics().slots_valid);
    Ok(())
}
