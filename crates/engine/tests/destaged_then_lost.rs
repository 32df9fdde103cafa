//! A flash that dies takes no page with it that the disk has already.

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_device::{Counters, Device, DeviceError, Geometry, Io, MemoryDevice};
use entresol_engine::{FlashTier, PageCache, ReadRoute, TierOptions, disk_offset};
use entresol_format::PageFormat;
use entresol_runtime::sleep;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use support::{PAGE, memory, simulate, small};

const PAGES: u64 = 400;

/// Writes take some time, and at some time it dies.
struct Dying {
    device: Arc<MemoryDevice>,
    slow_us: AtomicU64,
    is_dead: AtomicBool,
}

impl Dying {
    fn check(&self) -> Result<(), DeviceError> {
        match self.is_dead.load(SeqCst) {
            true => Err(DeviceError::Dead { device: "flash".to_owned(), reason: "it died".to_owned() }),
            false => Ok(()),
        }
    }
}

impl Device for Dying {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }
    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        if let [Io::Write { .. }, ..] = batch {
            sleep(Duration::from_micros(self.slow_us.load(SeqCst)));
        }
        self.check()?;
        self.device.run(batch)
    }
    fn sync(&self) -> Result<(), DeviceError> {
        self.check()?;
        self.device.sync()
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

#[test]
fn pages_that_were_destaged_are_not_lost() {
    let mut most = 0;
    for seed in 0..20 {
        most = most.max(simulate(seed, || {
            let options = TierOptions {
                page_format: PageFormat::Raw,
                staging_groups: 4,
                segment_entries: 16,
                ..small(PolicyKind::FaceGsc, 80)
            };
            let (device, disk) = memory(&options, PAGES);
            let (slow_us, is_dead) = (AtomicU64::new(0), AtomicBool::new(false));
            let flash = Arc::new(Dying { device, slow_us, is_dead });
            let tier = FlashTier::create(flash.clone(), disk.clone(), options).unwrap();
            let mut found = vec![0; PAGE];
            let mut put = |page: u64| {
                tier.write_pages(PageId(page), &[page as u8 + 1; PAGE]).unwrap();
            };
            (0..60).for_each(&mut put);
            tier.flush().unwrap();
            // Every other page was used.
            for page in (0..60).step_by(2) {
                tier.read_pages(PageId(page), &mut found, ReadRoute::StaysOut).unwrap();
            }
            flash.slow_us.store(10_000, SeqCst);
            (60..76 + seed % 8).for_each(&mut put);
            sleep(Duration::from_millis(1 + seed % 9));
            flash.is_dead.store(true, SeqCst);
            let _ = tier.flush();
            let missing = tier.cached_among(PageId(0), PageId(PAGES)).unwrap();
            let is_on_disk = |page: &PageId| {
                let mut there = vec![0; PAGE];
                disk.read(disk_offset(*page, PAGE as u32), &mut there).unwrap();
                there == [page.0 as u8 + 1; PAGE]
            };
            if tier.missing().is_none() {
                return 0;
            }
            missing.iter().filter(|(page, _)| is_on_disk(page)).count()
        }));
    }
    assert_eq!(most, 0, "pages are missing that the disk has");
}
