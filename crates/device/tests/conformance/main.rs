//! The conformance suite on every device, in the runtimes that support it.

mod suite;

use entresol_device::{
    Device, FaultPlan, FaultyDevice, FileDevice, FileOptions, ImageDevice, MemoryDevice, Profile, RedoDevice,
    Scale, UringDevice,
};
use entresol_runtime::sim::{SimConfig, Simulation};
use std::sync::Arc;

const CAPACITY: u64 = 8 << 20;

fn everywhere(make: impl Fn() -> Arc<dyn Device> + Send + Sync) {
    for random_order in [false, true] {
        Simulation::new(SimConfig { random_order, ..SimConfig::default() })
            .run(|| suite::check(&make()))
            .unwrap();
    }
    suite::check(&make());
}

#[test]
fn memory() {
    everywhere(|| Arc::new(MemoryDevice::new("memory", CAPACITY)));
}

#[test]
fn image() {
    everywhere(|| Arc::new(ImageDevice::new("image", CAPACITY)));
}

#[test]
fn memory_over_a_base() {
    let noise: Vec<u8> = (0..CAPACITY / 2).map(|index| ((index * index) >> 7) as u8).collect();
    let base = MemoryDevice::new("base", CAPACITY);
    base.write(CAPACITY / 4, &noise).expect("memory does not fail");
    let image = ImageDevice::new("image", CAPACITY);
    image.write(CAPACITY / 4, &noise).expect("memory does not fail");
    for base in [base.freeze(), image.freeze()] {
        everywhere(|| Arc::new(MemoryDevice::over("memory", base.clone())));
    }
}

#[test]
fn faulty_without_faults() {
    everywhere(|| {
        let memory = MemoryDevice::new("memory", CAPACITY);
        Arc::new(FaultyDevice::new("faulty", memory, Arc::new(FaultPlan::none())))
    });
}

#[test]
fn redo_without_faults() {
    everywhere(|| Arc::new(RedoDevice::new(MemoryDevice::new("memory", CAPACITY))));
}

#[test]
fn every_model() {
    for profile in Profile::all() {
        Simulation::new(SimConfig::default())
            .run(|| {
                let device: Arc<dyn Device> = Arc::new(
                    profile.build(MemoryDevice::new("memory", CAPACITY), Scale::of(1 << 30, CAPACITY)),
                );
                suite::check(&device);
            })
            .unwrap();
    }
}

#[test]
fn file() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    for is_direct_wanted in [true, false] {
        let path = folder.path().join(format!("file-{is_direct_wanted}"));
        let options = FileOptions { is_direct_wanted, ..FileOptions::create(CAPACITY) };
        let device = FileDevice::open(path, options).expect("the file can be made");
        println!("{:?} {:?}", device.geometry(), device.notice());
        let device: Arc<dyn Device> = Arc::new(device);
        suite::check(&device);
    }
}

#[test]
fn uring() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    for is_direct_wanted in [true, false] {
        let path = folder.path().join(format!("file-{is_direct_wanted}"));
        let options = FileOptions { is_direct_wanted, ..FileOptions::create(CAPACITY) };
        match UringDevice::open(path, options) {
            Ok(device) => {
                let device: Arc<dyn Device> = Arc::new(device);
                suite::check(&device);
            }
            Err(error) if error.to_string().contains("io_uring is not available") => {
                println!("skipped: {error}")
            }
            Err(error) => panic!("{error}"),
        }
    }
}
