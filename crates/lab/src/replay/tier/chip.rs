//! A flash chip in virtual time, told by its translation layer what was done: reads wait for the work before
//! them.
//!
//! The planes of the chip share work evenly: work of w takes w / planes until the chip is idle again, and a
//! read of its own takes its full time after that. One piece of work may be under way while the next one is
//! prepared.
//!
//! Invariant: work is conserved: `service_ns` is the sum of all operations' times, divided by the planes.

use entresol_ftl::{Counters, Latencies};
use entresol_runtime::Time;

/// How fast a chip is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChipSpeed {
    /// Times of its operations.
    pub latencies: Latencies,
    /// Operations at a time.
    pub planes: u32,
}

impl ChipSpeed {
    /// The thesis' table 4.1: 149,700 random reads a second of 65 µs each are ten at a time.
    pub const THESIS: ChipSpeed = ChipSpeed { latencies: Latencies::THESIS, planes: 10 };
}

pub(super) struct Chip {
    speed: ChipSpeed,
    free_at: u64,
    service_ns: u64,
}

impl Chip {
    pub(super) fn new(speed: ChipSpeed) -> Self {
        Self { speed, free_at: 0, service_ns: 0 }
    }

    fn occupy(&mut self, now: Time, cost_ns: u64) -> u64 {
        let begin = self.free_at.max(now.0);
        let service = cost_ns / u64::from(self.speed.planes);
        self.free_at = begin + service;
        self.service_ns += service;
        begin
    }

    fn cost(&self, done: &Counters) -> u64 {
        self.speed.latencies.cost(done).as_nanos() as u64
    }

    /// The client waits for what was done (reads).
    pub(super) fn foreground(&mut self, now: Time, done: &Counters) -> Time {
        let cost = self.cost(done);
        Time(self.occupy(now, cost) + cost)
    }

    /// The client continues as soon as the work before this is over.
    pub(super) fn background(&mut self, now: Time, done: &Counters) -> Time {
        let cost = self.cost(done);
        if cost == 0 { now } else { Time(self.occupy(now, cost)) }
    }

    /// Device access time so far, nanoseconds.
    pub(super) fn service_ns(&self) -> u64 {
        self.service_ns
    }

    pub(super) fn begin_measurement(&mut self) {
        self.service_ns = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_waits_for_the_work_before_it() {
        let mut chip = Chip::new(ChipSpeed { planes: 2, ..ChipSpeed::THESIS });
        let read = Counters { host_reads: 1, ..Counters::default() };
        let erase = Counters { erases: 1, ..Counters::default() };
        assert_eq!(chip.foreground(Time(0), &read), Time(75_000));
        assert_eq!(chip.background(Time(100_000), &erase), Time(100_000), "nobody is before it");
        // Two planes: the erase of 1,000 µs is over after 500.
        assert_eq!(chip.background(Time(200_000), &erase), Time(600_000));
        assert_eq!(chip.foreground(Time(300_000), &read), Time(1_175_000));
        assert_eq!(chip.background(Time(0), &Counters::default()), Time(0));
        assert_eq!(chip.service_ns(), 37_500 + 500_000 + 500_000 + 37_500);
    }
}
