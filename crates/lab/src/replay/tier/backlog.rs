//! Background work. Clients wait for it only when too much of it is outstanding.
//!
//! Invariant: no more than `limit` pieces of work are outstanding at the time that [`Backlog::wait`] returns.

use entresol_core::{Config, Placement};
use entresol_runtime::Time;

/// Writes of single pages that may be outstanding.
pub(super) const WRITES_MAX: usize = 64;

/// The last pieces of work and when they are done.
pub(super) struct Backlog {
    ends: Vec<Time>,
    at: usize,
}

impl Backlog {
    pub(super) fn new(limit: usize) -> Self {
        Self { ends: vec![Time(0); limit.max(1)], at: 0 }
    }

    /// Writes to flash of such a cache.
    pub(super) fn of_writes(config: &Config) -> Self {
        let by_group = config.policy.placement() == Placement::Log && config.policy.by_group();
        Self::new(if by_group { config.staging_groups } else { config.staging_pages() } as usize)
    }

    /// A piece of work will be done at `end`.
    pub(super) fn push(&mut self, end: Time) {
        self.ends[self.at] = end;
        self.at = if self.at + 1 == self.ends.len() { 0 } else { self.at + 1 };
    }

    /// When there is room for one more.
    pub(super) fn wait(&self, now: Time) -> Time {
        now.max(self.ends[self.at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_third_of_two_waits_for_the_first() {
        let mut backlog = Backlog::new(2);
        for end in [100, 200] {
            assert_eq!(backlog.wait(Time(5)), Time(5));
            backlog.push(Time(end));
        }
        assert_eq!(backlog.wait(Time(5)), Time(100));
        assert_eq!(backlog.wait(Time(150)), Time(150));
        backlog.push(Time(300));
        assert_eq!(backlog.wait(Time(150)), Time(200));
    }
}
