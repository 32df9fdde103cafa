//! As `crash.rs`, but on the engine's layers over faulty devices: flash tier of each policy, and disk alone.

mod support;

use entresol_core::PolicyKind;
use entresol_device::{Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice, Survival};
use entresol_engine::{DiskLayer, FlashTier, Layer, TierOptions, flash_bytes};
use entresol_store::{Options, Parts, Store};
use std::sync::Arc;
use std::time::Duration;
use support::bank::{Oracle, Site, check, create, lives, run, seeds};
use support::{Rng, Slow};

struct Devices {
    policy: Option<PolicyKind>,
    plan: Arc<FaultPlan>,
    flash: Arc<Slow<FaultyDevice>>,
    disk: Arc<Slow<FaultyDevice>>,
    log: Arc<Slow<FaultyDevice>>,
}

fn tier_options(policy: PolicyKind) -> TierOptions {
    let usual = TierOptions::new(policy, 64);
    TierOptions { slots: 64, group_pages: 4, staging_groups: 2, segment_entries: 32, ..usual }
}

impl Devices {
    fn new(policy: Option<PolicyKind>) -> Devices {
        let flash = flash_bytes(&tier_options(policy.unwrap_or(PolicyKind::Face)));
        Self::over(
            policy,
            [
                MemoryDevice::new("flash", flash),
                MemoryDevice::new("disk", 256 << 20),
                MemoryDevice::new("log", 32 << 20),
            ],
        )
    }

    fn over(policy: Option<PolicyKind>, [flash, disk, log]: [MemoryDevice; 3]) -> Devices {
        let plan = Arc::new(FaultPlan::none());
        let device = |name, memory| {
            Arc::new(Slow { device: FaultyDevice::new(name, memory, plan.clone()), nanos: 2000 })
        };
        let (flash, disk, log) = (device("flash", flash), device("disk", disk), device("log", log));
        Devices { policy, plan, flash, disk, log }
    }
}

impl Site for Devices {
    fn create(&self) -> Parts {
        let layer: Arc<dyn Layer> = match self.policy {
            Some(policy) => {
                FlashTier::create(self.flash.clone(), self.disk.clone(), tier_options(policy)).unwrap()
            }
            None => DiskLayer::create(self.disk.clone(), 4096).unwrap(),
        };
        Parts { layer, log: self.log.clone() }
    }

    fn open(&self) -> Parts {
        let layer: Arc<dyn Layer> = match self.policy {
            Some(policy) => {
                FlashTier::open(self.flash.clone(), self.disk.clone(), tier_options(policy)).unwrap().0
            }
            None => DiskLayer::open(self.disk.clone(), 4096).unwrap(),
        };
        Parts { layer, log: self.log.clone() }
    }

    fn halt_at(&self, operation: u64) {
        let at = self.plan.operations() + operation;
        self.plan.inject(Injection { at, device: None, fault: Fault::Crash, forever: false });
    }

    fn after_crash(&self, rng: &mut Rng) -> Devices {
        let mut survivor = |slow: &Slow<FaultyDevice>| slow.device.after_crash(&Survival::Seed(rng.next()));
        Devices::over(self.policy, [survivor(&self.flash), survivor(&self.disk), survivor(&self.log)])
    }
}

fn crashes(policy: Option<PolicyKind>) {
    let (mut commits, seeds) = (0, seeds(8));
    for seed in seeds.clone() {
        let options = Options {
            frames: [64, 100, 400][seed as usize % 3],
            checkpoint_interval: (seed / 3 % 2 == 0).then_some(Duration::from_millis(1)),
            ..Options::default()
        };
        commits += lives(Devices::new(policy), &options, seed, 8);
    }
    assert!(commits > 50 * (seeds.end - seeds.start), "only {commits} commits");
}

#[test]
fn crashes_of_disk_alone() {
    crashes(None);
}

#[test]
fn crashes_with_face() {
    crashes(Some(PolicyKind::Face));
}

#[test]
fn crashes_with_group_replacement() {
    crashes(Some(PolicyKind::FaceGr));
}

#[test]
fn crashes_with_group_second_chance() {
    crashes(Some(PolicyKind::FaceGsc));
}

#[test]
fn crashes_with_lazy_cleaning() {
    crashes(Some(PolicyKind::Lc));
}

#[test]
fn threads_over_each_layer_end_as_the_oracle_says() {
    for policy in [None].into_iter().chain(PolicyKind::ALL.map(Some)) {
        let (site, oracle) = (Devices::new(policy), Oracle::new());
        let options = Options { frames: 100, ..Options::default() };
        let store = Store::create(site.create(), options.clone()).unwrap();
        create(&store);
        run(&store, &oracle, 1, 60);
        check(&store, &oracle);
        store.shutdown().unwrap();
        let (store, report) = Store::open(site.open(), options).unwrap();
        assert_eq!((report.losers, report.pages_fetched > 0), (0, true));
        check(&store, &oracle);
        store.shutdown().unwrap();
    }
}
