//! A crate that forbids unsafe code uses everything: plans, segments, structures, latches, bytes, seats.
#![forbid(unsafe_code)]

use entresol_runtime::sync::Rank;
use entresol_shm::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use entresol_shm::{Areas, Epoch, Fronts, Gone, Guarded, Latch, Plan, Segment, Shareable, shared_struct};
use std::num::NonZeroU64;

shared_struct! {
    /// What all processes see.
    #[derive(Debug, Default)]
    pub struct Board {
        state: AtomicU32,
        pub(crate) hits: [AtomicU64; 3],
        changed: Epoch,
        latch: Latch,
    }

    struct Wider {
        board: Board,
        more: AtomicU64,
    }
}

const _: () = assert!(size_of::<Board>() == 40 && size_of::<Wider>() == 48);

/// A plan with a part of each kind.
struct Parts {
    plan: Plan,
    board: entresol_shm::Part<Board>,
    wider: entresol_shm::SlicePart<Wider>,
    bytes: entresol_shm::BytesPart,
    region: entresol_shm::GuardedPart,
    frames: entresol_shm::GuardedPart,
    fronts: entresol_shm::FrontsPart,
}

fn parts() -> Parts {
    let mut plan = Plan::new(7);
    let areas = Areas { count: 3, words: 513, alignment: 4096 };
    Parts {
        board: plan.part("board"),
        wider: plan.slice("wider", 5),
        bytes: plan.bytes("bytes", 1001),
        region: plan.guarded("region", Rank::CachePartition, 100),
        frames: plan.guarded_areas("frames", Rank::SharedGroup, areas),
        fronts: plan.fronts("fronts", 2),
        plan,
    }
}

struct World {
    _directory: tempfile::TempDir,
    parts: Parts,
    /// One segment, mapped twice.
    here: Segment,
    there: Segment,
}

fn world() -> World {
    let directory = tempfile::tempdir().expect("a place for files");
    let path = directory.path().join("segment");
    let parts = parts();
    let here = Segment::create(&path, &parts.plan).expect("memory").publish().expect("a name");
    let there = Segment::attach(&path, &parts.plan).expect("it is published");
    World { _directory: directory, parts, here, there }
}

fn front(fronts: &Fronts) -> entresol_shm::Front {
    fronts.register().expect("a free seat")
}

#[test]
fn parts_do_not_overlap_and_are_aligned() {
    let parts = parts();
    let rows = parts.plan.rows();
    assert_eq!(rows[0].offset, 64, "behind the header");
    let mut ends = rows.iter().map(|row| row.offset + row.bytes);
    for (row, end) in rows[1..].iter().zip(ends.clone()) {
        assert!(row.offset >= end && row.offset % 64 == 0, "{row:?} begins before {end}");
    }
    assert_eq!(parts.plan.total_bytes(), ends.next_back());
    let bytes = |name| rows.iter().rfind(|row| row.name == name).expect("it is planned").bytes;
    assert_eq!((bytes("board"), bytes("wider"), bytes("bytes")), (40, 5 * 48, 1008));
    assert_eq!((bytes("frames"), bytes("fronts")), (3 * 8192, 3 * 64));
    let frames = rows.iter().rfind(|row| row.name == "frames").expect("it is planned");
    assert_eq!((frames.offset % 4096, parts.plan.alignment()), (0, 4096));
}

#[test]
fn what_is_written_through_one_mapping_is_read_through_the_other() {
    let World { parts, here, there, .. } = world();
    assert!(here.address() != there.address() && here.id() == there.id());
    here.part(&parts.board).hits[2].store(5, SeqCst);
    here.slice(&parts.wider)[4].board.hits[1].store(6, SeqCst);
    here.slice(&parts.wider)[0].more.store(7, SeqCst);
    assert_eq!(there.part(&parts.board).hits[2].load(SeqCst), 5);
    assert_eq!(there.slice(&parts.wider)[4].board.hits[1].load(SeqCst), 6);
    assert_eq!(there.slice(&parts.wider)[0].more.load(SeqCst), 7);

    let seen = there.part(&parts.board).changed.seen();
    here.part(&parts.board).changed.raise();
    assert!(there.part(&parts.board).changed.wait(seen, None));

    let (one, other) = (here.area(&parts.bytes), there.area(&parts.bytes));
    assert_eq!(one.length(), 1008);
    let page: Vec<u8> = (0..104).collect();
    one.copy_in(904, &page);
    let mut found = [0; 112];
    other.copy_out(896, &mut found);
    assert_eq!((&found[..8], &found[8..]), (&[0; 8][..], &page[..]));
}

#[test]
fn an_area_belongs_to_the_holder_of_its_latch() {
    let World { parts, here, there, .. } = world();
    let (fronts, back) = (here.fronts(&parts.fronts), there.fronts(&parts.fronts));
    let (one, other) = (front(&fronts), front(&fronts));
    let (mine, yours): (Guarded, Guarded) = (here.guarded(&parts.frames), there.guarded(&parts.frames));
    assert_eq!(mine.count(), 3);
    {
        let mut guard = mine.lock_area(2, one.holder()).expect("nobody poisons it");
        assert_eq!((guard.len(), guard.as_ptr().addr() % 4096), (513, 0));
        guard.fill(3);
        assert!(yours.try_lock_area(2, other.holder()).expect("nobody poisons it").is_none());
        assert_eq!((yours.holder(2), yours.holder(1)), (Some(one.holder()), None));
        assert!(yours.is_held_by(one.holder()) && !yours.is_held_by(other.holder()));
    }
    for (at, expected) in [(0, 0), (1, 0), (2, 3)] {
        let guard = yours.lock_area(at, other.holder()).expect("nobody poisons it");
        assert!(guard.iter().all(|word| *word == expected), "area {at}");
    }
    yours.poison();
    assert_eq!(mine.lock_area(2, one.holder()).err(), Some(Gone));
    assert!(here.guarded(&parts.region).lock(one.holder()).is_ok(), "another latch is left alone");
    drop((one, other));
    assert_eq!(back.count(), 0);
}

#[test]
fn a_holder_who_panics_poisons_the_latch() {
    let World { parts, here, .. } = world();
    let fronts = here.fronts(&parts.fronts);
    let (region, front) = (here.guarded(&parts.region), front(&fronts));
    let panicked = std::thread::scope(|scope| {
        let task = scope.spawn(|| {
            let _guard = region.lock(front.holder()).expect("nobody poisons it");
            panic!("in the middle of a change");
        });
        task.join().is_err()
    });
    assert!(panicked);
    assert_eq!(region.lock(front.holder()).err(), Some(Gone));
}

/// The holder may have ended with the back: no process is left that would find it.
#[test]
fn a_front_does_not_wait_for_a_latch_when_the_back_has_ended() {
    let World { parts, here, .. } = world();
    let fronts = here.fronts(&parts.fronts);
    let back = fronts.register_back().expect("nobody serves it");
    let (holder, waiter) = (front(&fronts), front(&fronts));
    let region = here.guarded(&parts.region).of_front(&fronts);
    let held = region.lock(holder.holder()).expect("nobody poisons it");
    let (waits, told) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| waits.send(region.lock(waiter.holder()).err()).expect("it is awaited"));
        let early = told.recv_timeout(std::time::Duration::from_millis(350));
        assert!(early.is_err(), "a latch that is held is waited for");
        drop(back);
        assert_eq!(told.recv(), Ok(Some(Gone)));
    });
    drop(held);
    assert!(region.lock(waiter.holder()).is_ok(), "who does not have to wait is not asked");
}

#[test]
fn seats_are_taken_left_and_given_again() {
    let World { parts, here, there, .. } = world();
    let (fronts, watching) = (here.fronts(&parts.fronts), there.fronts(&parts.fronts));
    let mut watch = watching.watch();
    assert!(!watching.has_back());
    let back = fronts.register_back().expect("nobody serves it");
    assert!(watching.has_back());
    let refused = fronts.register_back().expect_err("somebody serves it").to_string();
    assert!(refused.starts_with(&format!("process {} serves this segment", std::process::id())), "{refused}");
    let (one, other) = (front(&fronts), front(&fronts));
    assert!(one.holder() != other.holder() && one.holder() != back.holder());
    let refused = fronts.register().expect_err("both seats are taken").to_string();
    assert!(refused.starts_with("all 2 seats for processes are taken"), "{refused}");
    assert_eq!(watch.find_dead(), []);

    let holder = one.holder();
    drop(one);
    let again = front(&fronts);
    assert_eq!(again.holder(), holder);
    assert_eq!(watch.find_dead(), []);

    // One that leaves in the middle of something is found, and keeps its seat until then.
    again.holds(NonZeroU64::new(9).expect("not 0"));
    again.holds_nothing();
    again.holds(NonZeroU64::new(17).expect("not 0"));
    drop(again);
    assert!(fronts.register().is_err());
    let dead = watch.find_dead();
    assert_eq!((dead.len(), dead[0].holder, dead[0].holding), (1, holder, NonZeroU64::new(17)));
    assert_eq!(watch.find_dead(), dead);
    watch.vacate(&dead[0]);
    assert_eq!(watch.find_dead(), []);
    let last = front(&fronts);
    // The seat has another owner now: it is left alone.
    watch.vacate(&dead[0]);
    assert_eq!(watching.count(), 2);
    drop(last);
    assert_eq!(watching.count(), 1);
}

#[test]
fn the_shape_tells_structures_apart() {
    mod renamed {
        entresol_shm::shared_struct! {
            pub struct Board { state: super::AtomicU32, misses: [super::AtomicU64; 3],
                changed: super::Epoch, latch: super::Latch }
        }
    }
    mod longer {
        entresol_shm::shared_struct! {
            pub struct Board { state: super::AtomicU32, hits: [super::AtomicU64; 4],
                changed: super::Epoch, latch: super::Latch }
        }
    }
    assert_ne!(Board::SHAPE, renamed::Board::SHAPE);
    assert_ne!(Board::SHAPE, longer::Board::SHAPE);
    assert_ne!(<[AtomicU32; 2]>::SHAPE, <[AtomicU64; 2]>::SHAPE);
}

#[test]
#[should_panic(expected = "a part of another plan is asked for")]
fn a_part_of_another_plan_is_refused() {
    let world = world();
    let _ = world.here.part(&parts().board);
}

#[test]
#[should_panic(expected = "was planned later")]
fn a_part_that_was_planned_later_is_refused() {
    let mut world = world();
    let late = world.parts.plan.guarded("late", Rank::Test, 1);
    let _ = world.here.guarded(&late);
}

#[test]
#[should_panic(expected = "a plan that fits no memory")]
fn a_part_that_fits_no_memory_is_refused() {
    let mut world = world();
    let _ = world.parts.plan.bytes("late", usize::MAX - 7);
    let late = world.parts.plan.slice::<AtomicU64>("later", 1);
    let _ = world.here.slice(&late);
}

#[test]
#[should_panic(expected = "multiple of 8")]
fn a_copy_of_half_a_word_is_refused() {
    let world = world();
    world.here.area(&world.parts.bytes).copy_in(0, &[0; 12]);
}

#[test]
#[should_panic(expected = "out of range")]
fn a_copy_beyond_the_area_is_refused() {
    let world = world();
    world.here.area(&world.parts.bytes).copy_out(1000, &mut [0; 16]);
}

/// Debug builds check the order of latches in the process that takes them: no second one of a kind, either.
#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "nothing may be taken under")]
fn two_latches_of_a_kind_are_noticed() {
    let world = world();
    let front = front(&world.here.fronts(&world.parts.fronts));
    let frames = world.here.guarded(&world.parts.frames);
    let _one = frames.lock_area(0, front.holder()).expect("nobody poisons it");
    let _other = frames.lock_area(1, front.holder()).map(drop);
}

/// The same between kinds.
#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "nothing may be taken under")]
fn a_latch_taken_out_of_order_is_noticed() {
    let world = world();
    let front = front(&world.here.fronts(&world.parts.fronts));
    let region = world.here.guarded(&world.parts.region);
    let _region = region.lock(front.holder()).expect("nobody poisons it");
    let _frame = world.here.guarded(&world.parts.frames).lock_area(0, front.holder()).map(drop);
}
