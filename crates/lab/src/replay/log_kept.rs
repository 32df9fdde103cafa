//! A log above the cache that is kept so that the flash may be lost: how much of it is needed, and which
//! pages are copied to disk so that it is no more. The decisions are those of the store and of PostgreSQL's
//! door ([`KeptCheckpoints`]); they work by the count of what was logged.
//!
//! A trace has no log: each change of a page is so many bytes of it. Checkpoints are made when one is due for
//! the bound, and hand down every page that was changed in DRAM. Between them pages are copied in [`STEPS`]
//! steps behind the references.

use entresol_core::{KeptCheckpoints, LogBound, Lsn};
use std::collections::VecDeque;

/// Steps from one checkpoint to the next.
const STEPS: u64 = 64;

/// A log that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepLog {
    /// How much of it, bytes.
    pub bound: LogBound,
    /// What a change of a page logs, bytes.
    pub change_bytes: u32,
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Copy so many of the pages with a base before checkpoint `number`: one part in `parts`.
    Copy { number: u64, parts: u32 },
    /// Make a checkpoint: pages with a base before `number` are to be on disk.
    Checkpoint { number: u64 },
}

/// What was kept of the log while it was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The most that a replay without the flash would have read, bytes.
    pub most_bytes: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Pages that were copied to disk for the bound.
    pub copied: u64,
}

/// See the module's header.
pub(super) struct LogKept {
    options: KeepLog,
    /// Checkpoints are told apart by their redo points.
    checkpoints: KeptCheckpoints<u64>,
    logged: u64,
    /// What was logged when the next step is due.
    next: u64,
    kept: Kept,
}

impl LogKept {
    /// A log that begins: the cache is empty.
    pub(super) fn new(options: KeepLog) -> Self {
        let checkpoints = KeptCheckpoints::new(options.bound, 0, VecDeque::new());
        let mut this = Self { options, checkpoints, logged: 0, next: 0, kept: Kept::default() };
        // The disk has everything.
        this.complete(0, u64::MAX);
        this.begin_measurement();
        this
    }

    /// A page was changed.
    #[inline(always)]
    pub(super) fn changed(&mut self) {
        self.logged += u64::from(self.options.change_bytes);
    }

    fn step(&self) -> u64 {
        (self.options.bound.due() / STEPS).max(1)
    }

    fn redo_point(&self) -> u64 {
        self.checkpoints.kept().last().map_or(0, |newest| newest.record)
    }

    /// What is due, if anything.
    #[inline(always)]
    pub(super) fn due(&mut self) -> Option<Step> {
        if self.logged < self.next { None } else { Some(self.take()) }
    }

    #[inline(never)]
    fn take(&mut self) -> Step {
        let left = (self.redo_point() + self.options.bound.due()).saturating_sub(self.logged) / self.step();
        self.next = self.logged + self.step();
        self.measure();
        match left {
            0 => Step::Checkpoint { number: self.checkpoints.wanted(Lsn(self.logged), false) },
            _ => Step::Copy { number: self.checkpoints.wanted_soon(), parts: left as u32 },
        }
    }

    fn measure(&mut self) {
        let from = self.checkpoints.kept().next().map_or(0, |horizon| horizon.redo_point.0);
        self.kept.most_bytes = self.kept.most_bytes.max(self.logged - from);
    }

    /// So many pages were copied.
    pub(super) fn copied(&mut self, pages: u64) {
        self.kept.copied += pages;
    }

    /// A checkpoint with the redo point `redo_point` is complete. The cache told the number `told` of its
    /// horizon. Returns the checkpoint's number.
    pub(super) fn complete(&mut self, redo_point: u64, told: u64) -> u64 {
        let said = self.checkpoints.next(self.checkpoints.of(told));
        self.checkpoints.complete(said, redo_point, Lsn(redo_point));
        self.kept.checkpoints += 1;
        self.next = self.logged + self.step();
        self.checkpoints.number()
    }

    /// The number of the newest checkpoint.
    pub(super) fn number(&self) -> u64 {
        self.checkpoints.number()
    }

    /// All that was logged.
    pub(super) fn logged(&self) -> u64 {
        self.logged
    }

    /// From now on it is measured.
    pub(super) fn begin_measurement(&mut self) {
        self.kept = Kept::default();
    }

    pub(super) fn kept(&self) -> Kept {
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_are_made_for_each_eighth_and_want_what_is_older_than_three_quarters() {
        let mut log = LogKept::new(KeepLog { bound: LogBound(8 * 6400), change_bytes: 100 });
        let (mut made, mut copies) = (Vec::new(), 0);
        for _ in 0..640 {
            log.changed();
            match log.due() {
                Some(Step::Checkpoint { number }) => {
                    made.push((log.logged(), number));
                    let at = log.logged();
                    assert_eq!(log.complete(at, number), made.len() as u64 + 1);
                }
                Some(Step::Copy { .. }) => copies += 1,
                None => {}
            }
        }
        assert_eq!((made.len(), copies), (10, 630), "{made:?}");
        assert!(made.windows(2).all(|pair| pair[1].0 - pair[0].0 == 6400), "{made:?}");
        let wanted: Vec<u64> = made.iter().map(|(_, number)| *number).collect();
        assert_eq!(wanted, [1, 1, 1, 1, 1, 1, 2, 3, 4, 5], "six eighths are kept");
        let kept = log.kept();
        assert!((5 * 6400..=7 * 6400).contains(&kept.most_bytes), "{kept:?}");
    }
}
