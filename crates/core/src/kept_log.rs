//! How far back an owner keeps its log so that the flash may be lost, and its checkpoints from there on.
//!
//! The cache tells of which checkpoint the redo point is far enough ([`crate::Log::horizon`]): the *horizon*.
//! What the owner writes durably with a checkpoint names its horizon. So a restart without the flash begins
//! at the horizon, and one with it knows the checkpoints between.
//!
//! Invariant: the owner frees its log only before the redo point of the horizon that it has named durably.

use crate::{BASES_MAX, Lsn};
use std::collections::VecDeque;

/// Checkpoints after the horizon, at most: fewer than the layer can tell apart.
const KEPT_MAX: u64 = BASES_MAX - 8;

/// How much of the log is kept, in bytes; 0: none for this. From the horizon to the redo point of the newest
/// checkpoint it is at most three quarters of that, unless pages that must be copied change faster than that;
/// and from there to its end about [`LogBound::overdue`] when clients wait: the bound together.
///
/// The smaller the part after which a checkpoint is due, the nearer is a horizon to what it may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogBound(
    /// Bytes.
    pub u64,
);

impl LogBound {
    /// A checkpoint is due when so much was logged since the last one.
    pub fn due(self) -> u64 {
        self.0 / 8
    }

    /// Clients wait for it when so much was logged.
    pub fn overdue(self) -> u64 {
        self.0 / 4
    }

    fn reach(self) -> u64 {
        self.0 / 4 * 3
    }
}

/// What the owner says durably, with a checkpoint, of the log that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptLog<R> {
    /// The number of the checkpoint. It grows.
    pub number: u64,
    /// The record of the checkpoint before. `None`: there is none, or it may not be there any more.
    pub previous: Option<R>,
    /// With the log from the redo point of this checkpoint on, the disk needs no flash.
    pub horizon: HorizonAt<R>,
}

/// The checkpoint of the horizon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HorizonAt<R> {
    /// No log replaces the flash.
    Nowhere,
    /// The one with which this is said.
    Itself,
    /// The one with this record.
    Record(R),
}

/// A checkpoint from the horizon on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptCheckpoint<R> {
    /// See [`KeptLog::number`].
    pub number: u64,
    /// Where its record is in the log, as the owner tells that.
    pub record: R,
    /// Where redo begins after it.
    pub redo_point: Lsn,
}

/// The checkpoints of an owner from the horizon on; see the module's header. `R` tells records of
/// checkpoints, in ascending order.
#[derive(Debug)]
pub struct KeptCheckpoints<R> {
    bound: LogBound,
    /// The number of the newest checkpoint.
    number: u64,
    /// In ascending order; the last is the newest.
    kept: VecDeque<KeptCheckpoint<R>>,
    /// What was said last.
    promised: Option<KeptCheckpoint<R>>,
}

impl<R> Default for KeptCheckpoints<R> {
    fn default() -> Self {
        Self { bound: LogBound::default(), number: 0, kept: VecDeque::new(), promised: None }
    }
}

impl<R: Copy + Ord> KeptCheckpoints<R> {
    /// Of an owner whose newest checkpoint has this `number`. `kept`: the checkpoints from its horizon on, if
    /// one was named.
    pub fn new(bound: LogBound, number: u64, kept: VecDeque<KeptCheckpoint<R>>) -> Self {
        Self { bound, number, promised: kept.front().copied(), kept }
    }

    /// The number of the newest checkpoint.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether the flash may be lost.
    pub fn is_kept(&self) -> bool {
        self.bound.0 > 0
    }

    /// The horizon that was named last.
    pub fn promised(&self) -> Option<KeptCheckpoint<R>> {
        self.promised
    }

    /// A checkpoint is made with this redo point: pages with a base before this number are to be on disk, so
    /// that no more of the log is needed than three quarters of the bound. `all`: as little of the log as
    /// possible.
    pub fn wanted(&self, redo_point: Lsn, all: bool) -> u64 {
        if all {
            return self.number;
        }
        let bound = redo_point.0.saturating_sub(self.bound.reach());
        let is_near = |kept: &&KeptCheckpoint<R>| kept.redo_point.0 >= bound;
        let oldest = self.kept.iter().find(is_near).map_or(self.number, |kept| kept.number);
        oldest.max((self.number + 1).saturating_sub(KEPT_MAX))
    }

    /// The horizon, of which the layer has `told` the number; u64::MAX: the disk has everything.
    pub fn of(&self, told: u64) -> HorizonAt<R> {
        let record = || self.kept.iter().find(|kept| kept.number == told).map(|kept| kept.record);
        match told {
            _ if !self.is_kept() => HorizonAt::Nowhere,
            u64::MAX => HorizonAt::Itself,
            _ => record().map_or(HorizonAt::Nowhere, HorizonAt::Record),
        }
    }

    /// What is to be said with the next checkpoint.
    pub fn next(&self, horizon: HorizonAt<R>) -> Option<KeptLog<R>> {
        let is_counted = self.is_kept() || self.number > 0;
        let previous = self.kept.back().map(|kept| kept.record);
        is_counted.then_some(KeptLog { number: self.number + 1, previous, horizon })
    }

    /// The redo point of a horizon: the log is kept from there on. `None`: it need not be.
    pub fn kept_from(&self, horizon: HorizonAt<R>) -> Option<Lsn> {
        let HorizonAt::Record(record) = horizon else { return None };
        self.kept.iter().find(|kept| kept.record == record).map(|kept| kept.redo_point)
    }

    /// A checkpoint is complete, and `said` is durable with it.
    pub fn complete(&mut self, said: Option<KeptLog<R>>, record: R, redo_point: Lsn) {
        let Some(KeptLog { number, horizon, .. }) = said else { return };
        self.number = number;
        self.kept.push_back(KeptCheckpoint { number, record, redo_point });
        self.promise(horizon);
    }

    /// Another horizon was named durably, with the newest checkpoint.
    pub fn promise(&mut self, horizon: HorizonAt<R>) {
        let first = match horizon {
            HorizonAt::Record(first) => Some(first),
            HorizonAt::Itself | HorizonAt::Nowhere => self.kept.back().map(|kept| kept.record),
        };
        while self.kept.front().is_some_and(|kept| Some(kept.record) < first) {
            self.kept.pop_front();
        }
        self.promised = self.kept.front().copied().filter(|_| horizon != HorizonAt::Nowhere);
    }

    /// The checkpoints from the horizon on, in ascending order; the newest one if there is no horizon.
    pub fn kept(&self) -> impl Iterator<Item = KeptCheckpoint<R>> + '_ {
        self.kept.iter().copied()
    }

    /// The bound is another one from now on.
    pub fn set_bound(&mut self, bound: LogBound) {
        self.bound = bound;
    }

    /// Pages with a base before this number are copied to disk behind clients from now on: what the next
    /// checkpoint will want, if as much is logged until then as is usual.
    pub fn wanted_soon(&self) -> u64 {
        self.kept.back().map_or(0, |newest| self.wanted(Lsn(newest.redo_point.0 + self.bound.due()), false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checkpoints at these redo points, each with the horizon that was wanted.
    fn run(log_bytes: u64, redo_points: &[u64]) -> KeptCheckpoints<Lsn> {
        let mut horizon = KeptCheckpoints::new(LogBound(log_bytes), 0, VecDeque::new());
        for redo_point in redo_points {
            let wanted = horizon.wanted(Lsn(*redo_point), false);
            let said = horizon.next(horizon.of(wanted));
            horizon.complete(said, Lsn(redo_point + 8), Lsn(*redo_point));
        }
        horizon
    }

    #[test]
    fn the_horizon_is_the_oldest_checkpoint_within_three_quarters_of_the_bound() {
        let horizon = run(800, &[100, 300, 500, 700, 900, 1100]);
        assert_eq!(horizon.promised().map(|kept| kept.redo_point), Some(Lsn(500)));
        assert_eq!(horizon.wanted(Lsn(1100), false), 3, "redo point 500 is 600 before it");
        assert_eq!(horizon.wanted(Lsn(1101), false), 4, "and is too old one byte later");
        assert_eq!(horizon.wanted(Lsn(1200), true), 6, "the newest complete one");
        assert_eq!(horizon.wanted(Lsn(9000), false), 6, "no other is near");
        assert_eq!(horizon.wanted_soon(), 4, "an eighth of the bound later");
        assert_eq!(horizon.kept_from(horizon.of(4)), Some(Lsn(700)));
    }

    #[test]
    fn a_number_that_is_none_of_the_kept_checkpoints_promises_nothing() {
        let mut horizon = run(1000, &[100, 300]);
        assert_eq!(
            [0, 1, 2, 3].map(|told| horizon.of(told) == HorizonAt::Nowhere),
            [true, false, false, true]
        );
        let said = horizon.next(horizon.of(0));
        horizon.complete(said, Lsn(508), Lsn(500));
        assert_eq!(horizon.promised(), None);
        assert_eq!(horizon.kept_from(horizon.of(3)), Some(Lsn(500)), "the checkpoint itself is kept");
        let said = horizon.next(horizon.of(u64::MAX));
        horizon.complete(said, Lsn(708), Lsn(700));
        assert_eq!(horizon.promised().map(|kept| kept.number), Some(4), "the disk has everything");
    }

    #[test]
    fn no_more_checkpoints_are_kept_than_the_layer_tells_apart() {
        let redo_points: Vec<u64> = (1..=1000).map(|at| at * 8).collect();
        let horizon = run(1 << 40, &redo_points);
        assert_eq!(horizon.kept.len() as u64, KEPT_MAX + 1, "the horizon, and those after it");
    }

    #[test]
    fn a_store_whose_flash_is_needed_counts_only_once_it_has_begun_to() {
        let horizon = run(0, &[100, 300]);
        assert_eq!(horizon.number(), 0);
        let mut horizon = KeptCheckpoints::new(LogBound(0), 7, VecDeque::new());
        let said = horizon.next(horizon.of(u64::MAX));
        assert_eq!(said.map(|said| (said.number, said.horizon)), Some((8, HorizonAt::Nowhere)));
        horizon.complete(said, Lsn(108), Lsn(100));
        assert_eq!(horizon.promised(), None);
    }
}
