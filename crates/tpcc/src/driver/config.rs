//! What a run is made of.

use super::acknowledge::Acknowledge;
use crate::random::{Random, Seed};
use crate::transactions::Kind;
use std::sync::Arc;
use std::time::Duration;

/// How a run is set up. [`RunConfig::new`] gives the usual one.
#[derive(Clone)]
pub struct RunConfig {
    /// Clients, each running one transaction at a time.
    pub clients: u32,
    /// Where the clients' choices come from.
    pub seed: Seed,
    /// Which transactions.
    pub mix: Mix,
    /// Where the clients stand.
    pub home: Home,
    /// How long they wait between transactions.
    pub pace: Pace,
    /// A client ends after so many transactions; `None`: when the run is stopped.
    pub transactions_per_client: Option<u64>,
    /// Is told of every commit, after it has returned.
    pub acknowledge: Option<Arc<dyn Acknowledge>>,
}

impl RunConfig {
    /// The standard deck, fixed home warehouses, no waiting, no end.
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

/// Which transactions clients run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// A shuffled deck of 23 cards for each client: ten New-Order, ten Payment, one of each other (clause
    /// 5.2.4.2).
    Deck,
    /// Each drawn on its own with these weights, in the order of [`Kind::ALL`].
    Weighted([u32; 5]),
}

impl Mix {
    /// 45 New-Order, 43 Payment, 4 of each other, as BenchmarkSQL has it.
    pub const BENCHMARK_SQL: Mix = Mix::Weighted([45, 43, 4, 4, 4]);
}

/// Where a client stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// At one warehouse and district, spread evenly. With fewer clients than warehouses, most of the database
    /// is then touched only by remote orders and payments.
    Fixed,
    /// At another warehouse and district for each transaction, drawn uniformly: the whole database is in use
    /// whatever the number of clients. Not the specification's way.
    Anywhere,
}

/// How long clients wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Not at all.
    Unpaced,
    /// After each transaction, exponentially distributed with this mean.
    Think(Duration),
    /// The specification's keying and think times (clause 5.2.5.7).
    Standard,
}

impl Pace {
    /// The time before a transaction of `kind` and the time after it.
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
                // No longer than ten times the mean (clause 5.2.5.4).
                (Duration::from_secs(keying), exponential(mean, random).min(mean * 10))
            }
        }
    }
}

/// An exponentially distributed time, by von Neumann's comparisons: without logarithms it is the same on
/// every machine.
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
