//! A cache whose slots survive a crash, and what is on its flash.

use crate::support::{self, PAGE, build, memory, small, version, victim};
use entresol_core::{PageId, PolicyKind, SlotId};
use entresol_device::{Device, MemoryDevice};
use entresol_engine::{FlashTier, Layer, Source, TierOptions};
use entresol_format::BLOCK_BYTES;
use entresol_format::batch;
use std::collections::BTreeSet;
use std::sync::Arc;

pub const PAGES: u64 = 60;

pub fn kept(policy: PolicyKind) -> TierOptions {
    TierOptions { keeps_slots: true, segment_entries: 16, ..small(policy, 96) }
}

pub type Devices = (Arc<MemoryDevice>, Arc<MemoryDevice>);

pub fn create(options: &TierOptions) -> (Arc<FlashTier>, Devices) {
    let (flash, disk) = memory(options, PAGES);
    let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
    (tier, (flash, disk))
}

/// Evicts all pages, changed, in this version, and makes a checkpoint.
pub fn write_all(tier: &FlashTier, number: u64) {
    for page in (0..PAGES).map(PageId) {
        tier.evict(victim(page, number, true, true), &build(page, number)).unwrap();
    }
    tier.checkpoint().unwrap();
}

/// The devices as a power failure leaves them: everything that was written is there.
pub fn after_a_crash((flash, disk): &Devices) -> Devices {
    let copy = |device: &MemoryDevice| support::device_of(&support::bytes_of(device));
    (copy(flash), copy(disk))
}

/// What a power failure leaves after so many versions of all pages.
pub fn crashed(options: &TierOptions, versions: u64) -> Devices {
    let (tier, devices) = create(options);
    (1..=versions).for_each(|number| write_all(&tier, number));
    after_a_crash(&devices)
}

/// How many of all pages are found in this version, and on flash.
pub fn on_flash(tier: &FlashTier, number: u64) -> u64 {
    let mut buffer = vec![0; PAGE];
    let mut found = 0;
    for page in (0..PAGES).map(PageId) {
        let fetched = tier.fetch(page, &mut buffer).unwrap();
        assert_eq!(version(page, &buffer), number, "page {page}");
        found += u64::from(fetched.source != Source::Disk);
    }
    found
}

pub fn block_of(offset: u64, device: &dyn Device) -> Vec<u8> {
    let mut block = vec![0; BLOCK_BYTES];
    device.read(offset, &mut block).unwrap();
    block
}

/// The summaries of all batches, of which there are fewer than places.
pub fn summaries(options: &TierOptions, flash: &dyn Device) -> Vec<batch::Summary> {
    let layout = options.layout();
    let summary = |number| batch::decode(&block_of(layout.batch_offset(number), flash));
    (0..layout.batch_places()).map_while(|number| summary(number).ok()).collect()
}

pub fn flip(offset: u64, device: &dyn Device) {
    let mut block = block_of(offset, device);
    block[100] ^= 1;
    device.write(offset, &block).unwrap();
}

/// The slots that are empty after all of these batches.
pub fn free_slots(options: &TierOptions, batches: &[batch::Summary]) -> Vec<SlotId> {
    let mut taken = BTreeSet::new();
    for batch::Summary { changes, .. } in batches {
        let from = changes.pages.iter().filter_map(|placed| Some(placed.from?.slot));
        changes.emptied.iter().copied().chain(from).for_each(|slot| _ = taken.remove(&slot));
        taken.extend(changes.pages.iter().map(|placed| placed.slot));
    }
    (0..options.slots).map(SlotId).filter(|slot| !taken.contains(slot)).collect()
}
