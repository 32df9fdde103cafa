//! The naive model of forgetting in log placement: the records that wait, and ranges that are being
//! forgotten in steps.

use entresol_core::{Forgotten, PageId, Position};

/// Records that may wait.
pub const WAITING_MAX: usize = 64;

#[derive(Default)]
pub struct Records {
    /// Those that wait, oldest first. True: it was given to a summary and is not extended any more.
    waiting: Vec<(Forgotten, bool)>,
    /// Number of the first that waits.
    first: u64,
}

impl Records {
    pub fn are_full(&self) -> bool {
        self.waiting.len() == WAITING_MAX
    }

    pub fn is_none(&self) -> bool {
        self.waiting.is_empty()
    }

    /// False: too many wait.
    pub fn add(&mut self, (first, last): (PageId, PageId), below: u64, after: u64) -> bool {
        let below = Position(below);
        match self.waiting.last_mut() {
            Some((newest, false))
                if newest.last.0 + 1 == first.0 && newest.below == below && newest.after == after =>
            {
                newest.last = last;
                return true;
            }
            _ => {}
        }
        if self.are_full() {
            return false;
        }
        self.waiting.push((Forgotten { first, last, below, after }, false));
        true
    }

    /// Gives the records to a summary.
    pub fn given(&mut self, durable: u64, group_end: u64, got: &[Forgotten], end: u64) {
        let fits = |record: &Forgotten| record.after <= durable && record.below.0 <= group_end;
        let expected: Vec<_> = self.waiting.iter().map(|(record, _)| *record).take_while(fits).collect();
        assert_eq!(got, expected, "records for a summary");
        assert_eq!(end, self.first + got.len() as u64, "number after the records");
        self.waiting[..got.len()].iter_mut().for_each(|(_, given)| *given = true);
    }

    pub fn recorded(&mut self, end: u64) {
        let over = end.saturating_sub(self.first);
        self.waiting.drain(..over as usize);
        self.first += over;
    }

    /// Whether a record that waits names the page.
    pub fn name(&self, page: PageId) -> bool {
        self.waiting.iter().any(|(r, _)| (r.first..=r.last).contains(&page))
    }

    /// Whether a copy of the page at this position is among those that a record that waits makes stale.
    pub fn cover(&self, page: PageId, position: u64) -> bool {
        let covers = |r: &Forgotten| (r.first..=r.last).contains(&page) && position < r.below.0;
        self.waiting.iter().any(|(record, _)| covers(record))
    }
}
