//! Many clients on test devices, with a crash at any device operation, also during restarts.

mod support;

use entresol_store::{Options, Replacement, Store};
use std::time::Duration;
use support::bank::{Oracle, check, create, lives, run, seeds};
use support::{Kind, World, simulate};

fn options(seed: u64) -> Options {
    Options {
        frames: [64, 100, 400][seed as usize % 3],
        replacement: if (seed / 3).is_multiple_of(2) { Replacement::Lru } else { Replacement::Clock },
        checkpoint_interval: ((seed / 6).is_multiple_of(2)).then_some(Duration::from_millis(3)),
        full_page_writes: (seed / 12).is_multiple_of(2),
        ..Options::default()
    }
}

fn kind(seed: u64) -> Kind {
    if seed.is_multiple_of(2) { Kind::Disk } else { Kind::Flash }
}

#[test]
fn crashes_lose_nothing_and_show_nothing_uncommitted() {
    let (mut commits, seeds) = (0, seeds(32));
    for seed in seeds.clone() {
        let log_bytes = if seed / 2 % 2 == 0 { (1 << 20) + 8192 } else { 64 << 20 };
        commits += lives(World::new(kind(seed), log_bytes, 2000), &options(seed), seed, 8);
    }
    assert!(commits > 100 * (seeds.end - seeds.start), "only {commits} commits");
}

#[test]
fn a_life_without_crash_ends_as_the_oracle_says() {
    let mut deadlocks = 0;
    for seed in 0..12 {
        let oracle = Oracle::new();
        let world = World::new(kind(seed), 64 << 20, 2000);
        deadlocks += simulate(seed, || {
            let store = Store::create(world.parts(), options(seed)).unwrap();
            create(&store);
            run(&store, &oracle, seed, 30);
            check(&store, &oracle);
            let deadlocks = store.metrics().deadlocks;
            store.shutdown().unwrap();
            deadlocks
        })
        .unwrap();
    }
    assert!(deadlocks > 12, "only {deadlocks} deadlocks: the clients do not meet");
}

#[test]
fn threads_end_as_the_oracle_says() {
    for seed in 0..6 {
        let oracle = Oracle::new();
        let world = World::new(kind(seed), 64 << 20, 1);
        let store = Store::create(world.parts(), options(seed)).unwrap();
        create(&store);
        run(&store, &oracle, seed, 60);
        check(&store, &oracle);
        store.shutdown().unwrap();
    }
}
