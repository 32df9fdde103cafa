//! How fronts and a back hand frames over, and what the death of a front means, under shuttle: fronts fill
//! frames, the back empties them, a watch looks for the dead. A front dies with a frame that is not filled,
//! or with the latch. Then all who wait are told; otherwise every frame is emptied. A notification that is
//! lost leaves its waiter asleep, which shuttle reports.
//!
//! ```text
//! cargo test --release -p entresol-shm --features shuttle --test hand_off
//! ```

use entresol_runtime::sync::Rank;
use entresol_shm::atomic::{AtomicU32, Ordering::SeqCst};
use entresol_shm::{Epoch, Fronts, Gone, Guarded, Holder, Plan, Segment, Shared, shared_struct};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

const SCHEDULES: usize = 2000;
const FRONTS: u32 = 2;
/// Frames of the segment, and frames that each front fills.
const FRAMES: usize = 2;
const FILLS: u32 = 3;
const FREE: u64 = 0;
const FILLING: u64 = 1;
const FILLED: u64 = 2;
/// A modelled wait with a limit may end at any time.
const LIMIT: Duration = Duration::from_secs(1);

/// A bug of the hand-off.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bug {
    None,
    /// The back is told before the frame is filled.
    ToldTooEarly,
    /// A front lets go of its frame before it is filled.
    LetGoTooEarly,
    /// Who waits is not told that the memory is given up.
    WaitersNotTold,
}

/// Where a front dies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dies {
    Never,
    WithFrame,
    WithLatch,
}

shared_struct! {
    struct Board {
        work: Epoch,
        progress: Epoch,
        /// Frames that were emptied.
        emptied: AtomicU32,
        /// The memory is given up.
        is_gone: AtomicU32,
        is_over: AtomicU32,
    }
}

struct World {
    board: Shared<Board>,
    frames: Guarded,
    fronts: Fronts,
}

impl World {
    fn new() -> Self {
        let mut plan = Plan::new(1);
        let board = plan.part::<Board>("board");
        let frames = plan.guarded("frames", Rank::CachePartition, FRAMES);
        let fronts = plan.fronts("fronts", FRONTS);
        let segment = Segment::create_memfd(&plan).expect("memory").publish().expect("it has no name");
        Self {
            board: segment.part(&board),
            frames: segment.guarded(&frames),
            fronts: segment.fronts(&fronts),
        }
    }

    /// Changes a frame from one state to another, with `more` under the latch. False: none is in that state.
    fn change(&self, me: Holder, from: u64, to: u64, more: impl FnOnce(usize)) -> Result<bool, Gone> {
        let mut frames = self.frames.lock(me)?;
        let Some(at) = frames.iter().position(|state| *state == from) else { return Ok(false) };
        more(at);
        frames[at] = to;
        Ok(true)
    }

    fn is_gone(&self) -> bool {
        self.board.is_gone.load(SeqCst) == 1
    }

    fn front(&self, dies: Dies, bug: Bug) -> Result<(), Gone> {
        let front = self.fronts.register().expect("a free seat");
        let (me, last) = (front.holder(), thread_rng().gen_range(0..FILLS));
        for fill in 0..FILLS {
            let mine = std::cell::Cell::new(0);
            loop {
                let seen = self.board.progress.seen();
                let takes = |at: usize| {
                    mine.set(at);
                    front.holds(NonZeroU64::MIN);
                };
                if self.change(me, FREE, FILLING, takes)? {
                    break;
                }
                if self.is_gone() {
                    return Err(Gone);
                }
                self.board.progress.wait(seen, None);
            }
            if bug == Bug::LetGoTooEarly {
                front.holds_nothing();
            }
            if dies == Dies::WithFrame && fill == last {
                front.death().comes();
                std::mem::forget(front);
                return Ok(());
            }
            if bug == Bug::ToldTooEarly {
                self.board.work.raise();
            }
            let mut frames = self.frames.lock(me)?;
            frames[mine.get()] = FILLED;
            front.holds_nothing();
            if dies == Dies::WithLatch && fill == last {
                front.death().comes();
                std::mem::forget((frames, front));
                return Ok(());
            }
            drop(frames);
            if bug != Bug::ToldTooEarly {
                self.board.work.raise();
            }
        }
        Ok(())
    }

    fn back(&self, me: Holder) -> Result<(), Gone> {
        while self.board.emptied.load(SeqCst) < FRONTS * FILLS {
            let seen = self.board.work.seen();
            if self.change(me, FILLED, FREE, |_| ())? {
                self.board.emptied.fetch_add(1, SeqCst);
                self.board.progress.raise();
            } else if self.is_gone() {
                return Err(Gone);
            } else {
                self.board.work.wait(seen, None);
            }
        }
        Ok(())
    }

    fn watch(&self, bug: Bug) {
        let (mut watch, nothing) = (self.fronts.watch(), Epoch::new());
        while self.board.is_over.load(SeqCst) == 0 {
            let dead = watch.find_dead();
            if dead.iter().any(|dead| dead.holding.is_some() || self.frames.is_held_by(dead.holder)) {
                self.board.is_gone.store(1, SeqCst);
                self.frames.poison();
                if bug != Bug::WaitersNotTold {
                    self.board.work.raise();
                    self.board.progress.raise();
                }
                return;
            }
            nothing.wait(nothing.seen(), Some(LIMIT));
        }
    }
}

fn hand_off(dies: Dies, bug: Bug) {
    let world = Arc::new(World::new());
    let back = world.fronts.register_back().expect("the first");
    let spawn = |body: Box<dyn FnOnce(&World) + Send>| {
        let world = world.clone();
        thread::spawn(move || body(&world))
    };
    let watch = spawn(Box::new(move |world| world.watch(bug)));
    let fronts: Vec<_> = (0..FRONTS)
        .map(|id| {
            let dies = if id == 0 { dies } else { Dies::Never };
            spawn(Box::new(move |world| {
                assert!(world.front(dies, bug).is_ok() || world.is_gone(), "told for nothing");
            }))
        })
        .collect();
    let ended = world.back(back.holder());
    fronts.into_iter().for_each(|front| front.join().expect("a task that panics ends the model"));
    world.board.is_over.store(1, SeqCst);
    watch.join().expect("a task that panics ends the model");
    assert_eq!(ended.is_err(), dies != Dies::Never, "a death in the middle of something is noticed by all");
}

fn check(dies: Dies, bug: Bug) {
    shuttle::check_random(move || hand_off(dies, bug), SCHEDULES);
}

#[test]
fn every_frame_is_emptied_and_nobody_is_forgotten() {
    check(Dies::Never, Bug::None);
}

#[test]
fn a_front_that_dies_with_a_frame_is_noticed_by_all() {
    check(Dies::WithFrame, Bug::None);
}

#[test]
fn a_front_that_dies_with_the_latch_is_noticed_by_all() {
    check(Dies::WithLatch, Bug::None);
}

#[test]
#[should_panic]
fn a_back_that_is_told_too_early_is_found() {
    check(Dies::Never, Bug::ToldTooEarly);
}

#[test]
#[should_panic]
fn a_front_that_lets_go_too_early_is_found() {
    check(Dies::WithFrame, Bug::LetGoTooEarly);
}

#[test]
#[should_panic]
fn waiters_that_are_not_told_are_found() {
    check(Dies::WithFrame, Bug::WaitersNotTold);
}
