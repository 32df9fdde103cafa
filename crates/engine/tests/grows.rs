//! A disk in place that grows while it is written: after a power failure at any time its fingerprint fits it.

mod support;

use entresol_device::{
    Counters, Device, DeviceError, Fault, FaultPlan, FaultyDevice, Geometry, Injection, Io, MemoryDevice,
    Survival,
};
use entresol_engine::InPlaceDisk;
use entresol_format::fingerprint::LABEL_FILE_BYTES;
use entresol_format::label::LABEL_AREA_BYTES;
use entresol_runtime::rng::Rng;
use entresol_runtime::sim::{Outcome, SimConfig, Simulation};
use entresol_runtime::{random, sleep, spawn};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use support::PAGE;

const SECTOR_BYTES: u64 = 512;
const SMALL: u64 = 4 << 20;
const LARGE: u64 = 8 << 20;
const WRITERS: u64 = 3;
const WRITES: u64 = 60;
/// Longest time of a request, on either side of the moment at which it happens, in nanoseconds.
const LATENCY: u64 = 50_000;

/// A device that shows so many bytes, and whose requests take a random time.
struct Shown<D>(D, Arc<AtomicU64>);

fn wait() {
    sleep(Duration::from_nanos(random() % LATENCY));
}

impl<D: Device> Device for Shown<D> {
    fn geometry(&self) -> Geometry {
        Geometry { capacity_bytes: self.1.load(SeqCst), ..self.0.geometry() }
    }
    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        wait();
        let done = self.0.run(batch);
        wait();
        done
    }
    fn sync(&self) -> Result<(), DeviceError> {
        wait();
        self.0.sync()
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.0.discard(offset, length)
    }
    fn zero(&self, offset: u64, length: u64, may_punch: bool) -> Result<(), DeviceError> {
        wait();
        self.0.zero(offset, length, may_punch)
    }
    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.0.drop_cached()
    }
    fn counters(&self) -> Counters {
        self.0.counters()
    }
}

/// Writes and zeros anywhere in `home`, a sector or a few at a time, until its device fails.
fn write_some(home: &InPlaceDisk) {
    for _ in 0..WRITES {
        let sectors = (home.geometry().capacity_bytes - LABEL_AREA_BYTES) / SECTOR_BYTES;
        let (first, count) = (random() % sectors, 1 + random() % 8);
        let (at, length) =
            (LABEL_AREA_BYTES + first * SECTOR_BYTES, count.min(sectors - first) * SECTOR_BYTES);
        let done = match random() % 8 {
            0 => home.zero(at, length, false),
            1 => home.sync(),
            _ => home.write(at, &random().to_le_bytes().repeat(length as usize / 8)),
        };
        // A label file that fails is tried again.
        let _ = done;
    }
}

struct Life {
    shown: Arc<AtomicU64>,
    disk: Arc<FaultyDevice>,
    file: Arc<FaultyDevice>,
    plan: Arc<FaultPlan>,
}

impl Life {
    fn new() -> Self {
        let plan = Arc::new(FaultPlan::none());
        let faulty = |name: &str, bytes| {
            Arc::new(FaultyDevice::new(name, MemoryDevice::new(name, bytes), plan.clone()))
        };
        let (disk, file) = (faulty("disk", LARGE), faulty("label file", LABEL_FILE_BYTES));
        Self { shown: Arc::new(AtomicU64::new(SMALL)), disk, file, plan }
    }

    /// Grows while it is written. `fails`: the first write of the label file after that begins.
    fn live(&self, fails: bool) {
        let disk = Arc::new(Shown(self.disk.clone(), self.shown.clone()));
        let file = Arc::new(Shown(self.file.clone(), Arc::new(AtomicU64::new(LABEL_FILE_BYTES))));
        let Ok(home) = InPlaceDisk::create(disk, file, PAGE as u32) else { return };
        let writers: Vec<_> = (0..WRITERS)
            .map(|_| {
                let home = home.clone();
                spawn("writer", move || write_some(&home))
            })
            .collect();
        sleep(Duration::from_nanos(random() % (WRITES * LATENCY)));
        self.shown.store(LARGE, SeqCst);
        if fails {
            self.plan.inject(Injection {
                at: self.plan.operations() + 1,
                device: Some("label file".to_owned()),
                fault: Fault::WriteError,
                forever: false,
            });
        }
        // It may fail with the label file: the disk has grown all the same.
        let _ = home.grow();
        writers.into_iter().for_each(|writer| writer.join());
    }
}

#[test]
fn a_power_failure_while_a_disk_grows_is_no_foreign_write() {
    let (mut cut, mut grown, mut refused) = (0, 0, 0);
    for seed in 0..600 {
        let (life, mut rng) = (Life::new(), Rng::new(seed));
        life.plan.inject(Injection {
            at: 200 + rng.below(250),
            device: None,
            fault: Fault::Crash,
            forever: false,
        });
        let config = SimConfig { seed, random_order: true, ..SimConfig::default() };
        let lived = Simulation::new(config).run(|| life.live(seed % 3 == 0));
        cut += u64::from(matches!(lived, Outcome::Halted));
        assert!(matches!(lived, Outcome::Halted | Outcome::Finished(())), "seed {seed}: {lived:?}");
        for crash in 0..4 {
            let survival = Survival::Seed(rng.next_u64());
            let disk = Shown(life.disk.after_crash(&survival), life.shown.clone());
            let file: Arc<dyn Device> = Arc::new(life.file.after_crash(&survival));
            let config = SimConfig { seed: seed + crash, ..SimConfig::default() };
            let opened = Simulation::new(config).run(|| InPlaceDisk::open(Arc::new(disk), file)).unwrap();
            match opened.map(|(_, notice)| notice) {
                Ok(Some(notice)) => {
                    assert!(notice.contains("has grown"), "seed {seed}: {notice}");
                    grown += 1;
                }
                Ok(None) => {}
                // It was cut off while it was made.
                Err(error) => {
                    let why = error.to_string();
                    assert!(why.contains("no label") || why.contains("no fingerprint"), "seed {seed}: {why}");
                    refused += 1;
                }
            }
        }
    }
    println!("{cut} lives were cut off, {grown} opens found a disk that has grown, {refused} no label");
    assert!(cut > 300 && grown > 50 && refused < 100);
}
