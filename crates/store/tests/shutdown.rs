//! What a store does when it is closed.

mod support;

use entresol_runtime::sim::Outcome;
use entresol_store::{Options, Store};
use std::sync::Arc;
use std::time::Duration;
use support::{Kind, World, simulate, small};

/// A checkpoint that was under way, or was waiting for its turn, must not write to devices that the caller
/// has back.
#[test]
fn nothing_is_written_after_a_shutdown() {
    for seed in 0..200 {
        let outcome = simulate(seed, move || {
            let world = World::new(Kind::Flash, 4 << 20, 2_000);
            let interval = Some(Duration::from_micros(1 + seed % 40));
            let options = Options { checkpoint_interval: interval, ..small() };
            let store = Store::create(world.parts(), options).unwrap();
            let table = store.create_table("t").unwrap();
            let mut txn = store.begin();
            txn.insert(table, b"a", b"1").unwrap();
            txn.commit().unwrap();
            entresol_runtime::sleep(Duration::from_nanos(entresol_runtime::random() % 100_000));
            store.shutdown().unwrap();
            let after = world.fuse.operations();
            entresol_runtime::sleep(Duration::from_millis(10));
            assert_eq!(world.fuse.operations(), after, "seed {seed}");
        });
        assert!(matches!(outcome, Outcome::Finished(())), "seed {seed}: {outcome:?}");
    }
}

/// A checkpoint that was under way when the last handle was dropped writes as long as it holds the devices,
/// and no longer: who opens them again must know when.
#[test]
fn a_dropped_store_holds_its_devices_until_nothing_is_written_any_more() {
    let mut went_on = 0;
    for seed in 0..200 {
        let outcome = simulate(seed, move || {
            let world = World::new(Kind::Flash, 4 << 20, 2_000);
            let held = Arc::strong_count(&world.log);
            let interval = Some(Duration::from_micros(1 + seed % 40));
            let options = Options { checkpoint_interval: interval, ..small() };
            let store = Store::create(world.parts(), options).unwrap();
            entresol_runtime::sleep(Duration::from_nanos(entresol_runtime::random() % 100_000));
            let before = world.fuse.operations();
            drop(store);
            while Arc::strong_count(&world.log) > held {
                entresol_runtime::sleep(Duration::from_nanos(100));
            }
            let after = world.fuse.operations();
            entresol_runtime::sleep(Duration::from_millis(10));
            assert_eq!(world.fuse.operations(), after, "seed {seed}");
            after - before
        });
        let Outcome::Finished(operations) = outcome else { panic!("seed {seed}: {outcome:?}") };
        went_on += u32::from(operations > 0);
    }
    assert!(went_on > 0, "no checkpoint was under way");
}
