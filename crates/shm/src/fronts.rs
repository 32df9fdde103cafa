//! Which processes use the segment: a table of seats. Seat 0 is the back's, the others are fronts'.
//!
//! A seat is taken by one compare-and-swap of the process's identity, so a process that dies is either in its
//! seat or has none. The identity tells it from a later process with the same number.
//!
//! A front that is in the middle of something others depend on says so in its seat before it begins, and takes
//! it back when it is done ([`Front::holds`]). If it dies, its seat stays taken until the back has seen what it
//! held ([`Watch::find_dead`], [`Watch::vacate`]).
#![allow(unsafe_code)] // in `shared_struct!`, which says why it is sound; the lint spares other crates

use crate::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use crate::atomic::{AtomicU32, AtomicU64};
use crate::latch::{HOLDER_MAX, Holder};
use crate::mapping::Shared;
use crate::process::{ProcessId, Watched};
use crate::shared_struct;
use std::num::NonZeroU64;
use std::sync::atomic::compiler_fence;
use thiserror::Error;

/// Nobody has the seat.
const FREE: u64 = 0;

shared_struct! {
    /// A seat, with a cache line of its own. Seats of zeros are free.
    #[derive(Debug)]
    #[repr(align(64))]
    pub(crate) struct Seat {
        /// A [`ProcessId`], or [`FREE`].
        who: AtomicU64,
        /// What its owner is in the middle of; 0: nothing.
        holding: AtomicU64,
        /// 1: its owner has left while it held something, though its process may be alive.
        abandoned: AtomicU32,
    }
}

const _: () = assert!(size_of::<Seat>() == 64);

/// Why a process gets no seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SeatError {
    /// All seats are taken.
    #[error(
        "all {seats} seats for processes are taken; let more connect in the options of the cache's server, or \
         end one"
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

    fn take(&self, number: usize, who: ProcessId) -> Result<Front, ProcessId> {
        let taken = self.seats[number].who.compare_exchange(FREE, who.0, AcqRel, Acquire);
        taken.map_err(ProcessId)?;
        Ok(Front { seats: self.seats.clone(), number, who })
    }

    /// Whether the back has its seat and has not ended. System calls: for fronts that have waited in vain.
    pub fn has_back(&self) -> bool {
        match self.seats[0].who.load(Acquire) {
            FREE => false,
            who => ProcessId(who).is_alive(),
        }
    }

    /// Fronts in their seats, dead ones included.
    pub fn count(&self) -> usize {
        self.seats[1..].iter().filter(|seat| seat.who.load(Relaxed) != FREE).count()
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
    who: ProcessId,
}

impl Front {
    /// Whose latches are those that this front holds.
    pub fn holder(&self) -> Holder {
        holder(self.number)
    }

    /// Says what this front is in the middle of, before it begins. A front that dies from now on died with it.
    /// One thing at a time; the meaning of the word is the caller's.
    #[inline]
    pub fn holds(&self, what: NonZeroU64) {
        self.seats[self.number].holding.store(what.get(), Relaxed);
        // Death comes between two instructions of this process, as a signal does. So it is the compiler alone
        // that must not move what follows before the store. The back reads the word after the process ended.
        compiler_fence(SeqCst);
    }

    /// What it was in the middle of is done.
    #[inline]
    pub fn holds_nothing(&self) {
        compiler_fence(SeqCst);
        self.seats[self.number].holding.store(0, Relaxed);
    }
}

impl Drop for Front {
    /// Frees the seat. If the front is in the middle of something (a panic), the seat stays taken, and the back
    /// takes it for that of a dead front. A process that was forked does not free the seat of its parent.
    fn drop(&mut self) {
        if self.who.pid() != std::process::id() {
            return;
        }
        let seat = &self.seats[self.number];
        if seat.holding.load(Relaxed) == 0 {
            seat.who.store(FREE, Release);
        } else {
            seat.abandoned.store(1, Release);
        }
    }
}

fn holder(seat: usize) -> Holder {
    let number = u32::try_from(seat + 1).ok().and_then(Holder::new);
    number.expect("a table has fewer seats than there are holders")
}

/// A front that is gone and has not left its seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dead {
    /// Its process.
    pub pid: u32,
    /// Whose latches are those that it held.
    pub holder: Holder,
    /// What it was in the middle of.
    pub holding: Option<NonZeroU64>,
    seat: usize,
    who: ProcessId,
}

/// Watches over all fronts of a table, for the back. It keeps one descriptor for each.
#[derive(Debug)]
pub struct Watch {
    fronts: Fronts,
    watched: Vec<Option<Watched>>,
}

impl Watch {
    /// The fronts that have died, or ended without leaving. Each is found by every call until it is vacated.
    /// To be called every 100 ms: no call waits, and a front that died before it is found by it.
    pub fn find_dead(&mut self) -> Vec<Dead> {
        (1..self.watched.len()).filter_map(|seat| self.look(seat)).collect()
    }

    fn look(&mut self, number: usize) -> Option<Dead> {
        let seat = &self.fronts.seats[number];
        let who = ProcessId(seat.who.load(Acquire));
        let watched = &mut self.watched[number];
        if who.0 == FREE {
            *watched = None;
            return None;
        }
        let watched = match watched {
            Some(watched) if watched.who == who => watched,
            other => other.insert(Watched::new(who)),
        };
        let is_abandoned = seat.abandoned.load(Acquire) != 0;
        if !is_abandoned && !watched.has_ended() {
            return None;
        }
        // It may have left, and ended then, since the first look.
        if seat.who.load(Acquire) != who.0 {
            return None;
        }
        let holding = NonZeroU64::new(seat.holding.load(Acquire));
        Some(Dead { pid: who.pid(), holder: holder(number), holding, seat: number, who })
    }

    /// Frees the seat of a front that died with nothing in hand: it held no latch, and
    /// [`Dead::holding`] is `None`. Of any other, the segment is given up.
    pub fn vacate(&mut self, dead: &Dead) {
        let seat = &self.fronts.seats[dead.seat];
        if seat.who.load(Acquire) == dead.who.0 {
            seat.holding.store(0, Relaxed);
            seat.abandoned.store(0, Relaxed);
            // Its owner is gone, and nobody else takes a seat that is not free.
            seat.who.store(FREE, Release);
        }
        self.watched[dead.seat] = None;
    }
}
