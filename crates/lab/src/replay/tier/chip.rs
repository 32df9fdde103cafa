//! A flash chip in virtual time, told by its translation layer what was done: reads wait for the work before
//! them.
//!
//! Parts of the chip work at the same time: reads of w take w / `reads` until the chip is idle again,
//! programs and erases w / `programs`, and a read of its own takes its full time after that. One piece of
//! work may be under way while the next one is prepared.
//!
//! Invariant: work is conserved: `service_ns` is the sum of all operations' times, divided by how many of the
//! kind are done at a time.

use entresol_ftl::{Counters, Latencies};
use entresol_runtime::Time;

/// How fast a chip is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChipSpeed {
    /// Times of its operations.
    pub latencies: Latencies,
    /// Reads at a time.
    pub reads: f64,
    /// Programs and erases at a time.
    pub programs: f64,
}

impl ChipSpeed {
    /// The thesis' table 4.1: 149,700 random reads a second of 65 and 10 µs, and 15,300 random writes of 85
    /// and 10 µs.
    pub const THESIS: ChipSpeed =
        ChipSpeed { latencies: Latencies::THESIS, reads: 149_700.0 * 75e-6, programs: 15_300.0 * 95e-6 };
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

    /// When the chip begins with this work.
    fn occupy(&mut self, now: Time, done: &Counters) -> u64 {
        let begin = self.free_at.max(now.0);
        let reads = Counters { host_reads: done.host_reads, ..Counters::default() };
        let (all, reads) = (self.cost(done), self.cost(&reads));
        let copied = self.speed.latencies.read.as_nanos() as u64 * done.copies;
        let read = (reads + copied) as f64 / self.speed.reads;
        let programmed = (all - reads - copied) as f64 / self.speed.programs;
        let service = (read + programmed) as u64;
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
        Time(self.occupy(now, done) + cost)
    }

    /// The client continues as soon as the work before this is over.
    pub(super) fn background(&mut self, now: Time, done: &Counters) -> Time {
        if self.cost(done) == 0 { now } else { Time(self.occupy(now, done)) }
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
        let mut chip = Chip::new(ChipSpeed { reads: 2.0, programs: 2.0, ..ChipSpeed::THESIS });
        let read = Counters { host_reads: 1, ..Counters::default() };
        let erase = Counters { erases: 1, ..Counters::default() };
        assert_eq!(chip.foreground(Time(0), &read), Time(75_000));
        assert_eq!(chip.background(Time(100_000), &erase), Time(100_000), "nobody is before it");
        // Two at a time: the erase of 1,000 µs is over after 500.
        assert_eq!(chip.background(Time(200_000), &erase), Time(600_000));
        assert_eq!(chip.foreground(Time(300_000), &read), Time(1_175_000));
        assert_eq!(chip.background(Time(0), &Counters::default()), Time(0));
        assert_eq!(chip.service_ns(), 37_500 + 500_000 + 500_000 + 37_500);
    }

    #[test]
    fn a_stream_has_the_rates_of_table_4_1() {
        let rate = |one: Counters| {
            let mut chip = Chip::new(ChipSpeed::THESIS);
            let last = (0..10_000).fold(Time(0), |_, _| chip.background(Time(0), &one));
            10_000.0 / (last.0 as f64 / 1e9)
        };
        let reads = rate(Counters { host_reads: 1, ..Counters::default() });
        let writes = rate(Counters { host_writes: 1, ..Counters::default() });
        assert!((reads / 149_700.0 - 1.0).abs() < 1e-3 && (writes / 15_300.0 - 1.0).abs() < 1e-3);
    }
}
