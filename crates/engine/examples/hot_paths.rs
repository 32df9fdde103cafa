//! Wall-clock cost of the tier's calls in the simulated runtime, over devices in memory that take no time.
//! This is the cost of the tier itself, with copies and checksums. `cargo run --release -p entresol-engine
//! --example hot_paths`

use entresol_core::{Lsn, PageId, PolicyKind};
use entresol_device::MemoryDevice;
use entresol_engine::{DiskLayer, FlashTier, Layer, TierOptions, Victim, disk_offset, flash_bytes};
use entresol_format::page;
use entresol_runtime::rng::Rng;
use entresol_runtime::sim::{SimConfig, Simulation};
use std::sync::Arc;
use std::time::Instant;

const PAGES: u64 = 40_000;
const ROUNDS: u64 = 200_000;

fn measure(what: &str, rounds: u64, mut each: impl FnMut(u64)) {
    let start = Instant::now();
    (0..rounds).for_each(&mut each);
    println!("  {what:<44}{:>8.0} ns", start.elapsed().as_nanos() as f64 / rounds as f64);
}

fn victim(page: PageId, dirty: bool) -> Victim {
    Victim { page, lsn: Lsn(1), dirty, fdirty: dirty }
}

fn run(policy: PolicyKind) {
    println!("{}", policy.name());
    let options = TierOptions::new(policy, 20_000);
    let flash = Arc::new(MemoryDevice::new("flash", flash_bytes(&options)));
    let disk = Arc::new(MemoryDevice::new("disk", disk_offset(PageId(PAGES), 4096)));
    let mut data = vec![0x5a; 4096];
    page::header_mut(&mut data).lsn.set(1);
    let layer = DiskLayer::create(disk.clone(), 4096).expect("the disk is new");
    (0..PAGES).for_each(|number| {
        layer.evict(victim(PageId(number), true), &data).expect("the disk takes it");
    });
    layer.close().expect("the disk takes it");
    let tier = FlashTier::create(flash, disk, options).expect("the devices are new");
    let mut rng = Rng::new(1);
    let mut random = || PageId(rng.below(PAGES));
    let evict = |page: PageId, dirty: bool| {
        tier.evict(victim(page, dirty), &data).expect("the tier takes it");
    };
    measure("evict dirty, filling", 20_000, |number| evict(PageId(number), true));
    measure("evict dirty, with writes, dequeues, destages", ROUNDS, |_| evict(random(), true));
    let mut buffer = vec![0; 4096];
    measure("fetch, half of it from flash", ROUNDS, |_| {
        tier.fetch(random(), &mut buffer).expect("the page is there");
    });
    let staged = PageId(7);
    measure("evict and fetch from staging", ROUNDS / 10, |_| {
        evict(staged, true);
        tier.fetch(staged, &mut buffer).expect("the page is there");
    });
    tier.close().expect("the devices work");
    println!("  {:?}", tier.metrics());
}

fn main() {
    for policy in PolicyKind::ALL {
        Simulation::new(SimConfig::default()).run(|| run(policy)).unwrap();
    }
}
