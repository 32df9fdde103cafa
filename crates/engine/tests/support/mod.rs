//! What the engine's tests share: pages with a version in them, small caches, and simulated runs.
#![allow(dead_code)]

pub mod logged;
pub mod shared;

use entresol_core::{Lsn, PageId, PolicyKind};
use entresol_device::{Device, DeviceError, Io, MemoryDevice};
use entresol_engine::{
    DiskLayer, FlashTier, FragmentOptions, Layer, Source, TierError, TierOptions, Victim, disk_offset,
    flash_bytes,
};
use entresol_format::page;
use entresol_runtime::sim::{SimConfig, Simulation};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

pub const PAGE: usize = 4096;
/// Pages of the small databases.
pub const PAGES: u64 = 120;

/// All bytes of a device.
pub fn bytes_of(device: &dyn Device) -> Vec<u8> {
    let mut bytes = vec![0; device.geometry().capacity_bytes as usize];
    device.read(0, &mut bytes).unwrap();
    bytes
}

/// A device with these bytes.
pub fn device_of(bytes: &[u8]) -> Arc<MemoryDevice> {
    let device = MemoryDevice::new("image", bytes.len() as u64);
    device.write(0, bytes).unwrap();
    Arc::new(device)
}

/// Page `id` at `version`, unsealed.
pub fn build(id: PageId, version: u64) -> Vec<u8> {
    let mut bytes = vec![0u8; PAGE];
    let head = page::header_mut(&mut bytes);
    head.page.set(id.0);
    head.lsn.set(version);
    for chunk in bytes[32..].chunks_exact_mut(8) {
        chunk.copy_from_slice(&version.to_le_bytes());
    }
    bytes
}

/// The version in a page; all of it must be of one version.
pub fn version(id: PageId, bytes: &[u8]) -> u64 {
    page::verify(bytes, id, None).unwrap_or_else(|fault| panic!("page {id}: {fault}"));
    let version = page::lsn(bytes).0;
    assert!(
        bytes[32..].chunks_exact(8).all(|chunk| chunk == version.to_le_bytes()),
        "page {id} is mixed of several versions"
    );
    version
}

pub fn victim(page: PageId, version: u64, dirty: bool, fdirty: bool) -> Victim {
    Victim { page, lsn: Lsn(version), dirty, fdirty }
}

/// A cache of a few small groups.
pub fn small(policy: PolicyKind, slots: u32) -> TierOptions {
    TierOptions {
        group_pages: 4,
        staging_groups: 2,
        segment_entries: 64,
        slots,
        history: policy.history(slots),
        write_workers: 2,
        background_workers: 3,
        ..TierOptions::new(policy, slots)
    }
}

/// A small cache of fragments that is populated as fast as can be.
pub fn fragments(slots: u32, fragment_pages: u32) -> FragmentOptions {
    let usual = FragmentOptions::new(slots * fragment_pages);
    FragmentOptions { slots, fragment_pages, workers: 3, pace_permille: 1000, ..usual }
}

pub fn disk_bytes(pages: u64) -> u64 {
    disk_offset(PageId(pages), PAGE as u32)
}

/// Writes pages `0 .. pages` at version 1 to a new disk.
pub fn load(disk: Arc<dyn Device>, pages: u64) {
    let layer = DiskLayer::create(disk, PAGE as u32).unwrap();
    for number in 0..pages {
        let id = PageId(number);
        layer.evict(victim(id, 1, true, true), &build(id, 1)).unwrap();
    }
    layer.close().unwrap();
}

pub fn memory(options: &TierOptions, pages: u64) -> (Arc<MemoryDevice>, Arc<MemoryDevice>) {
    let flash = Arc::new(MemoryDevice::new("flash", flash_bytes(options)));
    let disk = Arc::new(MemoryDevice::new("disk", disk_bytes(pages)));
    (flash, disk)
}

pub fn simulate<T: Send>(seed: u64, main: impl FnOnce() -> T + Send) -> T {
    Simulation::new(SimConfig { seed, random_order: true, ..SimConfig::default() }).run(main).unwrap()
}

/// Evicts every page at version `number`.
pub fn write_all(layer: &dyn Layer, number: u64) {
    for page in 0..PAGES {
        let page = PageId(page);
        layer.evict(victim(page, number, true, true), &build(page, number)).unwrap();
    }
}

/// Fetches every page, which must be at version `number`; where each came from.
pub fn expect_all(layer: &dyn Layer, number: u64) -> Vec<Source> {
    let mut buffer = vec![0; PAGE];
    (0..PAGES)
        .map(|page| {
            let page = PageId(page);
            let fetched = layer.fetch(page, &mut buffer).unwrap();
            assert_eq!(version(page, &buffer), number, "page {page} from {fetched:?}");
            fetched.source
        })
        .collect()
}

/// The sentence of a refusal.
pub fn refusal(result: Result<impl Sized, TierError>) -> String {
    match result {
        Err(TierError::Refused(sentence)) => sentence,
        Err(other) => panic!("refused in another way: {other}"),
        Ok(_) => panic!("not refused"),
    }
}

/// A closed cache with all pages at version 2, and its disk.
pub fn used(options: &TierOptions) -> (Arc<MemoryDevice>, Arc<MemoryDevice>) {
    let (flash, disk) = memory(options, PAGES);
    load(disk.clone(), PAGES);
    let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
    write_all(&*tier, 2);
    tier.close().unwrap();
    (flash, disk)
}

/// A cache on these devices, which must open.
pub fn open(flash: &Arc<MemoryDevice>, disk: &Arc<MemoryDevice>, options: &TierOptions) -> Arc<FlashTier> {
    FlashTier::open(flash.clone(), disk.clone(), options.clone()).unwrap().0
}

/// Makes the requests of a device take a random time before and after they happen, so that tasks interleave.
pub struct Delayed<D>(pub D);

impl<D: Device> Delayed<D> {
    fn wait(&self) {
        entresol_runtime::sleep(std::time::Duration::from_nanos(entresol_runtime::random() % 40_000));
    }
}

impl<D: Device> Device for Delayed<D> {
    fn geometry(&self) -> entresol_device::Geometry {
        self.0.geometry()
    }
    fn run(&self, batch: &mut [entresol_device::Io<'_>]) -> Result<(), entresol_device::DeviceError> {
        self.wait();
        let result = self.0.run(batch);
        self.wait();
        result
    }
    fn sync(&self) -> Result<(), entresol_device::DeviceError> {
        self.wait();
        let result = self.0.sync();
        self.wait();
        result
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), entresol_device::DeviceError> {
        self.0.discard(offset, length)
    }
    fn drop_cached(&self) -> Result<(), entresol_device::DeviceError> {
        self.0.drop_cached()
    }
    fn counters(&self) -> entresol_device::Counters {
        self.0.counters()
    }
}

/// Says at will that a request failed.
pub struct Moody<D> {
    pub device: D,
    /// The next write is carried out, and said to have failed: its answer came too late.
    pub fails_late: AtomicBool,
    /// Nothing can be read.
    pub hides: AtomicBool,
}

impl<D> Moody<D> {
    pub fn new(device: D) -> Self {
        Self { device, fails_late: AtomicBool::new(false), hides: AtomicBool::new(false) }
    }
}

impl<D: Device> Device for Moody<D> {
    fn geometry(&self) -> entresol_device::Geometry {
        self.device.geometry()
    }
    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        let error = |operation, offset, length| DeviceError::Io {
            device: "moody".to_owned(),
            operation,
            offset,
            length,
            reason: "as it pleases".to_owned(),
        };
        let read = batch.iter().find_map(|io| match io {
            Io::Read { offset, buffer } => Some((*offset, buffer.len() as u64)),
            Io::Write { .. } => None,
        });
        if let Some((offset, length)) = read.filter(|_| self.hides.load(SeqCst)) {
            return Err(error("read", offset, length));
        }
        self.device.run(batch)?;
        match batch.first() {
            Some(Io::Write { offset, data }) if self.fails_late.swap(false, SeqCst) => {
                Err(error("write", *offset, data.len() as u64))
            }
            _ => Ok(()),
        }
    }
    fn sync(&self) -> Result<(), DeviceError> {
        self.device.sync()
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.device.discard(offset, length)
    }
    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.device.drop_cached()
    }
    fn counters(&self) -> entresol_device::Counters {
        self.device.counters()
    }
}
