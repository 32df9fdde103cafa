//! A disk, or its owner's log, that was put back to an earlier state under the present flash.

mod support;

use entresol_core::{Mode, PageId, PolicyKind};
use entresol_device::{Counters, Device, DeviceError, Geometry, Io, MemoryDevice};
use entresol_engine::{
    Deletes, FlashTier, Layer, OpenReport, PageCache, TierError, TierOptions, flash_bytes,
};
use entresol_format::PageFormat;
use entresol_format::label::LABEL_AREA_BYTES;
use entresol_objects::Locator;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use support::logged::{Log, home};
use support::{PAGE, PAGES, build, load, memory, small, victim};

type Opened = Result<(Arc<FlashTier>, OpenReport), TierError>;

/// Opens copies of both devices with this log.
fn open(flash: &MemoryDevice, disk: &MemoryDevice, options: &TierOptions, log: Log) -> Opened {
    let (flash, disk) = (Arc::new(flash.fork("flash")), Arc::new(disk.fork("disk")));
    FlashTier::open_at(flash, home(disk, &Arc::new(log)), options.clone())
}

fn refusal(opened: Opened) -> String {
    match opened {
        Err(TierError::Refused(why)) => why,
        Err(error) => panic!("{error}"),
        Ok((_, report)) => panic!("it was opened: {report:?}"),
    }
}

#[test]
fn a_disk_from_before_a_destage_is_not_taken_for_the_present_one() {
    support::simulate(1, || {
        let options = small(PolicyKind::Face, 64);
        let (flash, disk) = memory(&options, PAGES);
        load(disk.clone(), PAGES);
        let log = Arc::new(Log::at(100));
        let tier = FlashTier::create_at(flash.clone(), home(disk.clone(), &log), options.clone()).unwrap();
        let write = |pages: std::ops::Range<u64>, number| {
            for page in pages.map(PageId) {
                tier.evict(victim(page, number, true, true), &build(page, number)).unwrap();
            }
        };
        write(0..30, 2);
        tier.checkpoint().unwrap();
        let (before, flash_before) = (disk.fork("before"), flash.fork("before"));
        // The log does not go on: only the label can tell. The first pages are destaged.
        write(40..80, 3);
        tier.flush().unwrap();
        tier.abandon();
        assert!(open(&flash, &disk, &options, Log::at(100)).is_ok(), "the present ones belong together");
        assert!(open(&flash_before, &before, &options, Log::at(100)).is_ok(), "so do those of before");
        let why = refusal(open(&flash, &before, &options, Log::at(100)));
        assert!(why.contains("the disk is an older state of itself"), "{why}");
        let why = refusal(open(&flash_before, &disk, &options, Log::at(100)));
        assert!(why.contains("the flash device is an older state of itself"), "{why}");
    });
}

/// A renewal that was cut off between label and superblock takes nothing with it, whichever copy of the
/// superblock is unreadable.
#[test]
fn a_renewal_may_be_cut_off_and_a_copy_of_the_superblock_be_lost() {
    support::simulate(1, || {
        let options = small(PolicyKind::Face, 64);
        let (flash, disk) = memory(&options, PAGES);
        load(disk.clone(), PAGES);
        let log = Arc::new(Log::at(100));
        let recorder = Recorder::new(flash, disk.clone());
        let tier = FlashTier::create_at(recorder.clone(), home(disk.clone(), &log), options.clone()).unwrap();
        let mut stands = Vec::new();
        for number in 2..5 {
            for page in (0..PAGES).map(PageId) {
                tier.evict(victim(page, number, true, true), &build(page, number)).unwrap();
            }
            stands.append(&mut recorder.stands.lock().unwrap());
        }
        tier.abandon();
        assert!(stands.len() > 100);
        for (flash, disk) in &stands[20..] {
            for copy in [0, 16, 32, 48].map(|kib| kib << 10) {
                let damaged = flash.fork("damaged");
                damaged.write(copy, &[0xee; 4096]).unwrap();
                open(&damaged, disk, &options, Log::at(100)).unwrap();
            }
        }
    });
}

#[test]
fn a_log_that_is_older_than_the_flash_is_noticed() {
    for mode in [Mode::WriteBack, Mode::WriteThrough] {
        support::simulate(1, || {
            let options = TierOptions { mode, ..small(PolicyKind::Face, 64) };
            let (flash, disk) = memory(&options, PAGES);
            load(disk.clone(), PAGES);
            let log = Arc::new(Log::at(100));
            let tier =
                FlashTier::create_at(flash.clone(), home(disk.clone(), &log), options.clone()).unwrap();
            for (end, page) in [(150, 1), (200, 2)] {
                log.end.store(end, SeqCst);
                let page = PageId(page);
                tier.evict(victim(page, 2, true, true), &build(page, 2)).unwrap();
                tier.flush().unwrap();
            }
            // After it nothing enters.
            log.end.store(250, SeqCst);
            tier.abandon();
            for (end, branch, is_it) in [(250, 0, true), (200, 0, true), (199, 0, false), (250, 1, false)] {
                let opened = open(&flash, &disk, &options, Log { end: AtomicU64::new(end), branch });
                match (is_it, mode) {
                    (true, _) => assert!(opened.unwrap().1.warm, "{mode:?}, {end}"),
                    (false, Mode::WriteBack) => assert!(refusal(opened).contains("does not have 200")),
                    _ => {
                        let (_, report) = opened.unwrap();
                        assert!(
                            !report.warm && report.notices[0].contains("does not have 200"),
                            "{report:?}"
                        );
                    }
                }
            }
        });
    }
}

/// A flash that keeps how it and the disk were after each write.
struct Recorder {
    flash: Arc<MemoryDevice>,
    disk: Arc<MemoryDevice>,
    stands: Mutex<Vec<(MemoryDevice, MemoryDevice)>>,
}

impl Recorder {
    fn new(flash: Arc<MemoryDevice>, disk: Arc<MemoryDevice>) -> Arc<Self> {
        Arc::new(Self { flash, disk, stands: Mutex::default() })
    }
}

impl Device for Recorder {
    fn geometry(&self) -> Geometry {
        self.flash.geometry()
    }
    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        let writes = batch.iter().any(|io| matches!(io, Io::Write { .. }));
        if writes {
            // Before it, too: what the disk has by now is ahead of the flash.
            self.stands.lock().unwrap().push((self.flash.fork("stand"), self.disk.fork("stand")));
        }
        self.flash.run(batch)?;
        if writes {
            self.stands.lock().unwrap().push((self.flash.fork("stand"), self.disk.fork("stand")));
        }
        Ok(())
    }
    fn sync(&self) -> Result<(), DeviceError> {
        self.flash.sync()
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.flash.discard(offset, length)
    }
    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.flash.drop_cached()
    }
    fn counters(&self) -> Counters {
        self.flash.counters()
    }
}

/// An object is removed, at place 200 of the log, durably on flash, where nothing else depends on that place.
/// Then disk and log are put back to place 150, and the object is needed again.
#[test]
fn a_removal_depends_on_the_log_as_a_page_does() {
    support::simulate(1, || {
        let options =
            TierOptions { page_format: PageFormat::Raw, objects: 6, ..small(PolicyKind::FaceGsc, 64) };
        let flash = Arc::new(MemoryDevice::new("flash", flash_bytes(&options)));
        let disk = Arc::new(MemoryDevice::new("disk", LABEL_AREA_BYTES + 128 * PAGE as u64));
        let log = Arc::new(Log::at(100));
        let recorder = Recorder::new(flash, disk.clone());
        let tier = FlashTier::create_at(recorder.clone(), home(disk.clone(), &log), options.clone()).unwrap();
        let name = |first: u8| {
            let mut name = Locator::default();
            name[0] = first;
            name
        };
        let [removed, other] = [1, 2].map(|first| tier.define(&name(first)).unwrap().unwrap());
        tier.evict(victim(removed.page(0), 0, true, true), &[7; PAGE]).unwrap();
        tier.checkpoint().unwrap();
        recorder.stands.lock().unwrap().clear();
        log.end.store(200, SeqCst);
        tier.retire(removed).unwrap();
        tier.evict(victim(other.page(0), 0, true, true), &[8; PAGE]).unwrap();
        tier.flush().unwrap();
        let stands = std::mem::take(&mut *recorder.stands.lock().unwrap());
        tier.abandon();
        let (mut kept, mut refused) = (0, 0);
        for (flash, disk) in &stands {
            match open(flash, disk, &options, Log::at(150)) {
                Ok((tier, _)) => {
                    assert_eq!(tier.object(&name(1)).unwrap(), Some(removed), "it is needed again");
                    kept += 1;
                }
                Err(TierError::Refused(_)) => refused += 1,
                Err(error) => panic!("{error}"),
            }
            assert!(open(flash, disk, &options, Log::at(200)).is_ok());
        }
        assert!(kept > 0 && refused > 0, "{kept} kept, {refused} refused");
    });
}
