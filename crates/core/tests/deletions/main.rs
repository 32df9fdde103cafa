//! All schedules of small cases of deletion (`src/deletion/README.md`): deleters, flushes, evictions, a
//! writer and a background task, cut into the steps of a driver, interleaved in every way. After each step a
//! crash must find what was promised, and no task may wait for ever.
//!
//! The tests of `Broken` break a rule for drivers, and must notice it. Bugs in the core are planted by `cargo
//! xtask mutants`.

/// The partition in a world's region.
macro_rules! partition {
    ($world:expr) => {
        Partition::attach($world.region.as_mut_bytes()).expect("the region holds a partition")
    };
}

mod background;
mod devices;
mod foreground;
mod tasks;
mod world;

use tasks::{Flushing, Task};
use world::{Broken, World, explore, page};

fn flush() -> Task {
    Task::Flusher { published: false, at: Flushing::SyncCallers }
}

/// Page 1 is dirty in the oldest group on flash, and a dequeue of it is due soon.
fn world(broken: Option<Broken>) -> (World, u32) {
    let mut world = World::new(broken);
    world.fill(&[(1, true), (2, false)]);
    let next = world.fill_up(10);
    world.flush_now();
    (world, next)
}

/// A page is replaced on disk while its group is dequeued, and the cache is flushed.
fn replaced(broken: Option<Broken>) -> World {
    let (mut world, next) = world(broken);
    world.delete_for(1, 2);
    world.add(flush());
    world.add(Task::Evictor { pages: vec![(page(next), 1, false)] });
    world
}

/// A page is replaced while its group is dequeued, and another page waits for the room that the dequeue
/// makes.
fn room(broken: Option<Broken>) -> World {
    let (mut world, next) = world(broken);
    world.fill_all(next);
    world.delete_for(1, 2);
    world.add(Task::Evictor { pages: vec![(page(5000), 1, false)] });
    world
}

/// A page is replaced that a flush meets in staging.
fn replaced_in_staging(broken: Option<Broken>) -> World {
    let mut world = World::new(broken);
    world.fill(&[(1, true), (2, false)]);
    world.flush_now();
    world.add(Task::Evictor { pages: vec![(page(1), 2, true)] });
    world.step(2).expect("there is room");
    world.add(flush());
    world.delete_for(1, 3);
    world
}

/// A group that was flushed with the record of a deletion is flushed again.
fn flushed_twice(broken: Option<Broken>) -> World {
    let mut world = World::new(broken);
    world.fill(&[(1, true), (2, false), (3, false)]);
    world.flush_now();
    world.delete_dead(1, 1, 64);
    world.add(flush());
    world.run_all();
    world.add(Task::Evictor { pages: vec![(page(4), 1, true)] });
    world.add(flush());
    world
}

/// A page is replaced whose group was flushed and is completed meanwhile.
fn replaced_when_flushed(broken: Option<Broken>) -> World {
    let mut world = World::new(broken);
    world.fill(&[(2, true), (3, false), (1, true)]);
    world.flush_now();
    world.delete_for(1, 2);
    world.add(Task::Evictor { pages: vec![(page(4), 1, true)] });
    world
}

/// Two versions of a page are in staging.
fn staged_twice(broken: Option<Broken>) -> World {
    let mut world = World::new(broken);
    world.add(Task::Evictor { pages: vec![(page(1), 1, true), (page(1), 2, true)] });
    world.step(2).expect("there is room");
    world.step(2).expect("there is room");
    world.delete_for(1, 3);
    world.add(flush());
    world
}

/// A page that was deleted enters again, before the record of its deletion is written.
fn entered_again(broken: Option<Broken>) -> World {
    let mut world = World::new(broken);
    world.fill(&[(1, true), (2, false), (3, false)]);
    world.flush_now();
    world.delete_dead(1, 1, 64);
    world.run_all();
    world.add(Task::Evictor { pages: vec![(page(1), 2, true)] });
    world.add(flush());
    world
}

/// A range is deleted step by step, while the dequeue of the group with one of its pages gives that a second
/// chance.
fn long_range(broken: Option<Broken>) -> World {
    let (mut world, next) = world(broken);
    world.touch(1);
    world.delete_dead(0, next + 100, 13);
    world.add(Task::Evictor { pages: vec![(page(5000), 1, false), (page(5001), 1, false)] });
    world
}

/// A long range is deleted while pages of it are being written to their slots.
fn long_range_in_staging(broken: Option<Broken>) -> World {
    let mut world = World::new(broken);
    world.fill(&[(1, true), (2, false), (3, false)]);
    world.add(Task::Evictor { pages: vec![(page(4), 1, true)] });
    world.step(2).expect("there is room");
    world.delete_dead(0, 100, 5);
    world.add(flush());
    world
}

/// There is room for one more record, and two pages are replaced.
fn full(broken: Option<Broken>) -> World {
    let mut world = World::new(broken);
    world.fill(&[(1, false), (2, false)]);
    world.flush_now();
    world.fill_records(1, 10_000);
    world.delete_for(1, 2);
    world.delete_for(2, 2);
    world
}

/// A task has asked for room while there was none; by now later causes have taken what there was since.
fn full_again(broken: Option<Broken>) -> World {
    let mut world = World::new(broken);
    world.fill(&[(1, false), (2, false)]);
    world.flush_now();
    world.fill_records(0, 10_000);
    world.delete_for(1, 2);
    world.step(2).expect("it waits for room");
    world.write_records();
    world.fill_records(0, 10_000);
    world
}

/// A page is replaced while a checkpoint is made.
fn checkpointed(broken: Option<Broken>) -> World {
    let mut world = World::new(broken);
    world.fill(&[(1, true), (2, false)]);
    world.flush_now();
    world.delete_for(1, 2);
    world.add(Task::Flusher { published: true, at: Flushing::SyncCallers });
    world
}

/// A case: its name, and the world from which all schedules begin.
type Case = (&'static str, fn(Option<Broken>) -> World);

/// The small ones first.
const CASES: [Case; 12] = [
    ("full again", full_again),
    ("flushed twice", flushed_twice),
    ("entered again", entered_again),
    ("replaced when flushed", replaced_when_flushed),
    ("staged twice", staged_twice),
    ("full", full),
    ("room", room),
    ("replaced in staging", replaced_in_staging),
    ("checkpointed", checkpointed),
    ("long range", long_range),
    ("long range in staging", long_range_in_staging),
    ("replaced", replaced),
];

#[test]
fn every_schedule_keeps_what_was_promised() {
    for (name, case) in CASES {
        let states = explore(case(None)).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        println!("{name}: {states} states");
        assert!(states > 30, "{name}: {states} states");
    }
}

/// Of each rule that a driver may break, whether a case notices it.
#[test]
fn each_broken_rule_is_noticed() {
    let rules = [
        Broken::SettledIsNotTold,
        Broken::RecordNotRepeated,
        Broken::CauseEndsBeforeItsWrite,
        Broken::WriteBeforeTheDestage,
        Broken::FlushLeavesRecords,
        Broken::RecordedBeforeItsSync,
        Broken::SettledByAnEarlierSync,
    ];
    let mut missed = Vec::new();
    for rule in rules {
        let noticed =
            CASES.iter().find_map(|(name, case)| explore(case(Some(rule))).err().map(|f| (name, f)));
        match noticed {
            Some((name, fault)) => println!("{rule:?}, {name}: {}", fault.lines().next().unwrap_or("")),
            None => missed.push(rule),
        }
    }
    assert!(missed.is_empty(), "not noticed: {missed:?}");
}
