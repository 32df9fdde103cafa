//! Keys as TPC-C draws them.

use entresol_runtime::rng::Rng;

/// Districts of a warehouse.
pub(super) const DISTRICTS: u32 = 10;
/// Customers of a district.
pub(super) const CUSTOMERS: u32 = 3000;
/// Orders of a district after the load.
pub(super) const ORDERS: u32 = 3000;
/// The first of them that are not delivered.
pub(super) const UNDELIVERED: u32 = 2100;
/// Items, and stock rows of a warehouse.
pub(super) const ITEMS: u32 = 100_000;
/// Lines of an order, on the average.
pub(super) const LINES: u32 = 10;
/// Last names.
pub(super) const NAMES: u32 = 1000;

/// The constants C of NURand, drawn once for a run (clause 2.1.6.1).
#[derive(Clone, Copy, Debug)]
pub(super) struct Constants {
    item: u32,
    customer: u32,
    name: u32,
}

impl Constants {
    pub fn new(rng: &mut Rng) -> Self {
        let mut draw = |a: u32| between(rng, 0, a);
        Self { item: draw(8191), customer: draw(1023), name: draw(255) }
    }

    /// An item, from 0.
    pub fn item(&self, rng: &mut Rng) -> u32 {
        nurand(rng, 8191, self.item, 0, ITEMS - 1)
    }

    /// A customer of a district, from 0.
    pub fn customer(&self, rng: &mut Rng) -> u32 {
        nurand(rng, 1023, self.customer, 0, CUSTOMERS - 1)
    }

    /// A last name, from 0.
    pub fn name(&self, rng: &mut Rng) -> u32 {
        nurand(rng, 255, self.name, 0, NAMES - 1)
    }
}

/// A number from `low` to `high`.
pub(super) fn between(rng: &mut Rng, low: u32, high: u32) -> u32 {
    low + rng.below(u64::from(high - low) + 1) as u32
}

/// Whether something of this probability in per cent happens.
pub(super) fn percent(rng: &mut Rng, probability: u32) -> bool {
    rng.below(100) < u64::from(probability)
}

/// Clause 2.1.6: ((random(0, A) | random(x, y)) + C) mod (y - x + 1) + x.
fn nurand(rng: &mut Rng, a: u32, c: u32, x: u32, y: u32) -> u32 {
    ((between(rng, 0, a) | between(rng, x, y)) + c) % (y - x + 1) + x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_items_are_more_popular() {
        let mut rng = Rng::new(4);
        let constants = Constants::new(&mut rng);
        let mut counts = vec![0_u32; ITEMS as usize];
        for _ in 0..3_000_000 {
            counts[constants.item(&mut rng) as usize] += 1;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let share = |items: usize| f64::from(counts[..items].iter().sum::<u32>()) / 3_000_000.0;
        // Leutenegger and Dias (SIGMOD 1993, figure 3): 20 % of the items get 84 % of the stock accesses.
        assert!((share(20_000) - 0.84).abs() < 0.03, "{}", share(20_000));
    }
}
