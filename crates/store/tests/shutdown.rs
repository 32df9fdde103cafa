//! What a store does when it is closed.

mod support;

use entresol_runtime::sim::Outcome;
use entresol_store::{Options, Store};
use std::time::Duration;
use support::{Kind, World, simulate, small};

/// A checkpoint that was under way, or was waiting for its turn, must not write to devices that the caller has back.
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
