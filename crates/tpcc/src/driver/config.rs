//! The configuration of a run.

use super::acknowledge::Acknowledge;
use crate::random::{Random, Seed};
use crate::transactions::Kind;
use std::sync::Arc;
use std::time::Duration;

/// The settings of a run. [`RunConfig::new`] gives the usual ones.
#[derive(Clone)]
pub struct RunConfig {
    /// Number of clients. Each runs one transaction at a time.
    pub clients: u32,
    /// Seed of the clients' choices.
    pub seed: Seed,
    /// The mix of transactions.
    pub mix: Mix,
    /// The homes of the clients.
    pub home: Home,
    /// The wait times between transactions.
    pub pace: Pace,
    /// A client ends after this number of transactions; `None`: when the run is stopped.
    pub transactions_per_client: Option<u64>,
    /// Notified of every commit after it has returned.
    pub acknowledge: Option<Arc<dyn Acknowledge>>,
}

impl RunConfig {
    /// The standard deck, fixed home warehouses, no wait times, no end.
    pub fn new(clients: u32, seed: Seed) -> Self {
        Self {
            clients,
            seed,
            mix: Mix::Deck,
            home: Home::Fixed,
            pace: Pace::Unpaced,
            transactions_per_client: None,
            acknowledge: None,
        }
    }
}

/// The mix of transactions of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// A shuffled deck of 23 cards for each client: ten New-Order, ten Payment, one of each other (clause
    /// 5.2.4.2).
    Deck,
    /// Each transaction is drawn independently with these weights, in the order of [`Kind::ALL`].
    Weighted([u32; 5]),
}

impl Mix {
    /// 45 New-Order, 43 Payment, 4 of each other, as in BenchmarkSQL.
    pub const BENCHMARK_SQL: Mix = Mix::Weighted([45, 43, 4, 4, 4]);
}

/// The home of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// One warehouse and district, evenly distributed. With fewer clients than warehouses, most of the
    /// database is then accessed only by remote orders and payments.
    Fixed,
    /// Another warehouse and district for each transaction, drawn uniformly. So the whole database is
    /// accessed, for any number of clients. This differs from the specification.
    Anywhere,
}

/// The wait times of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// No wait times.
    Unpaced,
    /// After each transaction, exponentially distributed with this mean.
    Think(Duration),
    /// The specification's keying and think times (clause 5.2.5.7).
    Standard,
}

impl Pace {
    /// The wait times before and after a transaction of `kind`.
    pub(super) fn waits(self, kind: Kind, random: &mut Random) -> (Duration, Duration) {
        match self {
            Pace::Unpaced => (Duration::ZERO, Duration::ZERO),
            Pace::Think(mean) => (Duration::ZERO, exponential(mean, random)),
            Pace::Standard => {
                let (keying, think) = match kind {
                    Kind::NewOrder => (18, 12),
                    Kind::Payment => (3, 12),
                    Kind::OrderStatus => (2, 10),
                    Kind::Delivery | Kind::StockLevel => (2, 5),
                };
                let mean = Duration::from_secs(think);
                // At most ten times the mean (clause 5.2.5.4).
                (Duration::from_secs(keying), exponential(mean, random).min(mean * 10))
            }
        }
    }
}

/// An exponentially distributed time, by von Neumann's comparisons. This needs no logarithms, so it is the
/// same on every machine.
fn exponential(mean: Duration, random: &mut Random) -> Duration {
    let mut whole = 0u32;
    loop {
        let first = random.bits();
        let mut last = first;
        let mut falling = 1u32;
        loop {
            let next = random.bits();
            if next >= last {
                break;
            }
            last = next;
            falling += 1;
        }
        if falling % 2 == 1 {
            let fraction = (u128::from(first) * mean.as_nanos()) >> 64;
            return mean * whole + Duration::from_nanos(fraction as u64);
        }
        whole += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;

    #[test]
    fn exponential_has_its_mean_and_tail() {
        let mut random = Random::stream(Seed(1), Purpose::Client, 0, 0);
        let mean = Duration::from_millis(100);
        let draws: Vec<Duration> = (0..100_000).map(|_| exponential(mean, &mut random)).collect();
        let average = draws.iter().sum::<Duration>() / 100_000;
        assert!((98..=102).contains(&average.as_millis()), "mean {average:?}");
        // e^-2 of them are longer than twice the mean.
        let long = draws.iter().filter(|&&draw| draw > mean * 2).count();
        assert!((13_000..14_100).contains(&long), "{long} of 100,000 are longer than twice the mean");
    }
}
