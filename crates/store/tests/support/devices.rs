//! A disk and a log that fail as planned, and take a random time.

use super::Slow;
use entresol_device::{Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice, Survival};
use entresol_engine::DiskLayer;
use entresol_store::{Options, Parts, Store, StoreError};
use std::sync::Arc;

pub struct Devices {
    pub plan: Arc<FaultPlan>,
    pub disk: Arc<Slow<FaultyDevice>>,
    pub log: Arc<Slow<FaultyDevice>>,
}

impl Devices {
    pub fn blank(disk_bytes: u64, log_bytes: u64) -> Devices {
        Self::over(MemoryDevice::new("disk", disk_bytes), MemoryDevice::new("log", log_bytes))
    }

    pub fn over(disk: MemoryDevice, log: MemoryDevice) -> Devices {
        let plan = Arc::new(FaultPlan::none());
        let device = |name, memory| {
            Arc::new(Slow { device: FaultyDevice::new(name, memory, plan.clone()), nanos: 2000 })
        };
        Devices { disk: device("disk", disk), log: device("log", log), plan }
    }

    pub fn after_crash(&self, survival: &Survival) -> Devices {
        Self::over(self.disk.device.after_crash(survival), self.log.device.after_crash(survival))
    }

    /// The next operation of `device` (of any, if none is named) fails.
    pub fn inject(&self, device: Option<&str>, fault: Fault, forever: bool) {
        self.inject_at(1, device, fault, forever);
    }

    /// As [`Devices::inject`], from the operation so many ahead.
    pub fn inject_at(&self, ahead: u64, device: Option<&str>, fault: Fault, forever: bool) {
        let at = self.plan.operations() + ahead;
        self.plan.inject(Injection { at, device: device.map(str::to_owned), fault, forever });
    }

    pub fn create(&self, options: Options) -> Store {
        let layer = DiskLayer::create(self.disk.clone(), options.page_bytes).unwrap();
        Store::create(Parts { layer, log: self.log.clone() }, options).unwrap()
    }

    pub fn open(&self, options: Options) -> Result<Store, StoreError> {
        let layer = DiskLayer::open(self.disk.clone(), options.page_bytes)?;
        Ok(Store::open(Parts { layer, log: self.log.clone() }, options)?.0)
    }
}
