//! The statistics of clients.

use crate::transactions::Kind;
use entresol_runtime::Time;
use hdrhistogram::Histogram;
use std::fmt;
use std::time::Duration;

/// Maximum response time that is distinguished, in microseconds: one hour.
const LATENCY_US_MAX: u64 = 3_600_000_000;

/// The statistics of one kind of transaction.
#[derive(Clone, Debug)]
pub struct KindStatistics {
    /// Number of committed transactions.
    pub committed: u64,
    /// Number of transactions rolled back because of an invalid item number (New-Order only).
    pub rolled_back: u64,
    /// Number of attempts that ended in a deadlock and were repeated.
    pub deadlocks: u64,
    /// Response times in microseconds of runtime time, from the first attempt to the end of the transaction,
    /// of all committed and rolled-back transactions; two significant digits.
    pub latency_us: Histogram<u64>,
}

impl KindStatistics {
    fn new() -> Self {
        let latency_us =
            Histogram::new_with_bounds(1, LATENCY_US_MAX, 2).expect("the bounds are valid constants");
        Self { committed: 0, rolled_back: 0, deadlocks: 0, latency_us }
    }

    fn add(&mut self, other: &KindStatistics) {
        self.committed += other.committed;
        self.rolled_back += other.rolled_back;
        self.deadlocks += other.deadlocks;
        self.latency_us.add(&other.latency_us).expect("all histograms have the same bounds");
    }

    fn subtract(&mut self, earlier: &KindStatistics) {
        self.committed -= earlier.committed;
        self.rolled_back -= earlier.rolled_back;
        self.deadlocks -= earlier.deadlocks;
        self.latency_us.subtract(&earlier.latency_us).expect("the earlier counts are part of these");
    }
}

/// One client's counts. Only the client writes them, so its lock is contended only by snapshots.
pub(super) struct Recorder {
    kinds: [KindStatistics; 5],
    new_orders_per_second: Vec<u32>,
}

impl Recorder {
    pub(super) fn new() -> Self {
        Self { kinds: std::array::from_fn(|_| KindStatistics::new()), new_orders_per_second: Vec::new() }
    }

    pub(super) fn deadlock(&mut self, kind: Kind) {
        self.kinds[kind.index()].deadlocks += 1;
    }

    /// Counts a transaction that took from `began` to `ended` in a run that started at `started`.
    pub(super) fn finished(&mut self, kind: Kind, committed: bool, started: Time, began: Time, ended: Time) {
        let statistics = &mut self.kinds[kind.index()];
        statistics.latency_us.saturating_record(ended.since(began).as_micros() as u64);
        if !committed {
            statistics.rolled_back += 1;
            return;
        }
        statistics.committed += 1;
        if kind == Kind::NewOrder {
            let second = ended.since(started).as_secs() as usize;
            if self.new_orders_per_second.len() <= second {
                self.new_orders_per_second.resize(second + 1, 0);
            }
            self.new_orders_per_second[second] += 1;
        }
    }
}

/// The statistics of all clients between two instants.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// Start of the window.
    pub from: Time,
    /// End of the window.
    pub to: Time,
    /// In the order of [`Kind::ALL`]; see [`Statistics::of`].
    pub kinds: [KindStatistics; 5],
    /// Committed New-Orders in each second of runtime time since the run's start, independent of `from`.
    pub new_orders_per_second: Vec<u32>,
}

impl Statistics {
    pub(super) fn new(from: Time, to: Time) -> Self {
        Self {
            from,
            to,
            kinds: std::array::from_fn(|_| KindStatistics::new()),
            new_orders_per_second: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, recorder: &Recorder) {
        for (sum, kind) in self.kinds.iter_mut().zip(&recorder.kinds) {
            sum.add(kind);
        }
        let seconds = recorder.new_orders_per_second.len().max(self.new_orders_per_second.len());
        self.new_orders_per_second.resize(seconds, 0);
        for (sum, count) in self.new_orders_per_second.iter_mut().zip(&recorder.new_orders_per_second) {
            *sum += count;
        }
    }

    /// The statistics between `earlier`, a snapshot of the same run, and this one.
    ///
    /// # Panics
    /// If `earlier` is of another run or later.
    pub fn since(&self, earlier: &Statistics) -> Statistics {
        assert!(
            earlier.to <= self.to,
            "the earlier snapshot is of {:?}, this one of {:?}",
            earlier.to,
            self.to
        );
        let mut window = self.clone();
        window.from = earlier.to;
        for (kind, before) in window.kinds.iter_mut().zip(&earlier.kinds) {
            kind.subtract(before);
        }
        window
    }

    /// The statistics of one kind.
    pub fn of(&self, kind: Kind) -> &KindStatistics {
        &self.kinds[kind.index()]
    }

    /// Duration of the window in runtime time.
    pub fn duration(&self) -> Duration {
        self.to.since(self.from)
    }

    /// Number of committed transactions of all kinds.
    pub fn committed(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.committed).sum()
    }

    /// Number of attempts that ended in a deadlock.
    pub fn deadlocks(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.deadlocks).sum()
    }

    /// tpmC of this workload: committed New-Orders a minute of runtime time; 0 for an empty window.
    pub fn tpm_c(&self) -> f64 {
        let seconds = self.duration().as_secs_f64();
        if seconds > 0.0 { self.of(Kind::NewOrder).committed as f64 * 60.0 / seconds } else { 0.0 }
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:.0} tpmC (TPC-C workload, not a TPC result) over {:.1?}",
            self.tpm_c(),
            self.duration()
        )?;
        for (kind, statistics) in Kind::ALL.into_iter().zip(&self.kinds) {
            let KindStatistics { committed, rolled_back, deadlocks, latency_us } = statistics;
            let [median, p99] = [0.5, 0.99].map(|quantile| latency_us.value_at_quantile(quantile));
            writeln!(
                f,
                "{:12} {committed:>10} committed {rolled_back:>6} rolled back {deadlocks:>6} deadlocks \
                 {median:>9} us median {p99:>9} us p99",
                kind.name()
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn total(recorders: &[&Recorder], to: u64) -> Statistics {
        let mut sum = Statistics::new(Time(0), Time(to));
        for recorder in recorders {
            sum.add(recorder);
        }
        sum
    }

    #[test]
    fn windows_are_differences() {
        let (mut one, mut two) = (Recorder::new(), Recorder::new());
        one.finished(Kind::NewOrder, true, Time(0), Time(0), Time(SECOND / 2));
        one.finished(Kind::NewOrder, false, Time(0), Time(0), Time(SECOND));
        two.finished(Kind::Payment, true, Time(0), Time(0), Time(SECOND));
        let before = total(&[&one, &two], SECOND);
        for at in 0..30 {
            let began = SECOND + at * SECOND / 10;
            two.finished(Kind::NewOrder, true, Time(0), Time(began), Time(began + 1_000_000));
        }
        two.deadlock(Kind::Delivery);
        let after = total(&[&one, &two], 4 * SECOND);
        let window = after.since(&before);
        assert_eq!(window.duration(), Duration::from_secs(3));
        assert_eq!(window.tpm_c(), 600.0);
        assert_eq!((window.committed(), window.deadlocks()), (30, 1));
        assert_eq!(window.of(Kind::NewOrder).rolled_back, 0);
        assert_eq!(window.of(Kind::NewOrder).latency_us.len(), 30);
        let median = window.of(Kind::NewOrder).latency_us.value_at_quantile(0.5);
        assert!((990..=1_010).contains(&median), "{median} us");
        assert_eq!(after.new_orders_per_second, [1, 10, 10, 10]);
        assert_eq!(after.committed(), 32);
    }
}
