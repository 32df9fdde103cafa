//! Which processes use the segment: a table of seats. Seat 0 is the back's, the others are fronts'.
//!
//! A seat is taken by one compare-and-swap of its owner's word, so a process that dies is either in its seat
//! or has none. The word has, from the top, how often the seat was taken (10 bits), the process's number (22
//! bits, as many as the kernel uses; 0: the seat is free), and the lower half of the time of its start. So an
//! owner is told from a later one, of whatever process.
//!
//! A front that is in the middle of something others depend on says so in its seat before it begins, and
//! takes it back when it is done ([`Front::holds`]). If it dies, its seat stays taken until the back has seen
//! this ([`Watch::find_dead`], [`Watch::vacate`]).
#![allow(unsafe_code)] // in `shared_struct!`, which says why it is sound; the lint spares other crates

use crate::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use crate::atomic::{AtomicU32, AtomicU64};
use crate::latch::{HOLDER_MAX, Holder};
use crate::mapping::Shared;
use crate::process::{ProcessId, Watched};
use crate::shared_struct;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, compiler_fence};
use thiserror::Error;

/// The owner of a seat; see the module's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owner(u64);

impl Owner {
    /// The bits of the process.
    const PROCESS: u64 = (1 << 54) - 1;

    fn is_free(self) -> bool {
        self.process().pid() == 0
    }

    fn process(self) -> ProcessId {
        ProcessId(self.0 & Self::PROCESS)
    }

    /// The word of the next owner of the free seat.
    fn next(self, process: ProcessId) -> Self {
        Self((self.0 & !Self::PROCESS).wrapping_add(Self::PROCESS + 1) | process.0 & Self::PROCESS)
    }

    /// The word of the free seat after this owner.
    fn left(self) -> Self {
        Self(self.0 & !Self::PROCESS)
    }
}

shared_struct! {
    /// A seat, with a cache line of its own. Seats of zeros are free.
    #[derive(Debug)]
    #[repr(align(64))]
    pub(crate) struct Seat {
        /// An [`Owner`].
        owner: AtomicU64,
        /// What its owner is in the middle of; 0: nothing.
        holding: AtomicU64,
        /// 1: its owner has ended while it held something, though its process may be alive.
        abandoned: AtomicU32,
    }
}

const _: () = assert!(size_of::<Seat>() == 64);

impl Seat {
    fn owner(&self) -> Owner {
        Owner(self.owner.load(Acquire))
    }
}

/// Why a process gets no seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SeatError {
    /// All seats are taken.
    #[error(
        "all {seats} seats for processes are taken; let more connect in the options of the cache's server, \
         or end one"
    )]
    Full {
        /// Fronts that the table has room for.
        seats: usize,
    },
    /// There is a back, or was one: a segment has one only.
    #[error("process {pid} serves this segment, or did before it died; make a new segment")]
    Served {
        /// The back.
        pid: u32,
    },
}

/// The table.
#[derive(Clone, Debug)]
pub struct Fronts {
    seats: Shared<[Seat]>,
}

impl Fronts {
    pub(crate) fn new(seats: Shared<[Seat]>) -> Self {
        assert!(!seats.is_empty() && seats.len() < HOLDER_MAX as usize, "{} seats", seats.len());
        Self { seats }
    }

    /// Takes a seat for a front of this process. A thread may have a seat of its own, or share one.
    ///
    /// # Errors
    /// [`SeatError::Full`].
    pub fn register(&self) -> Result<Front, SeatError> {
        let who = ProcessId::current();
        for number in 1..self.seats.len() {
            if let Ok(front) = self.take(number, who) {
                return Ok(front);
            }
        }
        Err(SeatError::Full { seats: self.seats.len() - 1 })
    }

    /// Takes the back's seat.
    ///
    /// # Errors
    /// [`SeatError::Served`].
    pub fn register_back(&self) -> Result<Front, SeatError> {
        self.take(0, ProcessId::current()).map_err(|found| SeatError::Served { pid: found.pid() })
    }

    /// Takes seat `number`, or returns its owner.
    fn take(&self, number: usize, who: ProcessId) -> Result<Front, ProcessId> {
        let seat = &self.seats[number];
        let mut found = seat.owner();
        while found.is_free() {
            let owner = found.next(who);
            match seat.owner.compare_exchange(found.0, owner.0, AcqRel, Acquire) {
                Ok(_) => {
                    let is_disowned = AtomicBool::new(false);
                    return Ok(Front { seats: self.seats.clone(), number, owner, is_disowned });
                }
                Err(other) => found = Owner(other),
            }
        }
        Err(found.process())
    }

    /// Whether the back has its seat and has not ended. System calls: for fronts that have waited in vain.
    pub fn has_back(&self) -> bool {
        let back = self.seats[0].owner();
        !back.is_free() && back.process().is_alive()
    }

    /// Fronts in their seats, dead ones included.
    pub fn count(&self) -> usize {
        self.seats[1..].iter().filter(|seat| !seat.owner().is_free()).count()
    }

    /// Watches over all fronts.
    pub fn watch(&self) -> Watch {
        Watch { fronts: self.clone(), watched: (0..self.seats.len()).map(|_| None).collect() }
    }
}

/// A seat that is taken, until this is dropped.
#[derive(Debug)]
pub struct Front {
    seats: Shared<[Seat]>,
    number: usize,
    owner: Owner,
    is_disowned: AtomicBool,
}

impl Front {
    /// The memory is another segment's from now on: the seat is not freed when this is dropped.
    pub fn disown(&self) {
        self.is_disowned.store(true, Relaxed);
    }

    /// Whose latches are those that this front holds.
    pub fn holder(&self) -> Holder {
        holder(self.number)
    }

    /// Says what this front is in the middle of, before it begins. A front that dies from now on died with
    /// it. One thing at a time; the meaning of the word is the caller's.
    #[inline]
    pub fn holds(&self, what: NonZeroU64) {
        self.seats[self.number].holding.store(what.get(), Relaxed);
        // Death is between two instructions of this process, as a signal is. So only the compiler must not
        // move later accesses before the store. The back reads the word after the process ended.
        compiler_fence(SeqCst);
    }

    /// Its end in a model, where no process ends.
    #[cfg(feature = "shuttle")]
    pub fn death(&self) -> Death {
        Death { seats: self.seats.clone(), number: self.number }
    }

    /// The announced step is done.
    #[inline]
    pub fn holds_nothing(&self) {
        compiler_fence(SeqCst);
        self.seats[self.number].holding.store(0, Relaxed);
    }
}

/// The end of a front, in a model.
#[cfg(feature = "shuttle")]
#[derive(Clone, Debug)]
pub struct Death {
    seats: Shared<[Seat]>,
    number: usize,
}

#[cfg(feature = "shuttle")]
impl Death {
    /// From now on the front counts as dead. Its task takes no further step before the memory is given up.
    pub fn comes(&self) {
        self.seats[self.number].abandoned.store(1, Release);
    }
}

impl Drop for Front {
    /// Frees the seat. If the front is in the middle of something (a panic), the seat stays taken, and the
    /// back takes it for that of a dead front. A process that was forked does not free the seat of its
    /// parent.
    fn drop(&mut self) {
        if self.is_disowned.load(Relaxed) || self.owner.process().pid() != std::process::id() {
            return;
        }
        let seat = &self.seats[self.number];
        if seat.holding.load(Relaxed) == 0 {
            seat.owner.store(self.owner.left().0, Release);
        } else {
            seat.abandoned.store(1, Release);
        }
    }
}

fn holder(seat: usize) -> Holder {
    let number = u32::try_from(seat + 1).ok().and_then(Holder::new);
    number.expect("a table has fewer seats than there are holders")
}

/// A front that has ended without giving up its seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dead {
    /// Its process.
    pub pid: u32,
    /// Whose latches are those that it held.
    pub holder: Holder,
    /// The step that it had announced.
    pub holding: Option<NonZeroU64>,
    seat: usize,
    owner: Owner,
}

/// Watches over all fronts of a table, for the back. It keeps one descriptor for each.
#[derive(Debug)]
pub struct Watch {
    fronts: Fronts,
    watched: Vec<Option<(Owner, Watched)>>,
}

impl Watch {
    /// The fronts that have died, or ended without leaving. Each is found by every call until it is vacated.
    /// To be called every 100 ms: no call waits, and a front that died before it is found by it.
    pub fn find_dead(&mut self) -> Vec<Dead> {
        (1..self.watched.len()).filter_map(|seat| self.look(seat)).collect()
    }

    fn look(&mut self, number: usize) -> Option<Dead> {
        let seat = &self.fronts.seats[number];
        let owner = seat.owner();
        let watched = &mut self.watched[number];
        if owner.is_free() {
            *watched = None;
            return None;
        }
        let (_, process) = match watched {
            Some(watched) if watched.0 == owner => watched,
            other => other.insert((owner, Watched::new(owner.process()))),
        };
        let is_abandoned = seat.abandoned.load(Acquire) != 0;
        if !is_abandoned && !process.has_ended() {
            return None;
        }
        let holding = NonZeroU64::new(seat.holding.load(Acquire));
        // It may have given up its seat, and ended then, since the first look.
        if seat.owner() != owner {
            return None;
        }
        Some(Dead { pid: owner.process().pid(), holder: holder(number), holding, seat: number, owner })
    }

    /// Frees the seat of a front that died with nothing in hand: it held no latch, and
    /// [`Dead::holding`] is `None`. Of any other, the segment is given up.
    pub fn vacate(&mut self, dead: &Dead) {
        let seat = &self.fronts.seats[dead.seat];
        if seat.owner() == dead.owner {
            seat.holding.store(0, Relaxed);
            seat.abandoned.store(0, Relaxed);
            // Its owner has ended, and no other process takes a seat that is not free.
            seat.owner.store(dead.owner.left().0, Release);
        }
        self.watched[dead.seat] = None;
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::{Plan, Segment};

    fn fronts() -> Fronts {
        let mut plan = Plan::new(1);
        let part = plan.fronts("fronts", 2);
        let segment = Segment::create_memfd(&plan).expect("memory").publish().expect("it has no name");
        segment.fronts(&part)
    }

    /// As a forked process drops its inheritance.
    #[test]
    fn the_seat_of_another_process_is_not_freed() {
        let fronts = fronts();
        let parent = ProcessId(ProcessId::current().0 ^ 1 << 32);
        drop(fronts.take(1, parent).expect("a free seat"));
        assert_eq!(fronts.seats[1].owner().process(), parent);
        assert_eq!(fronts.take(1, ProcessId::current()).err(), Some(parent));
    }

    /// As in memory that another segment has taken since.
    #[test]
    fn a_seat_that_was_disowned_is_not_freed() {
        let fronts = fronts();
        let front = fronts.register().expect("a free seat");
        front.disown();
        drop(front);
        assert_eq!(fronts.count(), 1);
        drop(fronts.register().expect("another seat"));
        assert_eq!(fronts.count(), 1);
    }

    #[test]
    fn owners_of_one_process_are_told_apart() {
        let fronts = fronts();
        let mut seen = Vec::new();
        for _ in 0..1024 {
            let front = fronts.register().expect("a free seat");
            assert_eq!(front.owner.process(), ProcessId::current());
            assert!(!seen.contains(&front.owner), "after {}", seen.len());
            seen.push(front.owner);
        }
        assert_eq!(fronts.register().expect("a free seat").owner, seen[0], "the count has ten bits");
    }
}
