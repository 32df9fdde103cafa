//! Two copies that differ, since power has failed between their writes, or since one could not be read for
//! the length of a life. An open makes them equal: else an older state comes back when the newer copy cannot
//! be read, or the older one can.

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_device::{Device, Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice, Survival};
use entresol_engine::{
    FlashTier, Layer, Mode, PageCache, ReadRoute, TierError, TierOptions, WholeDisk, flash_bytes,
};
use entresol_format::label::COPY_STRIDE;
use entresol_format::missing::RECORD_BYTES;
use entresol_format::{BLOCK_BYTES, PageFormat, page};
use entresol_runtime::sim::{Outcome, SimConfig, Simulation};
use std::sync::{Arc, OnceLock};
use support::{PAGE, PAGES, disk_bytes, simulate};

/// Pages of the disk of raw pages; as many as fit on flash are dirty at first.
const RAW_PAGES: u64 = 120;
const DIRTY: u64 = 60;

fn raw_options() -> TierOptions {
    let small = support::small(PolicyKind::FaceGsc, 80);
    TierOptions { page_format: PageFormat::Raw, staging_groups: 4, segment_entries: 16, ..small }
}

fn write(tier: &FlashTier, page: u64, version: u8) -> Result<(), TierError> {
    tier.write_pages(PageId(page), &[version; PAGE])
}

fn version(tier: &FlashTier, page: u64) -> Result<u8, TierError> {
    let mut found = [0; PAGE];
    tier.read_pages(PageId(page), &mut found, ReadRoute::Populates).map(|_| found[0])
}

struct Devices {
    plan: Arc<FaultPlan>,
    flash: Arc<FaultyDevice>,
    disk: Arc<FaultyDevice>,
}

impl Devices {
    fn new() -> Self {
        let plan = Arc::new(FaultPlan::none());
        let device = |name: &str, bytes| {
            Arc::new(FaultyDevice::new(name, MemoryDevice::new(name, bytes), plan.clone()))
        };
        let (flash, disk) =
            (device("flash", flash_bytes(&raw_options())), device("disk", disk_bytes(RAW_PAGES)));
        Self { plan, flash, disk }
    }

    /// A cache of raw pages, many of which the disk has in no version.
    fn used(&self) -> Arc<FlashTier> {
        let tier = FlashTier::create(self.flash.clone(), self.disk.clone(), raw_options()).unwrap();
        for number in 1..=2 {
            (0..DIRTY).for_each(|page| write(&tier, page, number).unwrap());
            tier.flush().unwrap();
        }
        tier
    }

    fn inject(&self, after: u64, device: &str, fault: Fault, forever: bool) {
        let (at, device) = (self.plan.operations() + after, Some(device.to_owned()));
        self.plan.inject(Injection { at, device, fault, forever });
    }
}

/// What is left on flash and disk.
struct Left {
    flash: MemoryDevice,
    disk: MemoryDevice,
}

impl Left {
    fn of(devices: &Devices, flash: &Survival, disk: &Survival) -> Self {
        Self { flash: devices.flash.after_crash(flash), disk: devices.disk.after_crash(disk) }
    }

    /// A life on the devices themselves.
    fn lives<T: Send + 'static>(
        &mut self,
        life: impl FnOnce(&FlashTier) -> T + Send + 'static,
    ) -> Result<T, String> {
        let (flash, disk) = (Arc::new(self.flash.fork("flash")), Arc::new(self.disk.fork("disk")));
        let (own_flash, own_disk) = (flash.clone(), disk.clone());
        let lived = simulate(1, move || {
            let (tier, _) =
                FlashTier::open(own_flash, own_disk, raw_options()).map_err(|error| error.to_string())?;
            Ok(life(&tier))
        });
        (self.flash, self.disk) = (flash.fork("flash"), disk.fork("disk"));
        lived
    }

    /// What an open leaves that is cut off at its operation `at`. `None`: it is over before.
    fn cut_off(&self, at: u64) -> Option<Self> {
        let plan = Arc::new(FaultPlan::crash_at(at));
        let device = |name: &str, from: &MemoryDevice| {
            Arc::new(FaultyDevice::new(name, from.fork(name), plan.clone()))
        };
        let devices = Devices { flash: device("flash", &self.flash), disk: device("disk", &self.disk), plan };
        let (flash, disk) = (devices.flash.clone(), devices.disk.clone());
        let opened = Simulation::new(SimConfig { seed: at, ..SimConfig::default() }).run(move || {
            FlashTier::open(flash, disk, raw_options()).map(drop).map_err(|error| error.to_string())
        });
        match opened {
            Outcome::Finished(Ok(())) => None,
            Outcome::Finished(Err(told)) => panic!("cut off at {at}: {told}"),
            _ => Some(Self::of(&devices, &Survival::None, &Survival::None)),
        }
    }

    /// A life on copies of them.
    fn copy(&self) -> Self {
        Self { flash: self.flash.fork("flash"), disk: self.disk.fork("disk") }
    }
}

fn versions(tier: &FlashTier) -> Vec<Option<u8>> {
    (0..DIRTY).map(|page| version(tier, page).ok()).collect()
}

/// Power fails at an operation of a life that fills groups which are flushed. Whichever summary of a group
/// cannot be read then, or a life later, the cache opens: each block is there twice. A life later it has what
/// that life had.
#[test]
fn one_of_two_summaries_is_enough_after_a_crash_and_a_life_later() {
    for at in 1.. {
        let devices = Arc::new(OnceLock::new());
        let own = devices.clone();
        let lived = Simulation::new(SimConfig { seed: at, ..SimConfig::default() }).run(move || {
            let devices = own.get_or_init(Devices::new);
            let tier = devices.used();
            devices.inject(at, "flash", Fault::Crash, false);
            for page in 0..24 {
                write(&tier, page, 3).and_then(|()| if page % 3 == 2 { tier.flush() } else { Ok(()) })?;
            }
            Ok::<_, TierError>(())
        });
        if let Outcome::Finished(Ok(())) = lived {
            assert!(at > 30, "power failed {at} times");
            return;
        }
        let kept = |salt: u64| {
            (0..40).map(|write| !(at * 31 + salt * 7 + write * write * 13).is_multiple_of(3)).collect()
        };
        for survival in [Survival::All, Survival::Writes(kept(1)), Survival::Writes(kept(2))] {
            let mut left = Left::of(devices.get().unwrap(), &survival, &Survival::All);
            each_summary(&left, |left, place| {
                left.lives(|_| ())
                    .unwrap_or_else(|told| panic!("power failed at {at}, {place} is unreadable: {told}"));
            });
            let found = left
                .lives(|tier| {
                    let found = versions(tier);
                    tier.flush().unwrap();
                    found
                })
                .unwrap();
            each_summary(&left, |left, place| {
                let now =
                    left.lives(versions).unwrap_or_else(|told| panic!("a life after {at}, {place}: {told}"));
                assert_eq!(now, found, "a life after {at}, {place}");
            });
        }
    }
}

fn each_summary(left: &Left, look: impl Fn(&mut Left, &str)) {
    let layout = raw_options().layout();
    for (group, copy) in (0..layout.groups()).flat_map(|group| [(group, 0), (group, 1)]) {
        let mut left = left.copy();
        left.flash.mark_unreadable(layout.summary_offset(group, copy), BLOCK_BYTES as u64);
        look(&mut left, &format!("copy {copy} of the summary at place {group}"));
    }
}

/// A cache whose flash has died goes on. Power fails while a page is written that only the flash had; a life
/// later it is written again, and flushed. Then one copy of the record of missing pages cannot be read.
#[test]
fn a_page_that_is_not_missing_any_more_stays_so() {
    for at in 1..12 {
        let devices = Arc::new(OnceLock::new());
        let own = devices.clone();
        Simulation::new(SimConfig { seed: at, ..SimConfig::default() }).run(move || {
            let devices = own.get_or_init(Devices::new);
            let tier = devices.used();
            devices.inject(1, "flash", Fault::Death, true);
            (DIRTY..RAW_PAGES).for_each(|page| write(&tier, page, 3).unwrap());
            devices.inject(at, "disk", Fault::Crash, false);
            write(&tier, 7, 3)
        });
        for (survival, has_flash) in
            [(Survival::None, true), (Survival::All, true), (Survival::None, false), (Survival::All, false)]
        {
            let mut left = Left::of(devices.get().unwrap(), &Survival::All, &survival);
            if has_flash {
                left.lives(write_again).unwrap();
            } else {
                let disk = Arc::new(left.disk.fork("disk"));
                let own = disk.clone();
                simulate(1, move || {
                    let home = WholeDisk::new(own, PAGE as u32);
                    write_again(&FlashTier::open_without_flash(home, raw_options()).unwrap().0);
                });
                left.disk = disk.fork("disk");
            }
            for copy in 0..2 {
                let mut left = left.copy();
                left.disk.mark_unreadable(copy * COPY_STRIDE + BLOCK_BYTES as u64, RECORD_BYTES as u64);
                let found = left.lives(|tier| version(tier, 7).ok()).unwrap();
                assert_eq!(found, Some(4), "power failed at {at}, copy {copy} of the record is unreadable");
            }
        }
    }
}

fn write_again(tier: &FlashTier) {
    write(tier, 7, 4).unwrap();
    tier.flush().unwrap();
}

/// A block of TAC's slot directory cannot be read for the length of a life, in which pages are changed that
/// it names.
#[test]
fn a_directory_block_that_could_not_be_read_does_not_bring_older_versions_back() {
    for (mode, closes) in
        [(Mode::WriteAround, false), (Mode::WriteThrough, false), (Mode::WriteThrough, true)]
    {
        simulate(1, move || directory_block(mode, closes));
    }
}

fn directory_block(mode: Mode, closes: bool) {
    let options = TierOptions { mode, ..support::small(PolicyKind::Tac, 64) };
    let (flash, disk) = support::memory(&options, PAGES);
    support::load(disk.clone(), PAGES);
    let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
    let mut buffer = vec![0; PAGE];
    for _ in 0..6 {
        for page in (0..PAGES).map(PageId) {
            let found = tier.fetch(page, &mut buffer).unwrap();
            let lsn = page::lsn(&buffer).0;
            tier.evict(support::victim(page, lsn, found.dirty, found.fdirty), &buffer).unwrap();
        }
    }
    tier.close().unwrap();
    let (at, mut block) = (options.layout().directory_offset(0), vec![0; BLOCK_BYTES]);
    flash.read(at, &mut block).unwrap();
    flash.mark_unreadable(at, BLOCK_BYTES as u64);
    let open = || FlashTier::open(flash.clone(), disk.clone(), options.clone()).unwrap().0;
    let tier = open();
    let changed: Vec<PageId> = (0..PAGES).step_by(4).map(PageId).collect();
    for page in &changed {
        tier.evict(support::victim(*page, 1000, true, true), &support::build(*page, 1000)).unwrap();
    }
    tier.flush().unwrap();
    if closes {
        tier.close().unwrap();
    }
    drop(tier);
    if flash.read(at, &mut buffer[..BLOCK_BYTES]).is_err() {
        flash.write(at, &block).unwrap();
    }
    let tier = open();
    for page in changed {
        tier.fetch(page, &mut buffer).unwrap();
        assert_eq!(support::version(page, &buffer), 1000, "{mode:?}, {page}");
    }
}

/// An open that makes a new cache is cut off, and a copy of the disk's label cannot be read in the next one,
/// which makes another cache and is cut off, too. Then that copy can be read again: it must not name the
/// first cache, of which the flash has nothing any more.
#[test]
fn a_label_that_could_not_be_read_for_a_while_does_not_name_a_cache_that_is_gone() {
    let mut closed = simulate(1, || {
        let devices = Devices::new();
        let tier = devices.used();
        tier.detach().unwrap();
        drop(tier);
        Left::of(&devices, &Survival::None, &Survival::All)
    });
    closed.flash = MemoryDevice::new("flash", flash_bytes(&raw_options()));
    let mut opened_again = 0;
    for (first, copy) in (1..).flat_map(|first| [(first, 0), (first, 1)]) {
        let Some(made) = closed.cut_off(first) else { break };
        let (offset, mut sector) = (copy * COPY_STRIDE, [0; 512]);
        made.disk.read(offset, &mut sector).unwrap();
        made.disk.mark_unreadable(offset, sector.len() as u64);
        for second in 1.. {
            let Some(mut left) = made.cut_off(second) else { break };
            if left.disk.unreadable_sectors().contains(&(offset / 512)) {
                left.disk.write(offset, &sector).unwrap();
            }
            let told = left.lives(|_| ());
            assert!(told.is_ok(), "cut off at {first} and {second}, copy {copy} is back: {told:?}");
            opened_again += 1;
        }
    }
    assert!(opened_again > 200, "{opened_again}");
}
