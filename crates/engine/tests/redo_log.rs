//! A disk of which syncs fail and lose writes, while its program is killed: the next program has all that was
//! acknowledged. After a power failure it has what was flushed, and later writes or not.

mod support;

use entresol_device::{Device, Fault, FaultPlan, FaultyDevice, MemoryDevice, Outage, RedoDevice, Survival};
use entresol_engine::{InPlaceDisk, RedoLog};
use entresol_format::fingerprint::LABEL_FILE_BYTES;
use entresol_format::label::LABEL_AREA_BYTES;
use entresol_runtime::{random, sleep, spawn};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::simulate;

const SECTOR: u64 = 512;
/// Sectors of the disk, of which each writer has a part.
const SECTORS: u64 = 4096;
const WRITERS: u64 = 3;
/// Remembered of the disk: less than is written in an outage.
const REMEMBERED: u64 = 512 << 10;

/// After a discard anything may be there.
const ANY: u64 = u64::MAX;

/// Of each sector: the versions that may be there now, the acknowledged one first; and those that may be
/// there after a power failure. 0: zeros.
#[derive(Clone)]
struct Sectors {
    now: Vec<Vec<u64>>,
    after_power: Vec<Vec<u64>>,
}

struct Machine {
    disk: Arc<FaultyDevice>,
    label: Arc<FaultyDevice>,
    plan: Arc<FaultPlan>,
}

impl Machine {
    fn of(disk: impl FnOnce(Arc<FaultPlan>) -> FaultyDevice, label: FaultyDevice) -> Self {
        let plan = Arc::new(FaultPlan::none());
        Self { disk: Arc::new(disk(plan.clone())), label: Arc::new(label), plan }
    }

    fn new() -> Self {
        let no_faults = || Arc::new(FaultPlan::none());
        let label = FaultyDevice::new("label", MemoryDevice::new("label", 16 << 20), no_faults());
        let disk = |plan| FaultyDevice::new("disk", MemoryDevice::new("disk", SECTORS * SECTOR), plan);
        Self::of(disk, label)
    }

    fn after_kill(&self) -> Self {
        Self::of(|plan| self.disk.after_kill(plan), self.label.after_kill(Arc::new(FaultPlan::none())))
    }

    fn after_power_failure(&self, survival: &Survival) -> Self {
        let left = |device: &FaultyDevice, plan| {
            FaultyDevice::new(device.name(), device.after_crash(survival), plan)
        };
        Self::of(|plan| left(&self.disk, plan), left(&self.label, Arc::new(FaultPlan::none())))
    }

    /// As the block door.
    fn devices(&self) -> (Arc<dyn Device>, Arc<dyn Device>) {
        let log = Arc::new(RedoLog::new(self.label.clone()));
        let disk = RedoDevice::remembering(self.disk.clone() as Arc<dyn Device>, REMEMBERED).kept_by(log);
        (Arc::new(disk), Arc::new(RedoDevice::new(self.label.clone() as Arc<dyn Device>)))
    }

    fn create(&self) -> Arc<InPlaceDisk> {
        let (disk, label) = self.devices();
        InPlaceDisk::create(disk, label, 4096).unwrap()
    }

    fn open(&self) -> (Arc<InPlaceDisk>, Option<String>) {
        let (disk, label) = self.devices();
        InPlaceDisk::open(disk, label).unwrap()
    }
}

fn fill(sector: u64, version: u64) -> Vec<u8> {
    if version == 0 { vec![0; 512] } else { [sector, version].map(u64::to_le_bytes).concat().repeat(32) }
}

/// Writes, zeroes or discards some sectors of this writer's part.
fn change(home: &InPlaceDisk, writer: u64, version: u64, sectors: &Mutex<Sectors>) {
    let count = 1 + random() % 24;
    let part = SECTORS / WRITERS;
    let first = writer * part + random() % (part - count);
    let range = first..first + count;
    let (offset, length) = (LABEL_AREA_BYTES + first * SECTOR, count * SECTOR);
    let kind = random() % 10;
    let version = [version, 0, ANY][(kind.max(7) - 7) as usize];
    {
        let mut sectors = sectors.lock().unwrap();
        for sector in range.clone() {
            sectors.now[sector as usize].push(version);
            sectors.after_power[sector as usize].push(version);
        }
    }
    let done = match kind {
        0..8 => {
            let data: Vec<u8> = range.clone().flat_map(|sector| fill(sector, version)).collect();
            home.write(offset, &data)
        }
        8 => home.zero(offset, length, false),
        _ => home.discard(offset, length),
    };
    if done.is_ok() {
        let mut sectors = sectors.lock().unwrap();
        range.for_each(|sector| sectors.now[sector as usize] = vec![version]);
    }
}

fn flush(home: &InPlaceDisk, sectors: &Mutex<Sectors>) {
    let before = sectors.lock().unwrap().clone();
    if home.sync().is_ok() {
        let after = &mut sectors.lock().unwrap().after_power;
        for ((after, now), had) in after.iter_mut().zip(before.now).zip(before.after_power) {
            // As when the flush began, or what was written since.
            let had = had.len().min(after.len());
            *after = now.into_iter().chain(after.drain(had..)).collect();
        }
    }
}

fn check(home: &InPlaceDisk, legal: &[Vec<u64>], what: &str) {
    for (sector, legal) in legal.iter().enumerate() {
        let mut found = vec![0; SECTOR as usize];
        home.read(LABEL_AREA_BYTES + sector as u64 * SECTOR, &mut found).unwrap();
        let is = |version: &u64| *version == ANY || found == fill(sector as u64, *version);
        let is_legal = legal.iter().any(is);
        let number = u64::from_le_bytes(found[8..16].try_into().unwrap());
        assert!(is_legal, "{what}: sector {sector} has {number}, {legal:?} are legal");
    }
}

/// One life: writers, flushes, an outage, and the end of it at a random moment. Returns the machine as it is
/// then.
fn life(machine: Machine, home: Arc<InPlaceDisk>, sectors: &Arc<Mutex<Sectors>>, base: u64) -> Machine {
    let faults = [Fault::SyncErrorLosingWrites, Fault::SyncErrorKeepingPages, Fault::SyncError];
    let fault = faults[(random() % 3) as usize];
    let lasts = Duration::from_millis(1 + random() % 40);
    machine.plan.plan_outage(Outage {
        at: random() % 200,
        lasts,
        device: "disk".to_owned(),
        faults: vec![fault],
    });
    let tasks: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (home, sectors) = (home.clone(), sectors.clone());
            spawn("writer", move || {
                for number in 0..30 + random() % 60 {
                    change(&home, writer, base + number * WRITERS + writer, &sectors);
                    sleep(Duration::from_micros(random() % 800));
                    if random().is_multiple_of(8) {
                        flush(&home, &sectors);
                    }
                }
            })
        })
        .collect();
    tasks.into_iter().for_each(|task| task.join());
    machine
}

#[test]
fn a_killed_program_loses_no_acknowledged_write() {
    let mut redone = 0;
    for seed in 0..60 {
        let told = Arc::new(Mutex::new(0));
        let tells = told.clone();
        simulate(seed, move || {
            let mut machine = Machine::new();
            let blank = vec![vec![0]; SECTORS as usize];
            let sectors = Arc::new(Mutex::new(Sectors { now: blank.clone(), after_power: blank }));
            let mut home = machine.create();
            for round in 0..3 {
                machine = life(machine, home, &sectors, (round + 1) * 10_000);
                let killed = machine.after_kill();
                let (opened, notice) = killed.open();
                *tells.lock().unwrap() +=
                    u32::from(notice.is_some_and(|notice| notice.contains("carried out again")));
                check(&opened, &sectors.lock().unwrap().now, &format!("seed {seed}, killed"));
                // The first flush of the new program is worth what it says.
                opened.sync().unwrap();
                let left = killed.after_power_failure(&Survival::None);
                check(&left.open().0, &sectors.lock().unwrap().now, &format!("seed {seed}, then power"));
                let mut sectors = sectors.lock().unwrap();
                sectors.after_power = sectors.now.clone();
                (machine, home) = (killed, opened);
            }
        });
        redone += *told.lock().unwrap();
    }
    assert!(redone > 20, "{redone} programs were killed with writes that could not be synced");
}

#[test]
fn a_power_failure_loses_nothing_that_was_flushed() {
    for seed in 0..200 {
        simulate(1000 + seed, move || {
            let machine = Machine::new();
            let blank = vec![vec![0]; SECTORS as usize];
            let sectors = Arc::new(Mutex::new(Sectors { now: blank.clone(), after_power: blank }));
            let home = machine.create();
            let machine = life(machine, home, &sectors, 10_000);
            for survival in [Survival::None, Survival::All, Survival::Seed(seed)] {
                let left = machine.after_power_failure(&survival);
                let what = format!("seed {seed}, {survival:?}");
                check(&left.open().0, &sectors.lock().unwrap().after_power, &what);
            }
        });
    }
}

/// A label file is short again when the disk works again.
#[test]
fn a_label_file_has_room_for_it_while_it_is_needed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("label");
    std::fs::File::create(&path).unwrap().set_len(LABEL_FILE_BYTES).unwrap();
    let open =
        || entresol_engine::open_device(&path, entresol_engine::FileOptions::existing()).unwrap().device;
    let length = || std::fs::metadata(&path).unwrap().len();
    let plan = Arc::new(FaultPlan::none());
    let disk = FaultyDevice::new("disk", MemoryDevice::new("disk", SECTORS * SECTOR), plan.clone());
    let label: Arc<dyn Device> = open();
    let disk =
        RedoDevice::new(Arc::new(disk) as Arc<dyn Device>).kept_by(Arc::new(RedoLog::new(label.clone())));
    let home = InPlaceDisk::create(Arc::new(disk), label, 4096).unwrap();
    let at = LABEL_AREA_BYTES + (1 << 20);
    home.write(at, &[7; 4096]).unwrap();
    plan.plan_outage(Outage {
        at: 0,
        lasts: Duration::from_secs(1000),
        device: "disk".to_owned(),
        faults: vec![Fault::SyncErrorLosingWrites],
    });
    home.sync().unwrap_err();
    home.write(at, &[8; 4096]).unwrap();
    assert!(length() > LABEL_FILE_BYTES);
    plan.end_outage();
    home.sync().unwrap();
    assert_eq!(length(), LABEL_FILE_BYTES);
}

/// A label file that has no room for all that is to be kept: nothing of it comes back later over newer
/// writes.
#[test]
fn what_could_not_be_kept_does_not_come_back() {
    simulate(1, || {
        let no_faults = || Arc::new(FaultPlan::none());
        // Room for a few entries.
        let label = MemoryDevice::new("label", LABEL_FILE_BYTES + 4096 + 6 * 8192);
        let disk = |plan| FaultyDevice::new("disk", MemoryDevice::new("disk", SECTORS * SECTOR), plan);
        let machine = Machine::of(disk, FaultyDevice::new("label", label, no_faults()));
        let home = machine.create();
        let write = |version: u64| {
            for block in 40..60 {
                let sectors = block * 8..(block + 1) * 8;
                let data: Vec<u8> = sectors.flat_map(|sector| fill(sector, version)).collect();
                home.write(LABEL_AREA_BYTES + block * 4096, &data).unwrap();
            }
        };
        write(1);
        machine.plan.plan_outage(Outage {
            at: 0,
            lasts: Duration::from_secs(1000),
            device: "disk".to_owned(),
            faults: vec![Fault::SyncErrorLosingWrites],
        });
        home.sync().unwrap_err();
        machine.plan.end_outage();
        write(2);
        home.sync().unwrap();
        for left in [machine.after_kill(), machine.after_power_failure(&Survival::None)] {
            let (home, notice) = left.open();
            assert_eq!(notice, None);
            for sector in 320..480 {
                let mut found = vec![0; SECTOR as usize];
                home.read(LABEL_AREA_BYTES + sector * SECTOR, &mut found).unwrap();
                assert!(found == fill(sector, 2), "sector {sector}");
            }
        }
    });
}
