//! The Pareto distribution as sysbench draws it (`rand-type=pareto`): with `h` = 0.2, 20 % of the items get
//! 80 % of the references, and the same again within these 20 %. An item is `items * u^(ln h / ln (1 - h))`
//! for a uniform u.

use super::unit;
use entresol_runtime::rng::Rng;

/// The distribution over ranks `0 .. items`.
#[derive(Clone, Debug)]
pub(super) struct Pareto {
    items: u32,
    power: f64,
}

impl Pareto {
    /// `h` between 0 and 1.
    pub fn new(items: u32, h: f64) -> Self {
        Self { items, power: h.ln() / (1.0 - h).ln() }
    }

    /// A rank.
    pub fn sample(&self, rng: &mut Rng) -> u32 {
        let rank = f64::from(self.items) * unit(rng).powf(self.power);
        (rank as u32).min(self.items - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_gets_four_fifths() {
        let pareto = Pareto::new(10_000, 0.2);
        let mut rng = Rng::new(5);
        let samples: Vec<u32> = (0..200_000).map(|_| pareto.sample(&mut rng)).collect();
        let share =
            |limit: u32| samples.iter().filter(|&&rank| rank < limit).count() as f64 / samples.len() as f64;
        // Four standard errors of a share of 0.8 are 0.0036.
        assert!((share(2000) - 0.8).abs() < 0.0036, "{}", share(2000));
        assert!((share(400) - 0.64).abs() < 0.0043, "a fifth of the fifth: {}", share(400));
        assert_eq!(share(10_000), 1.0);
    }
}
