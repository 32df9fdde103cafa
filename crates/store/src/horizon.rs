//! How far back the log is kept so that the flash may be lost, and the checkpoints from there on.
//!
//! The layer tells of which checkpoint the redo point is far enough ([`Layer::bring_to_disk_before`]): the
//! *horizon*. A checkpoint's record names the record of its horizon, and that of the checkpoint before it. So
//! a restart without the flash begins at the horizon, and one with it knows the checkpoints between.
//!
//! Invariant: the log is freed only before the redo point of the horizon that the newest checkpoint's record
//! names.
//!
//! [`Layer::bring_to_disk_before`]: entresol_engine::Layer::bring_to_disk_before

use entresol_core::{BASES_MAX, Lsn};
use std::collections::VecDeque;

/// Checkpoints after the horizon, at most: fewer than the layer can tell apart.
const KEPT_MAX: u64 = BASES_MAX - 8;

/// How much of the log is kept, in bytes; 0: none for this. From the horizon to the redo point of the newest
/// checkpoint it is at most [`Bound::reach`], unless pages that must be copied change faster than that; and
/// from there to its end about [`Bound::overdue`] when clients wait: the bound together.
///
/// The smaller the part after which a checkpoint is due, the nearer is a horizon to what it may be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bound(pub u64);

impl Bound {
    /// A checkpoint is due when so much was logged since the last one.
    pub(crate) fn due(self) -> u64 {
        self.0 / 8
    }

    /// Clients wait for it when so much was logged.
    pub(crate) fn overdue(self) -> u64 {
        self.0 / 4
    }

    fn reach(self) -> u64 {
        self.0 / 4 * 3
    }
}

/// What a checkpoint's record says of the log that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptLog {
    /// The number of the checkpoint. It grows.
    pub number: u64,
    /// The record of the checkpoint before; 0: there is none, or it may not be there any more.
    pub previous: Lsn,
    /// With the log from the redo point of the checkpoint with this record on, the disk needs no flash.
    pub horizon: From,
}

/// The record of the horizon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// No log replaces the flash.
    Nowhere,
    /// The record that says this.
    Itself,
    /// This one.
    Record(Lsn),
}

/// A checkpoint from the horizon on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub number: u64,
    pub record: Lsn,
    pub redo_point: Lsn,
}

/// See the module's header.
#[derive(Debug, Default)]
pub(crate) struct Horizon {
    bound: Bound,
    /// The number of the newest checkpoint.
    number: u64,
    /// In ascending order; the last is the newest.
    kept: VecDeque<Kept>,
    /// What the newest record says.
    promised: Option<Kept>,
}

impl Horizon {
    /// Of a store whose newest checkpoint has this `number`. `kept`: the checkpoints from its horizon on, if
    /// its record names one.
    pub(crate) fn new(bound: Bound, number: u64, kept: VecDeque<Kept>) -> Self {
        Self { bound, number, promised: kept.front().copied(), kept }
    }

    /// The number of the newest checkpoint.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Whether the flash may be lost.
    pub(crate) fn is_kept(&self) -> bool {
        self.bound.0 > 0
    }

    /// The horizon that the newest record names.
    pub(crate) fn promised(&self) -> Option<Kept> {
        self.promised
    }

    /// A checkpoint is made with this redo point: pages with a base before this number are to be on disk, so
    /// that no more of the log is needed than [`Bound::reach`]. `all`: as little of the log as possible.
    pub(crate) fn wanted(&self, redo_point: Lsn, all: bool) -> u64 {
        if all {
            return self.number;
        }
        let bound = redo_point.0.saturating_sub(self.bound.reach());
        let is_near = |kept: &&Kept| kept.redo_point.0 >= bound;
        let oldest = self.kept.iter().find(is_near).map_or(self.number, |kept| kept.number);
        oldest.max((self.number + 1).saturating_sub(KEPT_MAX))
    }

    /// The horizon, of which the layer has `told` the number; u64::MAX: the disk has everything.
    pub(crate) fn of(&self, told: u64) -> From {
        let record = || self.kept.iter().find(|kept| kept.number == told).map(|kept| kept.record);
        match told {
            _ if !self.is_kept() => From::Nowhere,
            u64::MAX => From::Itself,
            _ => record().map_or(From::Nowhere, From::Record),
        }
    }

    /// What the next record says.
    pub(crate) fn next(&self, horizon: From) -> Option<KeptLog> {
        let is_counted = self.is_kept() || self.number > 0;
        let previous = self.kept.back().map_or(Lsn(0), |kept| kept.record);
        is_counted.then_some(KeptLog { number: self.number + 1, previous, horizon })
    }

    /// The redo point of a horizon: the log is kept from there on. `None`: it need not be.
    pub(crate) fn kept_from(&self, horizon: From) -> Option<Lsn> {
        let From::Record(record) = horizon else { return None };
        self.kept.iter().find(|kept| kept.record == record).map(|kept| kept.redo_point)
    }

    /// The record that says `said` is durable, and the master record names it.
    pub(crate) fn complete(&mut self, said: Option<KeptLog>, record: Lsn, redo_point: Lsn) {
        let Some(KeptLog { number, horizon, .. }) = said else { return };
        self.number = number;
        self.kept.push_back(Kept { number, record, redo_point });
        let first = match horizon {
            From::Record(first) => first,
            From::Itself | From::Nowhere => record,
        };
        while self.kept.front().is_some_and(|kept| kept.record < first) {
            self.kept.pop_front();
        }
        self.promised = self.kept.front().copied().filter(|_| horizon != From::Nowhere);
    }

    /// Pages with a base before this number are copied to disk behind clients from now on: what the next
    /// checkpoint will want, if as much is logged until then as is usual.
    pub(crate) fn wanted_soon(&self) -> u64 {
        self.kept.back().map_or(0, |newest| self.wanted(Lsn(newest.redo_point.0 + self.bound.due()), false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checkpoints at these redo points, each with the horizon that was wanted.
    fn run(log_bytes: u64, redo_points: &[u64]) -> Horizon {
        let mut horizon = Horizon::new(Bound(log_bytes), 0, VecDeque::new());
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
        assert_eq!([0, 1, 2, 3].map(|told| horizon.of(told) == From::Nowhere), [true, false, false, true]);
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
        let mut horizon = Horizon::new(Bound(0), 7, VecDeque::new());
        let said = horizon.next(horizon.of(u64::MAX));
        assert_eq!(said.map(|said| (said.number, said.horizon)), Some((8, From::Nowhere)));
        horizon.complete(said, Lsn(108), Lsn(100));
        assert_eq!(horizon.promised(), None);
    }
}
