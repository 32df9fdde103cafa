//! Every fault has its described effect, and a crash leaves only possible images.

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
    // The seeds give all of these, torn writes included, and nothing else.
    let seen: BTreeSet<_> = (0..200).map(|seed| after(Survival::Seed(seed))).collect();
    let legal: BTreeSet<_> = [1, 2].into_iter().flat_map(|a| [1, 2, 3].map(|b| (a, b))).collect();
    assert_eq!(seen, legal);
    // The living device is unchanged.
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

/// The timing model is outside, the faults are inside.
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

/// In a halted world a sleep returns at once. A write of a destructor must not be carried out then.
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

/// Whether the sectors from `first` on can be read, and what they begin with.
fn readable(device: &dyn Device, first: u64, count: u64) -> Vec<Option<u8>> {
    let mut data = [0; 512];
    (first..first + count).map(|at| device.read(at * 512, &mut data).ok().map(|()| data[0])).collect()
}

#[test]
fn an_unreadable_sector_fails_the_requests_that_touch_it_until_it_is_written() {
    let memory = MemoryDevice::new("memory", CAPACITY);
    memory.write(0, &[1; 2048]).unwrap();
    memory.mark_unreadable(512, 1);
    let device = FaultyDevice::new("device", memory, Arc::new(FaultPlan::none()));
    assert_eq!(readable(&device, 0, 4), [Some(1), None, Some(1), Some(1)]);
    let (mut whole, mut other) = ([0; 2048], [0; 512]);
    let error = device
        .run(&mut [
            Io::Read { offset: 0, buffer: &mut whole },
            Io::Write { offset: 4096, data: &[5; 512] },
            Io::Read { offset: 1024, buffer: &mut other },
        ])
        .unwrap_err();
    assert!(error.is_unreadable(), "{error}");
    assert_eq!(other, [1; 512], "the other requests of the batch are carried out");
    assert_eq!(sector(&device, 8), [5; 512]);
    // An unreadable sector survives power failures, copies and images.
    let image = MemoryDevice::over("image", device.after_crash(&Survival::All).freeze());
    assert_eq!(image.fork("fork").unreadable_sectors().into_iter().collect::<Vec<_>>(), [1]);
    assert_eq!(readable(&image, 0, 3), [Some(1), None, Some(1)]);
    let killed = device.after_kill(Arc::new(FaultPlan::none()));
    assert_eq!(readable(&killed, 1, 1), [None]);
    // Once written, it can be read, from memory and from the medium.
    device.write(512, &[7; 512]).unwrap();
    assert_eq!(readable(&device, 0, 3), [Some(1), Some(7), Some(1)]);
    assert_eq!(readable(&device.after_crash(&Survival::None), 1, 1), [None]);
    device.sync().unwrap();
    assert_eq!(readable(&device.after_crash(&Survival::None), 1, 1), [Some(7)]);
}

#[test]
fn torn_sectors_are_old_new_or_unreadable() {
    let device = faulty(FaultPlan::none());
    device.write(0, &[1; 2048]).unwrap();
    device.sync().unwrap();
    device.write(512, &[2; 1024]).unwrap();
    let seen: BTreeSet<_> =
        (0..400).map(|seed| readable(&device.after_crash(&Survival::Torn(seed)), 0, 4)).collect();
    let fates = [Some(1), Some(2), None];
    let legal: BTreeSet<_> =
        fates.iter().flat_map(|a| fates.map(|b| vec![Some(1), *a, b, Some(1)])).collect();
    assert_eq!(seen, legal);
}

#[test]
fn a_medium_of_larger_units_may_lose_the_neighbours_of_what_was_written() {
    let usual = |sector, physical| {
        let device = faulty(FaultPlan::none()).with_sectors(sector, physical);
        let geometry = device.geometry();
        assert_eq!((geometry.sector_bytes, geometry.physical_bytes), (sector, physical));
        device
    };
    let neighbours_lost = |device: &FaultyDevice| {
        device.write(0, &[1; 8192]).unwrap();
        device.sync().unwrap();
        device.write(4096, &[2; 512]).unwrap();
        (0..200).any(|seed| readable(&device.after_crash(&Survival::Torn(seed)), 9, 7).contains(&None))
    };
    assert!(neighbours_lost(&usual(512, 4096)));
    assert!(!neighbours_lost(&usual(512, 512)));
    // A whole unit is written without effect on its neighbours. Of sectors of 4096 bytes each survives or
    // not.
    let device = usual(4096, 4096);
    assert!(matches!(device.write(512, &[2; 512]), Err(DeviceError::Misaligned { sector: 4096, .. })));
    device.write(4096, &[2; 8192]).unwrap();
    assert_eq!(device.unsynced(), (1, 2));
    for seed in 0..50 {
        let image = device.after_crash(&Survival::Torn(seed));
        let units = readable(&image, 8, 16);
        assert!(units.chunks(8).all(|unit| unit.iter().all(|sector| sector == &unit[0])), "{units:?}");
        assert_eq!(readable(&image, 0, 8), [Some(0); 8]);
    }
}

#[test]
fn a_failed_sync_may_leave_what_can_be_read_and_never_becomes_durable() {
    let device = faulty(once(3, Fault::SyncErrorKeepingPages));
    device.write(0, &[1; 512]).unwrap();
    device.write(512, &[1; 512]).unwrap();
    assert!(device.sync().is_err());
    device.write(512, &[2; 512]).unwrap();
    device.sync().unwrap();
    assert_eq!(readable(&device, 0, 2), [Some(1), Some(2)], "it can be read");
    assert_eq!(readable(&device.after_crash(&Survival::All), 0, 2), [Some(0), Some(2)], "and is not durable");
    let killed = device.after_kill(Arc::new(FaultPlan::none()));
    assert_eq!(readable(&killed, 0, 2), [Some(1), Some(2)]);
    killed.drop_cached().unwrap();
    assert_eq!(readable(&killed, 0, 2), [Some(0), Some(2)]);
}

#[test]
fn requests_of_a_batch_overlap_if_the_plan_says_so() {
    let outcomes = |plan: fn(u64) -> FaultPlan| -> BTreeSet<(u8, u8)> {
        let outcome = |seed| {
            let device = faulty(plan(seed));
            let mut found = [0; 512];
            let mut batch = [
                Io::Write { offset: 0, data: &[1; 512] },
                Io::Read { offset: 0, buffer: &mut found },
                Io::Write { offset: 0, data: &[2; 512] },
            ];
            device.run(&mut batch).unwrap();
            (found[0], sector(&device, 0)[0])
        };
        (0..60).map(outcome).collect()
    };
    assert_eq!(outcomes(|seed| FaultPlan::new(seed, Vec::new())), [(1, 2)].into());
    let all = outcomes(|seed| FaultPlan::new(seed, Vec::new()).in_any_order());
    assert_eq!(all, [(0, 1), (0, 2), (1, 2), (1, 1), (2, 1), (2, 2)].into());
}

#[test]
fn a_device_that_was_cut_ends_there() {
    let device = faulty(FaultPlan::none()).with_capacity(4096);
    assert_eq!(device.geometry().capacity_bytes, 4096);
    assert!(matches!(device.write(4096, &[1; 512]), Err(DeviceError::OutOfRange { capacity: 4096, .. })));
}
