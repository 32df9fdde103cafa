//! A cache whose flash fails, its pages and their versions.

use super::support::{self, PAGE, disk_bytes};
use entresol_core::{PageId, PolicyKind};
use entresol_device::{Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice, Survival};
use entresol_engine::{FlashTier, PageCache, ReadRoute, TierError, TierOptions, flash_bytes};
use entresol_format::PageFormat;
use entresol_runtime::sleep;
use std::sync::Arc;
use std::time::Duration;

/// Pages of the disk. As many as fit on flash are dirty at first.
pub const PAGES: u64 = 120;
pub const DIRTY: u64 = 60;

pub fn options() -> TierOptions {
    let small = support::small(PolicyKind::FaceGsc, 80);
    TierOptions { page_format: PageFormat::Raw, staging_groups: 4, segment_entries: 16, ..small }
}

/// Raw bytes that tell page and version.
pub fn bytes(page: u64, version: u64) -> Vec<u8> {
    [page.to_le_bytes(), version.to_le_bytes()].concat().repeat(PAGE / 16)
}

/// A power failure has torn the last write of a page to disk.
pub const TORN: u64 = u64::MAX;

/// The version of a page that the tier serves; 0: blank.
pub fn version(tier: &FlashTier, page: u64) -> Result<u64, TierError> {
    let mut found = vec![0; PAGE];
    tier.read_pages(PageId(page), &mut found, ReadRoute::Populates)?;
    let number = u64::from_le_bytes(found[8..16].try_into().unwrap());
    let is_blank = found.iter().all(|byte| *byte == 0);
    Ok(if is_blank || found == bytes(page, number) { number } else { TORN })
}

pub fn write(tier: &FlashTier, page: u64, version: u64) -> Result<(), TierError> {
    tier.write_pages(PageId(page), &bytes(page, version))
}

pub struct World {
    pub plan: Arc<FaultPlan>,
    pub flash: Arc<FaultyDevice>,
    pub disk: Arc<FaultyDevice>,
    pub options: TierOptions,
}

impl World {
    pub fn new(options: TierOptions, pages: u64) -> Self {
        let plan = Arc::new(FaultPlan::none());
        let device = |name: &str, bytes| {
            Arc::new(FaultyDevice::new(name, MemoryDevice::new(name, bytes), plan.clone()))
        };
        let (flash, disk) = (device("flash", flash_bytes(&options)), device("disk", disk_bytes(pages)));
        Self { plan, flash, disk, options }
    }

    pub fn create(&self) -> Arc<FlashTier> {
        FlashTier::create(self.flash.clone(), self.disk.clone(), self.options.clone()).unwrap()
    }

    /// A cache with pages `0 .. DIRTY` at version 2, durably, of which the disk has none.
    pub fn used(&self) -> Arc<FlashTier> {
        let tier = self.create();
        for number in 1..=2 {
            (0..DIRTY).for_each(|page| write(&tier, page, number).unwrap());
            tier.flush().unwrap();
        }
        tier
    }

    pub fn open(&self) -> (Arc<FlashTier>, Vec<String>) {
        let opened = FlashTier::open(self.flash.clone(), self.disk.clone(), self.options.clone());
        opened.map(|(tier, report)| (tier, report.notices)).unwrap()
    }

    /// From now on, for ever or once.
    pub fn fail(&self, fault: Fault, forever: bool) {
        let at = self.plan.operations() + 1;
        self.plan.inject(Injection { at, device: Some("flash".to_owned()), fault, forever });
    }

    /// After a kill of the program, or a power failure: devices without faults.
    pub fn again(&self, survival: Option<&Survival>) -> Self {
        let plan = Arc::new(FaultPlan::none());
        let again = |device: &FaultyDevice| {
            Arc::new(match survival {
                None => device.after_kill(plan.clone()),
                Some(survival) => {
                    FaultyDevice::new(device.name(), device.after_crash(survival), plan.clone())
                }
            })
        };
        let (flash, disk) = (again(&self.flash), again(&self.disk));
        Self { plan, flash, disk, options: self.options.clone() }
    }
}

/// A cache as [`World::used`], whose flash has died: the versions that only it has are lost.
pub fn died() -> (World, Arc<FlashTier>) {
    let world = World::new(options(), PAGES);
    let tier = world.used();
    world.fail(Fault::Death, true);
    (DIRTY..PAGES).for_each(|page| write(&tier, page, 3).unwrap());
    assert!(matches!(version(&tier, 7), Err(TierError::Lost { .. })));
    (world, tier)
}

pub fn is_saved(tier: &FlashTier) -> bool {
    (0..1000).any(|_| {
        sleep(Duration::from_millis(1));
        tier.notice().is_some() && tier.missing().is_none()
    })
}
