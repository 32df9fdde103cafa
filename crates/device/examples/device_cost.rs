//! Prints the CPU time of the simulated devices for each 4 KiB request: `cargo run --release -p
//! entresol-device --example device_cost`.

use entresol_device::{Device, FaultPlan, FaultyDevice, MemoryDevice, Profile, Scale, Survival};
use entresol_runtime::rng::Rng;
use entresol_runtime::sim::{SimConfig, Simulation};
use std::sync::Arc;

const PAGES: u64 = 16_384;
const REQUESTS: u64 = 500_000;

/// Nanoseconds of CPU time of this thread (Linux).
fn cpu_ns() -> u64 {
    std::thread::yield_now();
    let text =
        std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells the CPU time of a thread");
    text.split(' ').next().and_then(|number| number.parse().ok()).expect("the first field is a number")
}

fn report(what: &str, count: u64, start: u64) {
    println!("{what:44} {:7.0} ns", (cpu_ns() - start) as f64 / count as f64);
}

fn requests(what: &str, device: &dyn Device, mut request: impl FnMut(&dyn Device, u64, u64)) {
    let mut rng = Rng::new(1);
    let start = cpu_ns();
    for number in 0..REQUESTS {
        request(device, number, rng.below(PAGES) * 4096);
    }
    report(what, REQUESTS, start);
}

fn noise(seed: u64) -> [u8; 4096] {
    let mut rng = Rng::new(seed);
    let mut page = [0; 4096];
    page.as_chunks_mut::<8>().0.iter_mut().for_each(|word| *word = rng.next_u64().to_le_bytes());
    page
}

fn main() {
    let loaded = MemoryDevice::new("base", PAGES * 4096);
    let mut pages: Vec<_> = (0..PAGES).map(noise).collect();
    for (number, page) in pages.iter().enumerate() {
        loaded.write(number as u64 * 4096, page).expect("memory does not fail");
    }
    let base = loaded.freeze();
    let mut buffer = [0; 4096];

    let device = MemoryDevice::over("memory", base.clone());
    requests("memory: read from the base", &device, |device, _, offset| {
        device.read(offset, &mut buffer).expect("memory does not fail");
    });
    requests("memory: write a small change", &device, |device, number, offset| {
        let page = &mut pages[offset as usize / 4096];
        page[..16].fill(number as u8);
        page[2000..2040].fill(number as u8);
        device.write(offset, page).expect("memory does not fail");
    });
    requests("memory: read base and difference", &device, |device, _, offset| {
        device.read(offset, &mut buffer).expect("memory does not fail");
    });
    let other = noise(u64::MAX);
    requests("memory: write all of a page", &device, |device, _, offset| {
        device.write(offset, &other).expect("memory does not fail");
    });
    requests("memory: read a whole page", &device, |device, _, offset| {
        device.read(offset, &mut buffer).expect("memory does not fail");
    });

    for name in ["raid0-8", "mlc", "nvme"] {
        let profile = Profile::named(name).expect("the profile is known");
        Simulation::new(SimConfig::default())
            .run(|| {
                let device = profile.build(MemoryDevice::over("memory", base.clone()), Scale::of(50, 1));
                requests(&format!("{name}: read, one task"), &device, |device, _, offset| {
                    device.read(offset, &mut buffer).expect("the model does not fail");
                });
                requests(&format!("{name}: write, one task"), &device, |device, number, offset| {
                    let page = &mut pages[offset as usize / 4096];
                    page[..16].fill(number as u8);
                    device.write(offset, page).expect("the model does not fail");
                });
            })
            .unwrap();
    }

    const STATES: u64 = 20_000;
    let start = cpu_ns();
    let device = FaultyDevice::new("faulty", MemoryDevice::over("memory", base), Arc::new(FaultPlan::none()));
    for round in 0..20u64 {
        device.write(round * 12_288, &other).expect("no fault is planned");
        if round == 10 {
            device.sync().expect("no fault is planned");
        }
    }
    for seed in 0..STATES {
        let image = device.after_crash(&Survival::Seed(seed));
        image.read(0, &mut buffer).expect("memory does not fail");
    }
    report("faulty: a crash state of 9 unsynced pages", STATES, start);
}
