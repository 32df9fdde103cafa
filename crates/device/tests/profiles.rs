//! Every profile, driven with pure loads at queue depth 32 in the simulation, reaches its figures (FaCE table
//! 1) within 10 %. Run with `--nocapture` for the measured numbers.

use entresol_device::{Counters, Device, DeviceError, Geometry, Io, Profile, Scale};
use entresol_runtime::rng::Rng;
use entresol_runtime::sim::{SimConfig, Simulation};
use entresol_runtime::{now, sleep, spawn};
use std::sync::Arc;
use std::time::Duration;

const GB: u64 = 1_000_000_000;
/// Capacity of the modelled devices, in whole requests of 256 KiB.
const CAPACITY: u64 = 1000 * (256 << 10);

/// A device without data: only the time matters here.
struct Void;

impl Device for Void {
    fn geometry(&self) -> Geometry {
        Geometry::new(CAPACITY, 512)
    }
    fn run(&self, _batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        Ok(())
    }
    fn sync(&self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn discard(&self, _offset: u64, _length: u64) -> Result<(), DeviceError> {
        Ok(())
    }
    fn drop_cached(&self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn counters(&self) -> Counters {
        Counters::default()
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Load {
    RandomRead,
    RandomWrite,
    SequentialRead,
    SequentialWrite,
}

/// Operations per second (random) or bytes per second (sequential) after `warm_up`, during `measured`.
fn drive(
    profile: Profile,
    real_gb: u64,
    load: Load,
    tasks: u64,
    warm_up: Duration,
    measured: Duration,
) -> f64 {
    Simulation::new(SimConfig::default())
        .run(move || {
            let capacity = CAPACITY;
            let device = Arc::new(profile.build(Void, Scale::of(real_gb * GB, CAPACITY)));
            match load {
                Load::RandomRead | Load::RandomWrite => {
                    for task in 0..tasks {
                        let device = device.clone();
                        spawn("client", move || {
                            let mut rng = Rng::new(task);
                            let mut page = [0; 4096];
                            loop {
                                let offset = rng.below(capacity / 4096) * 4096;
                                if load == Load::RandomRead {
                                    device.read(offset, &mut page).expect("the model does not fail");
                                } else {
                                    device.write(offset, &page).expect("the model does not fail");
                                }
                            }
                        });
                    }
                }
                // 32 outstanding requests of 256 KiB, one after the other on the device, in batches of 64.
                Load::SequentialRead | Load::SequentialWrite => {
                    let device = device.clone();
                    spawn("client", move || {
                        let mut chunks = vec![vec![0u8; 256 << 10]; 64];
                        let mut next = 0;
                        loop {
                            let mut batch: Vec<_> = chunks
                                .iter_mut()
                                .map(|chunk| {
                                    let offset = next;
                                    next = (next + (256 << 10)) % capacity;
                                    if load == Load::SequentialRead {
                                        Io::Read { offset, buffer: chunk }
                                    } else {
                                        Io::Write { offset, data: chunk }
                                    }
                                })
                                .collect();
                            device.run(&mut batch).expect("the model does not fail");
                        }
                    });
                }
            }
            sleep(warm_up);
            if load == Load::SequentialWrite {
                // Enough passes to clean a drive that random writes have filled.
                while device.counters().written_bytes < 5 * capacity / 2 {
                    sleep(Duration::from_millis(100));
                }
            }
            let (before, start) = (device.counters(), now());
            sleep(measured);
            let (after, seconds) = (device.counters(), now().since(start).as_secs_f64());
            assert!(after.busy <= now().since(entresol_runtime::Time(0)));
            assert!(
                (after.busy - before.busy).as_secs_f64() > 0.99 * seconds,
                "the device was not kept busy"
            );
            match load {
                Load::RandomRead | Load::RandomWrite => {
                    (after.reads + after.writes - before.reads - before.writes) as f64 / seconds
                }
                _ => {
                    (after.read_bytes + after.written_bytes - before.read_bytes - before.written_bytes) as f64
                        / seconds
                }
            }
        })
        .unwrap()
}

/// Asserts random read and write IOPS, sequential read and write MB/s. `real_gb`: the size for which the
/// modelled capacity stands.
fn assert_figures(name: &str, real_gb: u64, tasks: u64, figures: [f64; 4]) {
    let profile = Profile::named(name).expect("the profile is known");
    let is_fast = name == "nvme";
    let is_ssd = matches!(profile.model, entresol_device::Model::Ssd(_));
    let loads = [Load::RandomRead, Load::RandomWrite, Load::SequentialRead, Load::SequentialWrite];
    for (load, figure) in loads.into_iter().zip(figures) {
        let figure = if matches!(load, Load::RandomRead | Load::RandomWrite) { figure } else { figure * 1e6 };
        let (warm_up, measured) = match load {
            _ if is_fast => (Duration::from_millis(500), Duration::from_millis(500)),
            Load::SequentialWrite if is_ssd => (Duration::ZERO, Duration::from_secs(8)),
            _ => (Duration::from_secs(10), Duration::from_secs(20)),
        };
        let measured = drive(profile, real_gb, load, tasks, warm_up, measured);
        println!(
            "{name:9} {load:?}: {measured:.0}, to be {figure:.0} ({:+.1} %)",
            (measured / figure - 1.0) * 100.0
        );
        assert!(
            (measured / figure - 1.0).abs() < 0.1,
            "{name} {load:?}: {measured:.0} instead of {figure:.0}"
        );
    }
}

#[test]
fn samsung_470() {
    assert_figures("mlc", 256, 32, [28_495.0, 6_314.0, 251.33, 242.80]);
}

#[test]
fn intel_x25m() {
    assert_figures("mlc-x25m", 80, 32, [35_601.0, 2_547.0, 258.70, 80.81]);
}

#[test]
fn intel_x25e() {
    assert_figures("slc", 32, 32, [38_427.0, 5_057.0, 259.2, 195.25]);
}

#[test]
fn cheetah() {
    assert_figures("disk", 1, 32, [409.0, 343.0, 156.0, 154.0]);
}

#[test]
fn raid0_of_eight() {
    assert_figures("raid0-8", 1_000, 32, [2_598.0, 2_502.0, 848.0, 843.0]);
}

/// Scaled from eight spindles, at four outstanding requests per spindle.
#[test]
fn raid0_of_other_widths() {
    for (name, spindles) in [("raid0-4", 4.0), ("raid0-12", 12.0), ("raid0-16", 16.0)] {
        let share = spindles / 8.0;
        assert_figures(
            name,
            1_000,
            4 * spindles as u64,
            [2_598.0 * share, 2_502.0 * share, 848.0 * share, 843.0 * share],
        );
    }
}

#[test]
fn sata_disk() {
    assert_figures("sata-disk", 1, 32, [120.0, 113.0, 180.0, 180.0]);
}

#[test]
fn cloud_volume() {
    assert_figures("cloud", 1, 32, [3_000.0, 3_000.0, 125.0, 125.0]);
}

#[test]
fn nvme() {
    assert_figures("nvme", 1, 256, [600_000.0, 200_000.0, 3_200.0, 3_000.0]);
}

fn lone_request(name: &str, is_write: bool) -> Duration {
    let profile = Profile::named(name).expect("the profile is known");
    Simulation::new(SimConfig::default())
        .run(move || {
            let device = profile.build(Void, Scale::FULL);
            let mut rng = Rng::new(1);
            let mut page = [0; 4096];
            let start = now();
            for _ in 0..1000 {
                let offset = rng.below(CAPACITY / 4096) * 4096;
                if is_write {
                    device.write(offset, &page).expect("the model does not fail");
                    sleep(Duration::from_millis(100));
                } else {
                    device.read(offset, &mut page).expect("the model does not fail");
                }
            }
            (now().since(start) - Duration::from_millis(if is_write { 100_000 } else { 0 })) / 1000
        })
        .unwrap()
}

#[test]
fn lone_requests_take_what_the_device_class_takes() {
    let between = |name, is_write, least_us: u64, most_us: u64| {
        let took = lone_request(name, is_write);
        println!("{name:9} lone {}: {took:?}", if is_write { "write" } else { "read" });
        assert!(
            took >= Duration::from_micros(least_us) && took <= Duration::from_micros(most_us),
            "{name}: {took:?}"
        );
    };
    between("disk", false, 5_300, 5_700);
    between("raid0-8", false, 5_300, 5_700);
    between("raid0-8", true, 10, 200);
    between("mlc", false, 90, 130);
    between("mlc", true, 20, 60);
    between("nvme", false, 40, 80);
    between("cloud", false, 1_000, 1_500);
    between("sata-disk", false, 12_000, 13_000);
}
