//! Scenarios that the rigs never draw, or too seldom. Each has its own script, and reports the violation.

use entresol_core::{PageId, PolicyKind};
use entresol_device::{Device, Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice, Survival};
use entresol_engine::{
    Deletes, DiskLayer, FlashTier, Layer, PageCache, ReadRoute, TierError, TierOptions, disk_offset,
    flash_bytes,
};
use entresol_format::missing::RANGES_MAX;
use entresol_format::{PageFormat, superblock};
use entresol_objects::Locator;
use entresol_runtime::sim::{Outcome, SimConfig, Simulation};
use entresol_runtime::sleep;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

pub(super) const PAGE: usize = 4096;

pub(super) fn options(slots: u32) -> TierOptions {
    TierOptions {
        page_format: PageFormat::Raw,
        group_pages: 4,
        staging_groups: 4,
        segment_entries: 16,
        slots,
        history: PolicyKind::FaceGsc.history(slots),
        write_workers: 2,
        background_workers: 3,
        ..TierOptions::new(PolicyKind::FaceGsc, slots)
    }
}

pub(super) fn simulate<T: Debug + Send>(
    play: impl FnOnce() -> Result<T, String> + Send,
) -> Result<T, String> {
    match Simulation::new(SimConfig { seed: 1, random_order: true, ..SimConfig::default() }).run(play) {
        Outcome::Finished(result) => result,
        other => Err(format!("{other:?}")),
    }
}

pub(super) fn told(error: impl ToString) -> String {
    error.to_string()
}

/// Raw bytes that tell page and version.
pub(super) fn bytes(page: u64, version: u64) -> Vec<u8> {
    [page.to_le_bytes(), version.to_le_bytes()].concat().repeat(PAGE / 16)
}

fn write(tier: &FlashTier, page: u64, version: u64) -> Result<(), TierError> {
    tier.write_pages(PageId(page), &bytes(page, version))
}

/// The page is at this version.
fn expect(tier: &FlashTier, page: PageId, expected: &[u8]) -> Result<(), String> {
    let mut found = vec![0; PAGE];
    tier.read_pages(page, &mut found, ReadRoute::Populates).map_err(told)?;
    match found == expected {
        true => Ok(()),
        false => Err(format!("page {page}: found {:?}, expected {:?}", &found[..16], &expected[..16])),
    }
}

/// Flash and disk, which fail as one plan says.
struct World {
    plan: Arc<FaultPlan>,
    flash: Arc<FaultyDevice>,
    disk: Arc<FaultyDevice>,
    options: TierOptions,
}

impl World {
    fn new(options: TierOptions, pages: u64) -> Self {
        let plan = Arc::new(FaultPlan::none());
        let device = |name: &str, bytes| {
            Arc::new(FaultyDevice::new(name, MemoryDevice::new(name, bytes), plan.clone()))
        };
        let flash = device("flash", flash_bytes(&options));
        let disk = device("disk", disk_offset(PageId(pages), PAGE as u32));
        Self { plan, flash, disk, options }
    }

    fn create(&self) -> Result<Arc<FlashTier>, TierError> {
        FlashTier::create(self.flash.clone(), self.disk.clone(), self.options.clone())
    }

    fn open(&self) -> Result<Arc<FlashTier>, TierError> {
        let opened = FlashTier::open(self.flash.clone(), self.disk.clone(), self.options.clone());
        opened.map(|(tier, _)| tier)
    }

    fn inject(&self, at: u64, device: Option<&str>, fault: Fault, forever: bool) {
        self.plan.inject(Injection { at, device: device.map(str::to_owned), fault, forever });
    }

    /// After a power failure, on devices without faults.
    fn again(&self, survival: &Survival) -> Self {
        let plan = Arc::new(FaultPlan::none());
        let again = |device: &FaultyDevice| {
            Arc::new(FaultyDevice::new(device.name(), device.after_crash(survival), plan.clone()))
        };
        let (flash, disk) = (again(&self.flash), again(&self.disk));
        Self { plan, flash, disk, options: self.options.clone() }
    }
}

/// The cache's superblocks are of an older version of the format, and pages on flash are newer than disk.
pub(super) fn older_format() -> Result<(), String> {
    simulate(|| {
        let world = World::new(options(80), 120);
        let tier = world.create().map_err(told)?;
        (0..20).try_for_each(|page| write(&tier, page, 1)).map_err(told)?;
        tier.close().map_err(told)?;
        for copy in 0..superblock::COPIES {
            let mut block = vec![0; entresol_format::BLOCK_BYTES];
            world.flash.read(copy * superblock::COPY_STRIDE, &mut block).map_err(told)?;
            let mut found = superblock::Superblock::decode(&block).map_err(told)?;
            found.version -= 1;
            found.encode(&mut block);
            world.flash.write(copy * superblock::COPY_STRIDE, &block).map_err(told)?;
        }
        let before = world.flash.counters().writes;
        match world.open() {
            Err(TierError::Refused(why)) if why.contains("of format version") => {}
            Err(other) => return Err(format!("refused in another way: {other}")),
            Ok(_) => return Err("a cache of an older format was opened".to_owned()),
        }
        match world.flash.counters().writes - before {
            0 => Ok(()),
            writes => Err(format!("{writes} writes to a flash of an older format")),
        }
    })
}

/// Power fails at each operation of the making of a cache with a table of objects, whose disk exists. After
/// each, the cache is made again, or opened, and has what it is given.
pub(super) fn objects_cut_off() -> Result<(), String> {
    let is_done = |at: u64| {
        let world = World::new(TierOptions { objects: 8, ..options(80) }, 120);
        simulate(|| {
            DiskLayer::create(world.disk.clone(), PAGE as u32).and_then(|layer| layer.close()).map_err(told)
        })?;
        world.inject(world.plan.operations() + at, None, Fault::Crash, false);
        let created = Simulation::new(SimConfig::default()).run(|| world.create().map(drop));
        for survival in [Survival::All, Survival::None] {
            let after = world.again(&survival);
            simulate(|| {
                let tier = after.create().or_else(|_| after.open()).map_err(told)?;
                let object = tier.define(&Locator::default()).map_err(told)?.ok_or("the table is full")?;
                let page = object.page(3);
                tier.write_pages(page, &bytes(3, 1)).and_then(|()| tier.flush()).map_err(told)?;
                expect(&tier, page, &bytes(3, 1))?;
                drop(tier);
                expect(&*after.again(&Survival::None).open().map_err(told)?, page, &bytes(3, 1))
            })
            .map_err(|what| format!("power failed at operation {at} ({survival:?}): {what}"))?;
        }
        Ok::<_, String>(matches!(created, Outcome::Finished(Ok(()))))
    };
    for at in 1.. {
        if is_done(at)? {
            break;
        }
    }
    Ok(())
}

/// The flash fails, and can be read, while more pages on it are newer than disk than a list of them has room
/// for: every other page of a disk.
pub(super) fn long_list() -> Result<(), String> {
    simulate(|| {
        let pages = 4 * RANGES_MAX as u64;
        let slots = 3 * RANGES_MAX as u32;
        let world =
            World::new(TierOptions { segment_entries: 1024, group_pages: 64, ..options(slots) }, pages);
        DiskLayer::create(world.disk.clone(), PAGE as u32).and_then(|layer| layer.close()).map_err(told)?;
        let tier = world.create().map_err(told)?;
        (0..pages).step_by(2).try_for_each(|page| write(&tier, page, 1)).map_err(told)?;
        tier.flush().map_err(told)?;
        world.inject(world.plan.operations() + 1, Some("flash"), Fault::WriteError, true);
        (1..200).step_by(2).try_for_each(|page| write(&tier, page, 2)).map_err(told)?;
        tier.flush().map_err(told)?;
        let is_saved = (0..1000).any(|_| {
            sleep(Duration::from_millis(1));
            tier.notice().is_some() && tier.missing().is_none()
        });
        if !is_saved {
            return Err("the disk lacks pages that can be read".to_owned());
        }
        (0..pages).try_for_each(|page| {
            let expected = if page % 2 == 0 { 1 } else { 2 * u64::from(page < 200) };
            let expected = if expected == 0 { vec![0; PAGE] } else { bytes(page, expected) };
            expect(&tier, PageId(page), &expected)
        })
    })
}
