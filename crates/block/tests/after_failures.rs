//! What is acknowledged stays, though something else has failed meanwhile.

mod support;

use entresol_block::{CacheOptions, Loss, SECTOR_BYTES, Volume};
use entresol_core::{Mode, PolicyKind};
use entresol_device::{
    Counters, Device, DeviceError, Fault, FaultPlan, FaultyDevice, Geometry, Injection, Io, MemoryDevice,
};
use entresol_engine::{FragmentOptions, TierOptions, Uuid, flash_bytes};
use entresol_format::PageFormat;
use entresol_format::fingerprint::LABEL_FILE_BYTES;
use entresol_runtime::sim::{SimConfig, Simulation};
use entresol_runtime::{sleep, spawn};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

const PAGE: usize = 4096;
const PAGES: u64 = 150;

fn options(policy: PolicyKind) -> TierOptions {
    TierOptions {
        page_format: PageFormat::Raw,
        group_pages: 4,
        staging_groups: 4,
        segment_entries: 16,
        slots: 80,
        ..TierOptions::new(policy, 80)
    }
}

fn simulate(seed: u64, main: impl FnOnce() + Send) {
    Simulation::new(SimConfig { seed, random_order: true, ..SimConfig::default() }).run(main).unwrap();
}

fn filled(version: u64) -> Vec<u8> {
    version.to_le_bytes().repeat(PAGE / 8)
}

fn version(volume: &Volume, page: u64) -> u64 {
    let mut found = filled(0);
    // Past the cache: it stays out.
    volume.read_of_stream(page * PAGE as u64, &mut found, true).unwrap();
    u64::from_le_bytes(found[..8].try_into().unwrap())
}

/// A device of which one write fails, and which tells how many there were.
struct Counting {
    device: Arc<MemoryDevice>,
    writes: AtomicU64,
    fails_at: AtomicU64,
    slow: Duration,
}

impl Counting {
    fn new(device: &Arc<MemoryDevice>, slow: Duration) -> Arc<Self> {
        let fails_at = AtomicU64::new(u64::MAX);
        Arc::new(Self { device: device.clone(), writes: AtomicU64::new(0), fails_at, slow })
    }
}

impl Device for Counting {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }
    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        for io in &*batch {
            if let Io::Write { offset, data } = io
                && self.writes.fetch_add(1, SeqCst) == self.fails_at.load(SeqCst)
            {
                return Err(DeviceError::Io {
                    device: "label or journal".to_owned(),
                    operation: "write",
                    offset: *offset,
                    length: data.len() as u64,
                    reason: "a fault".to_owned(),
                });
            }
        }
        self.device.run(batch)
    }
    fn sync(&self) -> Result<(), DeviceError> {
        sleep(self.slow);
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

/// A write of the label fails while the cache goes on under another policy. What is acknowledged afterwards
/// outlives a kill.
#[test]
fn writes_are_kept_after_a_change_of_the_cache_has_failed() {
    let (mut total, mut served, mut lost) = (1, 0, Vec::new());
    let mut fails_at = 0;
    while fails_at < total {
        simulate(1, || {
            let (old, new) = (options(PolicyKind::FaceGsc), options(PolicyKind::FaceGr));
            let device = |name, bytes| Arc::new(MemoryDevice::new(name, bytes));
            let disk = device("disk", PAGES * PAGE as u64);
            let label = device("label", LABEL_FILE_BYTES);
            let flash = device("flash", flash_bytes(&old).max(flash_bytes(&new)));
            let journal = device("journal", 4 << 20);
            let counting = Counting::new(&label, Duration::ZERO);
            let mut volume =
                Volume::create(disk.clone(), counting.clone(), flash.clone(), old.clone()).unwrap();
            volume.keep_journal(journal.clone(), Uuid::NIL).unwrap();
            volume.write(0, &filled(1), false).unwrap();
            let before = counting.writes.load(SeqCst);
            counting.fails_at.store(before + fails_at, SeqCst);
            let changed = volume.set_cache(CacheOptions::from(new.clone()), Loss::Refused);
            total = total.max(counting.writes.load(SeqCst) - before);
            let acknowledged = volume.write(0, &filled(2), false).is_ok();
            let (now, _) = volume.cache_options().unwrap();
            // A kill.
            drop(volume);
            sleep(Duration::from_millis(100));
            if changed.is_ok() || !acknowledged {
                return;
            }
            served += 1;
            let opened = Volume::open_with_journal(disk, label, flash, now, (journal, Uuid::NIL));
            let (volume, notices) = opened.unwrap();
            let found = version(&volume, 0);
            if found != 2 {
                lost.push((fails_at, found, changed.map_err(|error| error.to_string()), notices));
            }
            volume.close().unwrap();
        });
        fails_at += 1;
    }
    assert!(lost.is_empty(), "of {total} writes of the label, {served} served: {lost:#?}");
}

/// The sync that the bytes behind the last page need fails, and loses a page that another task has written
/// past the cache. All that was written is written again: the flush succeeds, and the page is the newest.
#[test]
fn a_page_whose_write_a_sync_has_lost_is_written_again() {
    simulate(1, || {
        let options = options(PolicyKind::FaceGsc);
        let bytes = PAGES * PAGE as u64 + 3 * SECTOR_BYTES;
        let plan = Arc::new(FaultPlan::none());
        let disk = MemoryDevice::new("disk", (PAGES + 1) * PAGE as u64);
        let disk = Arc::new(FaultyDevice::new("disk", disk, plan.clone()).with_capacity(bytes));
        let label = Arc::new(MemoryDevice::new("label", LABEL_FILE_BYTES));
        let flash = Arc::new(MemoryDevice::new("flash", flash_bytes(&options)));
        let flash = Counting::new(&flash, Duration::from_millis(10));
        let volume = Arc::new(Volume::create(disk, label, flash, options).unwrap());
        let at = |page: u64| page * PAGE as u64;
        volume.write_of_stream(at(7), &filled(1), false, true).unwrap();
        volume.flush().unwrap();
        assert_eq!(version(&volume, 7), 1);
        // The last sectors are the disk's alone.
        volume.write(at(PAGES), &[1; SECTOR_BYTES as usize], false).unwrap();
        volume.write(at(3), &filled(1), false).unwrap();
        let flusher = {
            let volume = volume.clone();
            spawn("flushes", move || volume.flush().unwrap())
        };
        sleep(Duration::from_millis(5));
        // Acknowledged, and not durable.
        volume.write_of_stream(at(7), &filled(2), false, true).unwrap();
        assert_eq!(version(&volume, 7), 2);
        let fault = Fault::SyncErrorLosingWrites;
        let next = plan.operations() + 1;
        plan.inject(Injection { at: next, device: Some("disk".to_owned()), fault, forever: false });
        flusher.join();
        let mut found = filled(0);
        volume.read(at(7), &mut found).unwrap();
        assert_eq!((found[0], plan.struck()), (2, 1));
    });
}

/// A flush cannot say in the journal which records are needed no more.
#[test]
fn a_flush_that_could_not_release_records_takes_none_with_it() {
    simulate(1, || {
        let options = options(PolicyKind::FaceGsc);
        let device = |name, bytes| Arc::new(MemoryDevice::new(name, bytes));
        let disk = device("disk", PAGES * PAGE as u64);
        let label = device("label", LABEL_FILE_BYTES);
        let flash = device("flash", flash_bytes(&options));
        let journal = device("journal", 4 << 20);
        let counting = Counting::new(&journal, Duration::ZERO);
        let mut volume = Volume::create(disk.clone(), label.clone(), flash.clone(), options.clone()).unwrap();
        volume.keep_journal(counting.clone(), Uuid::NIL).unwrap();
        let some = filled(1).repeat(32);
        // Three quarters of the ring.
        (0..24).for_each(|nth| volume.write(nth % 4 * some.len() as u64, &some, false).unwrap());
        counting.fails_at.store(counting.writes.load(SeqCst), SeqCst);
        let flushed = volume.flush();
        assert!(flushed.is_err(), "its head cannot be written");
        // Beyond its end.
        (0..10).for_each(|nth| volume.write(nth % 4 * some.len() as u64, &some, false).unwrap());
        volume.write(0, &filled(2), false).unwrap();
        // A kill.
        drop(volume);
        sleep(Duration::from_millis(100));
        let opened = Volume::open_with_journal(disk, label, flash, options, (journal, Uuid::NIL));
        let (volume, notices) = opened.unwrap();
        assert_eq!(version(&volume, 0), 2, "{notices:?}");
        volume.close().unwrap();
    });
}

/// The cache is drained, and the journal cannot be ended. What is acknowledged afterwards is not overwritten
/// by the next program with what came before.
fn writes_after(give_up: impl Fn(&Volume) -> Result<(), entresol_engine::TierError> + Send + Sync) {
    simulate(1, || {
        let options = options(PolicyKind::FaceGsc);
        let device = |name, bytes| Arc::new(MemoryDevice::new(name, bytes));
        let disk = device("disk", PAGES * PAGE as u64);
        let label = device("label", LABEL_FILE_BYTES);
        let flash = device("flash", flash_bytes(&options));
        let journal = device("journal", 4 << 20);
        let counting = Counting::new(&journal, Duration::ZERO);
        let mut volume = Volume::create(disk.clone(), label.clone(), flash.clone(), options.clone()).unwrap();
        volume.keep_journal(counting.clone(), Uuid::NIL).unwrap();
        volume.write(0, &filled(1), false).unwrap();
        counting.fails_at.store(counting.writes.load(SeqCst), SeqCst);
        assert!(give_up(&volume).is_err(), "the journal's head cannot be written");
        let is_acknowledged = volume.write(0, &filled(2), false).is_ok() && volume.flush().is_ok();
        // A kill.
        drop(volume);
        sleep(Duration::from_millis(100));
        let opened = Volume::open_with_journal(disk, label, flash, options, (journal, Uuid::NIL));
        let (volume, notices) = opened.unwrap();
        let expected = if is_acknowledged { 2 } else { 1 };
        assert_eq!(version(&volume, 0), expected, "{notices:?}");
        volume.close().unwrap();
    });
}

#[test]
fn a_change_that_could_not_end_the_journal_leaves_no_old_records() {
    let other = TierOptions { mode: Mode::WriteThrough, ..options(PolicyKind::Lru) };
    writes_after(|volume| volume.set_cache(other.clone().into(), Loss::Refused));
}

#[test]
fn a_detach_that_could_not_end_the_journal_leaves_no_old_records() {
    writes_after(|volume| volume.detach(Loss::Refused));
}

/// Before a sector of the disk's fingerprint gets a third content, the disk is synced: that fails, and loses
/// pages that were written to disk before. They are written again, and no request fails.
#[test]
fn a_sync_for_the_fingerprint_that_fails_loses_nothing() {
    const DISK_PAGES: u64 = 4000;
    let write_through = |policy| TierOptions { mode: Mode::WriteThrough, ..options(policy) };
    let sce = FragmentOptions::of_pages(256, PAGE as u32, PageFormat::Raw);
    let caches: [Option<CacheOptions>; 3] =
        [Some(sce.into()), Some(write_through(PolicyKind::FaceGsc).into()), None];
    for cache in caches {
        simulate(3, || {
            let plan = Arc::new(FaultPlan::none());
            let device =
                |name, bytes| Arc::new(FaultyDevice::new(name, MemoryDevice::new(name, bytes), plan.clone()));
            let disk = device("disk", DISK_PAGES * PAGE as u64);
            let label = Arc::new(MemoryDevice::new("label", LABEL_FILE_BYTES));
            let flash = Arc::new(MemoryDevice::new("flash", 8 << 20));
            let options = cache.clone().unwrap_or(sce.into());
            let created = Volume::create(disk.clone(), label.clone(), flash, options.clone()).unwrap();
            let volume = match cache {
                Some(_) => created,
                None => {
                    created.detach(Loss::Refused).unwrap();
                    created
                }
            };
            let pages = || (1000..1030u64).map(|page| page * 7 % 3000 + 500);
            for number in 1..=2 {
                // Past the cache.
                pages().for_each(|page| {
                    volume.write_of_stream(page * PAGE as u64, &filled(number), false, true).unwrap();
                });
                if number == 1 {
                    volume.flush().unwrap();
                }
            }
            let (at, device) = (plan.operations() + 1, Some("disk".to_owned()));
            plan.inject(Injection { at, device, fault: Fault::SyncErrorLosingWrites, forever: false });
            // Sectors of the fingerprint.
            (3..9).for_each(|number| volume.write(0, &filled(number), false).unwrap());
            assert_eq!(plan.struck(), 1, "{options:?}");
            for page in pages() {
                let mut found = filled(0);
                volume.read_of_stream(page * PAGE as u64, &mut found, true).unwrap();
                assert_eq!(found, filled(2), "page {page}, {options:?}");
                volume.read(page * PAGE as u64, &mut found).unwrap();
                assert_eq!(found, filled(2), "page {page}, {options:?}");
            }
        });
    }
}

/// The flash fails, and the disk has everything. A drain has nothing to do then, and leaves the cache as it
/// is: `status` says further on why the disk serves alone.
#[test]
fn a_drain_after_the_flash_has_failed_changes_nothing() {
    for mode in [Mode::WriteThrough, Mode::WriteBack] {
        simulate(5, || {
            let options = TierOptions { mode, ..options(PolicyKind::FaceGsc) };
            let plan = Arc::new(FaultPlan::none());
            let flash = MemoryDevice::new("flash", flash_bytes(&options));
            let flash = Arc::new(FaultyDevice::new("flash", flash, plan.clone()));
            let [disk, label] = [("disk", PAGES * PAGE as u64), ("label", LABEL_FILE_BYTES)]
                .map(|(name, bytes)| Arc::new(MemoryDevice::new(name, bytes)));
            let volume = Volume::create(disk, label, flash, options).unwrap();
            volume.write(0, &filled(1), true).unwrap();
            let at = plan.operations() + 1;
            plan.inject(Injection { at, device: None, fault: Fault::WriteError, forever: true });
            (1..PAGES).for_each(|page| volume.write(page * PAGE as u64, &filled(1), false).unwrap());
            volume.flush().unwrap();
            // What only the flash has is copied.
            sleep(Duration::from_secs(5));
            let before = volume.status();
            assert_eq!(before.missing_pages, 0);
            assert!(before.notice.is_some());
            for loss in [Loss::Refused, Loss::Accepted] {
                volume.drain(loss).unwrap();
                assert_eq!(volume.status().notice, before.notice);
            }
            assert!((0..PAGES).all(|page| version(&volume, page) == 1));
            volume.close().unwrap();
        });
    }
}
