//! Dequeues that sync the disk together, and share a renewal of its label.

mod support;

use entresol_core::{Lsn, PageId, PolicyKind};
use entresol_device::{Counters, Device, DeviceError, Geometry, Io, MemoryDevice, Profile, Scale};
use entresol_engine::{FlashTier, Layer, TierOptions, Upstream, disk_offset, flash_bytes};
use entresol_format::label::LABEL_AREA_BYTES;
use entresol_runtime::spawn;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use support::logged::{Log, home, home_with_label};
use support::{PAGE, PAGES, build, disk_bytes, load, memory, simulate, small, victim};

/// Clients evict their own pages, `0 .. pages` in all, in `rounds` versions.
fn write(tier: &Arc<FlashTier>, pages: u64, rounds: u64) {
    const CLIENTS: u64 = 6;
    let client = |client: u64| {
        let tier = tier.clone();
        spawn("client", move || {
            for number in 2..2 + rounds {
                for page in (client..pages).step_by(CLIENTS as usize).map(PageId) {
                    tier.evict(victim(page, number, true, true), &build(page, number)).unwrap();
                }
            }
        })
    };
    let clients: Vec<_> = (0..CLIENTS).map(client).collect();
    clients.into_iter().for_each(|client| client.join());
}

#[test]
fn dequeues_on_a_slow_disk_share_syncs_and_renewals() {
    let counts = [8, 32].map(|background_workers| {
        simulate(3, || {
            let options = TierOptions { background_workers, ..small(PolicyKind::FaceGsc, 4 * 512) };
            let pages = 4000;
            let flash = Arc::new(MemoryDevice::new("flash", flash_bytes(&options)));
            let disk = Arc::new(MemoryDevice::new("disk", disk_bytes(pages)));
            load(disk.clone(), pages);
            let disk = Arc::new(Profile::named("disk").unwrap().build(disk, Scale::FULL));
            let log = Arc::new(Log::at(100));
            let tier = FlashTier::create_at(flash, home(disk.clone(), &log), options).unwrap();
            let before = disk.counters();
            write(&tier, pages, 2);
            let done = disk.counters();
            let destaged = tier.metrics().disk_writes;
            tier.abandon();
            let labels = done.writes - before.writes - destaged;
            println!("{background_workers} workers: {destaged} destaged, {labels} writes of labels");
            // Groups of four pages.
            (destaged / 4, labels)
        })
    });
    // A renewal is two writes.
    for ((dequeues, labels), least) in counts.into_iter().zip([2, 12]) {
        assert!(dequeues > 200 && labels > 0, "{counts:?}");
        assert!(labels / 2 * least <= dequeues, "at least {least} dequeues share a renewal: {counts:?}");
    }
}

/// What is durable on a disk, and when its label was written.
#[derive(Default)]
struct Seen {
    /// Pages that were written since the last sync.
    unsynced: BTreeSet<PageId>,
    /// Pages whose last write is durable, each with the number of writes of the label before that.
    durable: BTreeMap<PageId, u64>,
    label_writes: u64,
    destaged: u64,
}

/// The disk, or the device of its label.
struct Watched {
    seen: Arc<Mutex<Seen>>,
    is_label: bool,
    device: Arc<dyn Device>,
}

impl Device for Watched {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }
    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        for io in batch.iter() {
            let Io::Write { offset, .. } = io else { continue };
            let mut seen = self.seen.lock().unwrap();
            if self.is_label {
                seen.label_writes += 1;
            } else {
                let page = PageId((offset - disk_offset(PageId(0), PAGE as u32)) / PAGE as u64);
                seen.durable.remove(&page);
                seen.unsynced.insert(page);
            }
        }
        self.device.run(batch)
    }
    fn sync(&self) -> Result<(), DeviceError> {
        let before = std::mem::take(&mut self.seen.lock().unwrap().unsynced);
        self.device.sync()?;
        let mut seen = self.seen.lock().unwrap();
        let label_writes = seen.label_writes;
        for page in before {
            if !seen.unsynced.contains(&page) {
                seen.durable.entry(page).or_insert(label_writes);
            }
        }
        Ok(())
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.device.discard(offset, length)
    }
    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.device.drop_cached()
    }
    fn counters(&self) -> Counters {
        self.device.counters()
    }
}

/// What is told when a page has left the flash.
struct Above(Arc<Mutex<Seen>>);

impl Upstream for Above {
    fn pull_victims(&self, _: usize) -> usize {
        0
    }
    fn destaged(&self, page: PageId, _: Lsn) {
        let mut seen = self.0.lock().unwrap();
        let before = *seen.durable.get(&page).expect("a page that has left is durable on disk");
        assert!(
            seen.label_writes >= before + 2,
            "both copies of the label are written after the page is durable"
        );
        seen.destaged += 1;
    }
}

/// 1. A snapshot of the disk is taken after the label was renewed, and before a page is durable.
/// 2. The page leaves the flash without a renewal of its own.
/// 3. The disk is put back to the snapshot: it lacks the page, and has the label of the present disk.
///
/// So a page leaves only after a renewal that began when it was durable.
#[test]
fn a_page_leaves_after_a_renewal_that_began_when_it_was_durable() {
    for seed in 0..8 {
        let destaged = simulate(seed, || {
            // Four dequeues may be under way, or sixteen.
            let (slots, pages) = if seed % 2 == 0 { (80, PAGES) } else { (4 * 256, 2000) };
            let options = TierOptions { background_workers: 16, ..small(PolicyKind::FaceGsc, slots) };
            let (flash, disk) = memory(&options, pages);
            load(disk.clone(), pages);
            let label = Arc::new(MemoryDevice::new("label", LABEL_AREA_BYTES));
            let seen = Arc::new(Mutex::new(Seen::default()));
            // A renewal is quick, and a sync of pages is not.
            let watched = |is_label, device: Arc<MemoryDevice>| {
                let profile = Profile::named(if is_label { "nvme" } else { "disk" }).unwrap();
                let device = Arc::new(profile.build(device, Scale::FULL));
                Arc::new(Watched { seen: seen.clone(), is_label, device })
            };
            let home = home_with_label(watched(false, disk), watched(true, label), &Arc::new(Log::at(100)));
            let tier = FlashTier::create_at(flash, home, options).unwrap();
            let above: Arc<dyn Upstream> = Arc::new(Above(seen.clone()));
            tier.attach(Arc::downgrade(&above));
            write(&tier, pages, 4);
            tier.abandon();
            seen.lock().unwrap().destaged
        });
        assert!(destaged > 200, "{destaged} destaged");
    }
}
