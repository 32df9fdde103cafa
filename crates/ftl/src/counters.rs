//! The work of a translation layer, and its cost in time.

use std::ops::{Add, Sub};
use std::time::Duration;

/// Merges of FAST's log blocks (Lee et al., TECS 2007, §3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merges {
    /// The sequential log block became the data block as it was: nothing copied.
    pub switch: u64,
    /// The sequential log block was completed with pages of the data block and became the data block.
    pub partial: u64,
    /// A logical block was gathered from its data block and the log into a new data block.
    pub full: u64,
}

/// What happened, in pages (4 KiB each) unless said otherwise. Sums only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Pages read for the host.
    pub host_reads: u64,
    /// Pages programmed for the host.
    pub host_writes: u64,
    /// Mapped pages that the host discarded.
    pub discards: u64,
    /// Pages that the layer read and programmed again by itself: garbage collection and merges.
    pub copies: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Garbage collections: victim blocks (page map) or log blocks (FAST) reclaimed by copying their valid
    /// pages.
    pub collections: u64,
    /// Merges, by kind.
    pub merges: Merges,
    /// Blocks dropped with their valid pages (FlashTier, WFDB).
    pub silent_evictions: u64,
    /// Valid pages dropped with them.
    pub dropped: u64,
}

macro_rules! each_field {
    ($left:expr, $op:tt, $right:expr) => {
        Counters {
            host_reads: $left.host_reads $op $right.host_reads,
            host_writes: $left.host_writes $op $right.host_writes,
            discards: $left.discards $op $right.discards,
            copies: $left.copies $op $right.copies,
            erases: $left.erases $op $right.erases,
            collections: $left.collections $op $right.collections,
            merges: Merges {
                switch: $left.merges.switch $op $right.merges.switch,
                partial: $left.merges.partial $op $right.merges.partial,
                full: $left.merges.full $op $right.merges.full,
            },
            silent_evictions: $left.silent_evictions $op $right.silent_evictions,
            dropped: $left.dropped $op $right.dropped,
        }
    };
}

impl Add for Counters {
    type Output = Counters;
    fn add(self, other: Counters) -> Counters {
        each_field!(self, +, other)
    }
}

/// What happened since an earlier reading of the same counters.
impl Sub for Counters {
    type Output = Counters;
    fn sub(self, earlier: Counters) -> Counters {
        each_field!(self, -, earlier)
    }
}

impl Counters {
    /// Pages programmed for each page that the host wrote; 1 if it wrote none.
    pub fn write_amplification(&self) -> f64 {
        if self.host_writes == 0 { 1.0 } else { 1.0 + self.copies as f64 / self.host_writes as f64 }
    }

    /// Times that space was reclaimed, by collection or by silent eviction: the thesis' "GC count".
    pub fn reclaims(&self) -> u64 {
        self.collections + self.silent_evictions
    }
}

/// How long the operations of a flash chip take. [`Latencies::THESIS`] is the thesis' table 4.1 (its unit is
/// not printed; it is that of FlashSim, microseconds).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latencies {
    /// Reading a page.
    pub read: Duration,
    /// Programming a page.
    pub program: Duration,
    /// Erasing a block.
    pub erase: Duration,
    /// The controller, for each page the host reads or writes.
    pub control: Duration,
}

impl Latencies {
    /// Thesis, table 4.1: page read 65, page write 85, block erase 1000, control delay 10 µs.
    pub const THESIS: Latencies = Latencies {
        read: Duration::from_micros(65),
        program: Duration::from_micros(85),
        erase: Duration::from_micros(1000),
        control: Duration::from_micros(10),
    };

    /// Time of everything counted, one operation after the other.
    pub fn cost(&self, counters: &Counters) -> Duration {
        let times = |count: u64, each: Duration| Duration::from_nanos(count * each.as_nanos() as u64);
        times(counters.host_reads + counters.copies, self.read)
            + times(counters.host_writes + counters.copies, self.program)
            + times(counters.erases, self.erase)
            + times(counters.host_reads + counters.host_writes, self.control)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_counts_every_operation_once() {
        let counters =
            Counters { host_reads: 1, host_writes: 2, copies: 3, erases: 4, ..Counters::default() };
        let micros = (1 + 3) * 65 + (2 + 3) * 85 + 4 * 1000 + (1 + 2) * 10;
        assert_eq!(Latencies::THESIS.cost(&counters), Duration::from_micros(micros));
        assert_eq!(counters.write_amplification(), 2.5);
    }

    #[test]
    fn differences_are_field_by_field() {
        let a =
            Counters { copies: 3, merges: Merges { switch: 1, partial: 2, full: 3 }, ..Counters::default() };
        assert_eq!((a + a) - a, a);
    }
}
