//! Shadows of a cache that processes share.

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_device::MemoryDevice;
use entresol_engine::{FlashTier, Layer, TierMetrics, TierOptions, WholeDisk, disk_offset};
use std::sync::Arc;
use support::PAGE;
use support::shared::{World, put};

/// What a front of another process looks up, fetches and evicts, the shadows hear; all processes are told the
/// same.
#[test]
fn shadows_follow_the_fronts_of_other_processes() {
    // The smallest cache of this policy that has shadows.
    const SLOTS: u32 = 262_144;
    const READ: u64 = 40_000;
    let world = World::new(TierOptions { history: 0, ..TierOptions::new(PolicyKind::FaceGsc, SLOTS) });
    let disk = Arc::new(MemoryDevice::new("disk", disk_offset(PageId(READ), PAGE as u32)));
    let home = WholeDisk::new(disk, PAGE as u32);
    let tier =
        FlashTier::create_shared(world.devices().0, home, world.options.clone(), &world.sharing).unwrap();
    let front = world.attach().unwrap();
    let own = |metrics: &TierMetrics| {
        let told = *metrics.forecasts.iter().next().expect("the cache has shadows");
        (told.all.fetches, told.all.hits)
    };
    (0..READ).for_each(|page| _ = front.locate(PageId(page), 1, true).unwrap());
    let (fetches, hits) = own(&front.metrics());
    assert!((20..2000).contains(&fetches) && hits == 0, "{fetches} fetches, {hits} hits");
    (0..READ / 4).for_each(|page| put(&front, PageId(page), 2));
    front.missed_by_memory(PageId(0), READ as u32);
    let (twice, hits) = own(&tier.metrics());
    assert_eq!((twice, own(&front.metrics())), (2 * fetches, (twice, hits)));
    assert!(hits > fetches / 8 && hits < fetches / 2, "{hits} hits of {fetches}");
    drop(front);
    tier.close().unwrap();
}
