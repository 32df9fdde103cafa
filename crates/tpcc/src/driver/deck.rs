//! The sequence of a client's transactions.

use super::config::Mix;
use crate::random::Random;
use crate::transactions::Kind;

/// A client's source of transactions.
pub(super) struct Deck {
    mix: Mix,
    cards: Vec<Kind>,
}

impl Deck {
    pub(super) fn new(mix: Mix) -> Self {
        Self { mix, cards: Vec::with_capacity(23) }
    }

    pub(super) fn draw(&mut self, random: &mut Random) -> Kind {
        match self.mix {
            Mix::Deck => {
                if self.cards.is_empty() {
                    self.cards.extend([Kind::NewOrder; 10]);
                    self.cards.extend([Kind::Payment; 10]);
                    self.cards.extend([Kind::OrderStatus, Kind::Delivery, Kind::StockLevel]);
                    random.shuffle(&mut self.cards);
                }
                self.cards.pop().expect("an empty deck has just been filled")
            }
            Mix::Weighted(weights) => {
                let sum: u32 = weights.iter().sum();
                assert!(sum > 0, "a mix of no transactions");
                let mut drawn = random.uniform(0, sum - 1);
                for (kind, weight) in Kind::ALL.into_iter().zip(weights) {
                    if drawn < weight {
                        return kind;
                    }
                    drawn -= weight;
                }
                unreachable!("what is drawn is below the sum of the weights")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, Seed};

    fn shares(mix: Mix, draws: usize) -> [usize; 5] {
        let mut random = Random::stream(Seed(1), Purpose::Client, 0, 0);
        let mut deck = Deck::new(mix);
        let mut counts = [0; 5];
        for _ in 0..draws {
            counts[deck.draw(&mut random).index()] += 1;
        }
        counts
    }

    #[test]
    fn the_deck_deals_exact_shares() {
        assert_eq!(shares(Mix::Deck, 2_300), [1_000, 1_000, 100, 100, 100]);
    }

    #[test]
    fn weights_are_kept() {
        let counts = shares(Mix::BENCHMARK_SQL, 100_000);
        for (count, weight) in counts.into_iter().zip([45, 43, 4, 4, 4]) {
            assert!(count.abs_diff(weight * 1_000) < 500, "{counts:?}");
        }
        assert_eq!(shares(Mix::Weighted([0, 0, 0, 1, 0]), 50), [0, 0, 0, 50, 0]);
    }
}
