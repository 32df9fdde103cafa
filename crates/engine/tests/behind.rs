//! A checkpoint of a layer that writes behind makes durable what was evicted before it, also if the page is
//! evicted again meanwhile.

mod support;

use entresol_core::PageId;
use entresol_device::{
    Counters, Device, DeviceError, FaultPlan, FaultyDevice, Geometry, Io, MemoryDevice, Survival,
};
use entresol_engine::{DiskLayer, Layer, disk_offset};
use entresol_runtime::{sleep, spawn};
use std::sync::Arc;
use std::time::Duration;
use support::{PAGE, build, disk_bytes, load, simulate, version, victim};

/// A write takes a millisecond before it happens.
struct Slow(Arc<FaultyDevice>);

impl Device for Slow {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }
    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        if let [Io::Write { .. }, ..] = batch {
            sleep(Duration::from_millis(1));
        }
        self.0.run(batch)
    }
    fn sync(&self) -> Result<(), DeviceError> {
        self.0.sync()
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.0.discard(offset, length)
    }
    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.0.drop_cached()
    }
    fn counters(&self) -> Counters {
        self.0.counters()
    }
}

#[test]
fn a_checkpoint_has_the_pages_that_were_evicted_before_it() {
    const PAGES: u64 = 200;
    simulate(1, || {
        let plan = Arc::new(FaultPlan::none());
        let disk = MemoryDevice::new("disk", disk_bytes(PAGES));
        let disk = Arc::new(FaultyDevice::new("disk", disk, plan));
        load(disk.clone(), PAGES);
        let layer = DiskLayer::open(Arc::new(Slow(disk.clone())), PAGE as u32).unwrap();
        let put = |page: u64, number: u64| {
            let page = PageId(page);
            layer.evict(victim(page, number, true, true), &build(page, number)).unwrap();
        };
        let hot = 30;
        // Each writer is busy with one page.
        for page in 0..4 {
            put(page, 2);
            sleep(Duration::from_micros(100));
        }
        (4..44).for_each(|page| put(page, 2));
        let checkpoint = {
            let (layer, disk) = (layer.clone(), disk.clone());
            spawn("checkpoint", move || {
                layer.checkpoint().unwrap();
                let left = disk.after_crash(&Survival::None);
                let mut found = vec![0; PAGE];
                left.read(disk_offset(PageId(hot), PAGE as u32), &mut found).unwrap();
                let found = version(PageId(hot), &found);
                assert!(found >= 2, "version {found} is durable, 2 was evicted before the checkpoint");
            })
        };
        sleep(Duration::from_micros(100));
        (44..124).for_each(|page| put(page, 2));
        put(hot, 3);
        checkpoint.join();
        layer.close().unwrap();
    });
}
