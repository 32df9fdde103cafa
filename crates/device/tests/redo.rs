//! A device of which a failed sync loses nothing: random requests and faults, and a map of what was written.

use entresol_device::{
    Counters, Device, DeviceError, Fault, FaultPlan, FaultyDevice, Geometry, Injection, Io, MemoryDevice,
    RedoDevice, Survival,
};
use entresol_runtime::rng::Rng;
use entresol_runtime::sim::{SimConfig, Simulation};
use entresol_runtime::{random, sleep, spawn};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SECTOR: usize = 512;
const SECTORS: usize = 400;

/// A device whose next syncs fail, and lose what was written since the last good one.
struct Breaking {
    faulty: FaultyDevice,
    plan: Arc<FaultPlan>,
    failures: AtomicU64,
}

impl Breaking {
    /// The next syncs fail, so many.
    fn fail(&self, syncs: u64) {
        self.failures.store(syncs, SeqCst);
    }
}

impl Device for Breaking {
    fn geometry(&self) -> Geometry {
        self.faulty.geometry()
    }
    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        sleep(Duration::from_nanos(random() % 400));
        self.faulty.run(batch)
    }
    fn sync(&self) -> Result<(), DeviceError> {
        sleep(Duration::from_nanos(random() % 400));
        let fails = self.failures.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
        if fails {
            let (at, fault) = (self.plan.operations(), Fault::SyncErrorLosingWrites);
            self.plan.inject(Injection { at, device: None, fault, forever: false });
        }
        self.faulty.sync()
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.faulty.discard(offset, length)
    }
    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.faulty.drop_cached()
    }
    fn counters(&self) -> Counters {
        self.faulty.counters()
    }
}

struct Parts {
    disk: Arc<Breaking>,
    redo: Arc<RedoDevice<Arc<Breaking>>>,
}

fn parts(remembered: u64) -> Parts {
    let plan = Arc::new(FaultPlan::new(7, Vec::new()));
    let memory = MemoryDevice::new("disk", (SECTORS * SECTOR) as u64);
    let faulty = FaultyDevice::new("disk", memory, plan.clone());
    let disk = Arc::new(Breaking { faulty, plan, failures: AtomicU64::new(0) });
    let redo = Arc::new(RedoDevice::remembering(disk.clone(), remembered));
    Parts { disk, redo }
}

fn simulate(seed: u64, main: impl FnOnce() + Send) {
    let config = SimConfig { seed, random_order: true, preempt_one_of: 5, ..SimConfig::default() };
    Simulation::new(config).run(main).unwrap();
}

fn bytes(version: u64, sectors: usize) -> Vec<u8> {
    version.to_le_bytes().repeat(sectors * SECTOR / 8)
}

fn versions(device: &dyn Device) -> Vec<u64> {
    let mut found = vec![0; SECTORS * SECTOR];
    device.read(0, &mut found).unwrap();
    let sectors = found.chunks_exact(SECTOR);
    sectors.map(|sector| u64::from_le_bytes(sector[..8].try_into().unwrap())).collect()
}

#[test]
fn a_sync_that_fails_once_is_not_noticed() {
    simulate(1, || {
        let Parts { disk, redo } = parts(1 << 20);
        redo.write(0, &bytes(1, SECTORS)).unwrap();
        redo.sync().unwrap();
        redo.write(1024, &bytes(2, 3)).unwrap();
        disk.fail(1);
        redo.sync().unwrap();
        assert_eq!(redo.failed_syncs(), 1);
        let left = disk.faulty.after_crash(&Survival::None);
        assert_eq!(versions(&*redo), versions(&left));
        assert_eq!(versions(&left)[..6], [1, 1, 2, 2, 2, 1]);
    });
}

#[test]
fn while_syncs_fail_reads_give_the_newest_and_a_later_sync_is_for_all() {
    simulate(1, || {
        let Parts { disk, redo } = parts(1 << 20);
        redo.write(0, &bytes(1, SECTORS)).unwrap();
        redo.sync().unwrap();
        redo.write(0, &bytes(2, 10)).unwrap();
        disk.fail(100);
        for number in 3..6 {
            assert!(redo.sync().is_err());
            redo.write(number * 2 * SECTOR as u64, &bytes(number, 1)).unwrap();
            assert_eq!(versions(&*redo)[0], 2, "the device has lost it");
        }
        disk.fail(0);
        redo.sync().unwrap();
        let left = disk.faulty.after_crash(&Survival::None);
        assert_eq!(versions(&*redo), versions(&left));
        assert_eq!(versions(&left)[..12], [2, 2, 2, 2, 2, 2, 3, 2, 4, 2, 5, 1]);
    });
}

#[test]
fn a_write_without_room_to_be_remembered_syncs_or_fails() {
    simulate(1, || {
        let Parts { disk, redo } = parts(8 << 10);
        for at in 0..20 {
            redo.write(at * 4096, &bytes(1, 8)).unwrap();
        }
        redo.sync().unwrap();
        disk.fail(1000);
        let written: Vec<bool> = (0..20).map(|at| redo.write(at * 4096, &bytes(2, 8)).is_ok()).collect();
        assert!(written[0] && !written[19], "{written:?}");
        let found = versions(&*redo);
        for (at, written) in written.iter().enumerate() {
            assert_eq!(found[at * 8], if *written { 2 } else { 1 }, "block {at}");
        }
        disk.fail(0);
        redo.write(0, &bytes(3, 8)).unwrap();
    });
}

#[test]
fn a_sync_is_due_when_half_of_the_room_is_used() {
    simulate(1, || {
        let Parts { disk, redo } = parts(32 << 10);
        let mut due = Vec::new();
        for at in 0..5 {
            redo.write(at * 4096, &bytes(1, 8)).unwrap();
            due.push(redo.is_sync_due());
        }
        assert_eq!(due, [false, false, false, true, true]);
        redo.sync().unwrap();
        assert!(!redo.is_sync_due());
        assert_eq!(versions(&*redo), versions(&disk.faulty.after_crash(&Survival::None)));
    });
}

/// Writes as the device does it, or as a caller that carries the write out and is slow.
fn write(redo: &dyn Device, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
    let pause = || sleep(Duration::from_nanos(random() % 3000));
    if random().is_multiple_of(2) || redo.begin_write(offset, data.len()).is_none() {
        return redo.write(offset, data);
    }
    pause();
    let written = redo.write_begun(offset, data);
    pause();
    redo.end_write(offset, data, written.is_ok()).and(written)
}

/// Tasks write sectors of their own, sync and read; syncs fail now and then, and power fails at the end.
#[test]
fn what_a_good_sync_was_for_survives_all_failures() {
    for seed in 0..60 {
        simulate(seed, move || {
            let Parts { disk, redo } = parts([16 << 10, 1 << 20][seed as usize % 2]);
            let durable: Arc<Vec<AtomicU64>> = Arc::new((0..SECTORS).map(|_| AtomicU64::new(0)).collect());
            let newest = Arc::new(Mutex::new(vec![0; SECTORS]));
            let tasks: Vec<_> = (0..4)
                .map(|task| {
                    let (redo, durable, newest) = (redo.clone(), durable.clone(), newest.clone());
                    spawn("writer", move || {
                        let mut rng = Rng::new(seed * 4 + task);
                        let mut mine = vec![0; SECTORS];
                        for number in 1..120 {
                            // Every fourth run of five sectors is this task's.
                            let run = rng.below(20) * 4 + task;
                            let (first, count) = (run as usize * 5, 1 + rng.below(5) as usize);
                            let place = (first * SECTOR) as u64;
                            match rng.below(6) {
                                0 => {
                                    let before = mine.clone();
                                    if redo.sync().is_ok() {
                                        for (durable, version) in durable.iter().zip(before) {
                                            durable.fetch_max(version, SeqCst);
                                        }
                                    }
                                }
                                1 => {
                                    let mut found = vec![0; SECTOR];
                                    redo.read(place, &mut found).unwrap();
                                    assert_eq!(found, bytes(mine[first], 1), "seed {seed}");
                                }
                                _ => {
                                    let written = write(&redo, place, &bytes(number, count));
                                    if written.is_ok() {
                                        mine[first..first + count].fill(number);
                                    }
                                    newest.lock().unwrap()[first..first + count].fill(number);
                                }
                            }
                            sleep(Duration::from_nanos(random() % 3000));
                        }
                    })
                })
                .collect();
            for _ in 0..6 {
                sleep(Duration::from_nanos(random() % 60_000));
                disk.fail(random() % 6);
            }
            tasks.into_iter().for_each(|task| task.join());
            let left = versions(&disk.faulty.after_crash(&Survival::None));
            for (sector, found) in left.iter().enumerate() {
                let (least, most) = (durable[sector].load(SeqCst), newest.lock().unwrap()[sector]);
                assert!(
                    (least..=most).contains(found),
                    "seed {seed}: sector {sector} at {found}, not {least} to {most}"
                );
            }
            assert!(redo.failed_syncs() > 0);
        });
    }
}

#[test]
fn a_discarded_range_does_not_come_back() {
    simulate(1, || {
        let Parts { disk, redo } = parts(1 << 20);
        redo.write(0, &bytes(1, SECTORS)).unwrap();
        redo.sync().unwrap();
        redo.write(0, &bytes(2, 24)).unwrap();
        redo.discard(4 * SECTOR as u64, 12 * SECTOR as u64).unwrap();
        disk.faulty.write(4 * SECTOR as u64, &bytes(0, 12)).unwrap();
        disk.fail(1);
        redo.sync().unwrap();
        let left = versions(&disk.faulty.after_crash(&Survival::None));
        assert!(left[..4].iter().chain(&left[16..24]).all(|version| *version == 2), "{left:?}");
        assert!(left[4..16].iter().all(|version| *version != 2), "{left:?}");
    });
}
