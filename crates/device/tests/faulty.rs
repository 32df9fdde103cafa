//! Every fault does what it says, and a crash leaves exactly what it may leave.

use entresol_device::{
    Device, DeviceError, Fault, FaultPlan, FaultyDevice, Injection, Io, MemoryDevice, ModelDevice, Profile,
    Scale, Survival,
};
use entresol_runtime::sim::{Outcome, SimConfig, Simulation};
use entresol_runtime::{sleep, spawn};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const CAPACITY: u64 = 1 << 20;

fn faulty(plan: FaultPlan) -> FaultyDevice {
    FaultyDevice::new("device", MemoryDevice::new("memory", CAPACITY), Arc::new(plan))
}

fn once(at: u64, fault: Fault) -> FaultPlan {
    FaultPlan::new(1, vec![Injection { at, device: None, fault, forever: false }])
}

fn sector(device: &dyn Device, number: u64) -> [u8; 512] {
    let mut data = [0; 512];
    device.read(number * 512, &mut data).expect("the read succeeds");
    data
}

#[test]
fn only_synced_writes_are_sure_to_survive() {
    let device = faulty(FaultPlan::none());
    device.write(0, &[1; 1024]).unwrap();
    device.sync().unwrap();
    device.write(0, &[2; 1024]).unwrap();
    device.write(512, &[3; 512]).unwrap();
    assert_eq!(device.unsynced(), (2, 3));
    let after = |survival: Survival| {
        let image = device.after_crash(&survival);
        (sector(&image, 0)[0], sector(&image, 1)[0])
    };
    assert_eq!(after(Survival::None), (1, 1));
    assert_eq!(after(Survival::All), (2, 3));
    assert_eq!(after(Survival::Writes(vec![true])), (2, 2));
    assert_eq!(after(Survival::Writes(vec![false, true])), (1, 3));
    assert_eq!(after(Survival::Sectors(vec![false, true])), (1, 2));
    // All of these, torn writes included, and nothing else, come out of the seeds.
    let seen: BTreeSet<_> = (0..200).map(|seed| after(Survival::Seed(seed))).collect();
    let legal: BTreeSet<_> = [1, 2].into_iter().flat_map(|a| [1, 2, 3].map(|b| (a, b))).collect();
    assert_eq!(seen, legal);
    // The living device is as it was.
    assert_eq!((sector(&device, 0)[0], sector(&device, 1)[0]), (2, 3));
}

#[test]
fn a_crash_halts_the_world_at_each_operation_in_turn() {
    let mut states = 0;
    for operation in 1.. {
        let plan = Arc::new(FaultPlan::crash_at(operation));
        let devices = ["log", "data"]
            .map(|name| Arc::new(FaultyDevice::new(name, MemoryDevice::new(name, CAPACITY), plan.clone())));
        let [log, data] = devices.clone();
        // A write-ahead log: entry, sync, page.
        let outcome = Simulation::new(SimConfig::default()).run(move || {
            let background = data.clone();
            spawn("reader", move || {
                loop {
                    sector(background.as_ref(), 9);
                    sleep(Duration::from_micros(3));
                }
            });
            for round in 1..=5u8 {
                log.write(u64::from(round) * 512, &[round; 512]).expect("no error but the crash");
                sleep(Duration::from_micros(1));
                log.sync().expect("no error but the crash");
                sleep(Duration::from_micros(1));
                data.write(0, &[round; 1024]).expect("no error but the crash");
            }
        });
        if outcome == Outcome::Finished(()) {
            assert!(!plan.has_crashed());
            break;
        }
        assert_eq!(outcome, Outcome::Halted);
        assert!(plan.has_crashed() && plan.operations() == operation);
        let [log, data] = devices;
        assert!(
            matches!(data.read(0, &mut [0; 512]), Err(DeviceError::Dead { .. })),
            "a device without power answers"
        );
        for seed in 0..20 {
            states += 1;
            let (log, data) =
                (log.after_crash(&Survival::Seed(seed)), data.after_crash(&Survival::Seed(!seed)));
            let logged = (1..=5).take_while(|&round| sector(&log, round)[0] == round as u8).count() as u8;
            for number in 0..2 {
                let found = sector(&data, number)[0];
                assert!(found <= logged, "the page is at {found}, the log ends at {logged}");
            }
        }
    }
    assert!(states > 15 * 20, "only {states} states were looked at");
}

#[test]
fn requests_after_the_crash_in_the_same_batch_may_survive_too() {
    let device = Arc::new(faulty(FaultPlan::crash_at(2)));
    let used = device.clone();
    let outcome = Simulation::new(SimConfig::default()).run(move || {
        let pages = [[1; 512], [2; 512], [3; 512]];
        let mut batch: Vec<_> =
            pages.iter().enumerate().map(|(at, data)| Io::Write { offset: at as u64 * 512, data }).collect();
        used.run(&mut batch)
    });
    assert_eq!(outcome, Outcome::Halted);
    assert_eq!(device.unsynced(), (3, 3));
    let image = device.after_crash(&Survival::Writes(vec![false, false, true]));
    assert_eq!([0, 1, 2].map(|number| sector(&image, number)[0]), [0, 0, 3]);
}

#[test]
fn errors_strike_once_or_for_ever_and_only_where_they_should() {
    let device = faulty(once(2, Fault::ReadError));
    device.write(0, &[5; 512]).unwrap();
    device.write(512, &[6; 512]).unwrap();
    assert!(matches!(device.read(0, &mut [0; 512]), Err(DeviceError::Io { operation: "read", .. })));
    assert_eq!(sector(&device, 0), [5; 512]);

    let device = faulty(FaultPlan::new(
        1,
        vec![Injection { at: 3, device: Some("device".into()), fault: Fault::NoSpace, forever: true }],
    ));
    for at in 0..2 {
        device.write(at * 512, &[1; 512]).unwrap();
    }
    for at in 2..9 {
        let error = device.write(at * 512, &[1; 512]).unwrap_err();
        assert!(error.to_string().contains("no space"), "{error}");
        assert_eq!(sector(&device, at), [0; 512], "a failed write wrote");
    }

    let device = faulty(FaultPlan::new(
        1,
        vec![Injection { at: 1, device: Some("other".into()), fault: Fault::Death, forever: true }],
    ));
    device.write(0, &[1; 512]).unwrap();

    let device = faulty(once(2, Fault::Death));
    device.write(0, &[1; 512]).unwrap();
    assert!(matches!(device.sync(), Err(DeviceError::Dead { .. })));
    assert!(matches!(device.read(0, &mut [0; 512]), Err(DeviceError::Dead { .. })));
}

#[test]
fn syncs_fail_lie_and_lose() {
    for (fault, live, durable, is_error) in [
        (Fault::SyncError, 1, 0, true),
        (Fault::SyncErrorLosingWrites, 0, 0, true),
        (Fault::SyncLies, 1, 0, false),
    ] {
        let device = faulty(once(1, fault));
        device.write(0, &[1; 512]).unwrap();
        assert_eq!(device.sync().is_err(), is_error, "{fault:?}");
        assert_eq!(sector(&device, 0)[0], live, "{fault:?}");
        assert_eq!(sector(&device.after_crash(&Survival::None), 0)[0], durable, "{fault:?}");
        device.sync().unwrap();
        assert_eq!(sector(&device.after_crash(&Survival::None), 0)[0], live, "{fault:?}: the next sync");
    }
}

#[test]
fn writes_get_lost_misplaced_and_doubled() {
    let written = |fault| {
        let device = faulty(once(2, fault));
        device.write(0, &[1; 512]).unwrap();
        device.write(0, &[7; 512]).unwrap();
        (0..CAPACITY / 512).filter(|&number| sector(&device, number) == [7; 512]).collect::<Vec<_>>()
    };
    assert_eq!(written(Fault::LostWrite), []);
    let misplaced = written(Fault::MisdirectedWrite);
    assert!(misplaced.len() == 1 && misplaced[0] != 0, "{misplaced:?}");
    let doubled = written(Fault::DuplicatedWrite);
    assert!(doubled.len() == 2 && doubled[0] == 0, "{doubled:?}");
}

#[test]
fn one_bit_rots_for_good() {
    let device = faulty(once(2, Fault::BitRot));
    device.write(4096, &[0xFF; 4096]).unwrap();
    let mut page = [0; 4096];
    for _ in 0..3 {
        device.read(4096, &mut page).unwrap();
        assert_eq!(page.iter().map(|byte| byte.count_zeros()).sum::<u32>(), 1);
    }
    device.write(4096, &[0xFF; 4096]).unwrap();
    device.read(4096, &mut page).unwrap();
    assert_eq!(page, [0xFF; 4096]);
}

#[test]
fn a_random_plan_is_its_seed() {
    let run = |seed| {
        let device =
            faulty(FaultPlan::random(seed, 50, &[Fault::WriteError, Fault::MisdirectedWrite, Fault::BitRot]));
        (0..100u64)
            .map(|round| {
                let written = device.write(round % 16 * 512, &[round as u8; 512]).is_ok();
                (written, sector(&device, round % 16))
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(run(4), run(4));
    assert_ne!(run(4), run(5));
}

/// Timing outside, faults inside.
#[test]
fn a_modelled_device_can_be_faulty() {
    let plan = Arc::new(FaultPlan::crash_at(20));
    let inside = Arc::new(FaultyDevice::new("ssd", MemoryDevice::new("memory", CAPACITY), plan));
    let profile = Profile::named("mlc").unwrap();
    let device: ModelDevice<Arc<FaultyDevice>> = profile.build(inside.clone(), Scale::FULL);
    let outcome = Simulation::new(SimConfig::default()).run(move || {
        for number in 0..100u64 {
            device.write(number * 512, &[1; 512]).unwrap();
        }
    });
    assert_eq!(outcome, Outcome::Halted);
    assert_eq!(inside.unsynced().0, 20);
}

/// In a dying world a sleep returns at once: that must not make a write of a destructor happen.
#[test]
fn a_dying_task_writes_nothing_to_a_modelled_device() {
    struct Flushes(Arc<ModelDevice<Arc<MemoryDevice>>>);
    impl Drop for Flushes {
        fn drop(&mut self) {
            assert!(matches!(self.0.write(0, &[1; 4096]), Err(DeviceError::Dead { .. })));
            assert!(matches!(self.0.sync(), Err(DeviceError::Dead { .. })));
            assert!(matches!(self.0.discard(4096, 4096), Err(DeviceError::Dead { .. })));
        }
    }
    let memory = Arc::new(MemoryDevice::new("memory", CAPACITY));
    memory.write(4096, &[2; 4096]).unwrap();
    let device = Arc::new(Profile::named("mlc").unwrap().build(memory.clone(), Scale::FULL));
    let outcome: Outcome<()> = Simulation::new(SimConfig::default()).run(move || {
        let _flushes = Flushes(device);
        entresol_runtime::sim::halt()
    });
    assert_eq!(outcome, Outcome::Halted);
    assert_eq!((sector(memory.as_ref(), 0)[0], sector(memory.as_ref(), 8)[0]), (0, 2));
}
