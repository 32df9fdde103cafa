//! Zipf's distribution: rank k (from 1) has a share proportional to k^-skew. Sampled by rejection-inversion
//! (Hörmann and Derflinger, *Rejection-Inversion to Generate Variates from Monotone Discrete Distributions*,
//! TOMACS 6(3), 1996): no table, a little more than one random number a sample.

use super::unit;
use entresol_runtime::rng::Rng;

/// The distribution over ranks `0 .. items`.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    items: f64,
    skew: f64,
    /// The integral of the hat at 1.5, less rank 1's weight, which is 1.
    low: f64,
    /// The integral of the hat at the end.
    high: f64,
    /// Samples this close to their rank are taken without a further look.
    near: f64,
}

impl Zipf {
    pub fn new(items: u32, skew: f64) -> Self {
        let mut zipf = Self { items: f64::from(items), skew, low: 0.0, high: 0.0, near: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(zipf.items + 0.5);
        zipf.near = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    fn weight(&self, x: f64) -> f64 {
        (-self.skew * x.ln()).exp()
    }

    /// The integral of the weight from 1 to `x`, up to a constant: (x^(1-s) - 1) / (1 - s), or ln x.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        ratio((1.0 - self.skew) * log, f64::exp_m1) * log
    }

    /// Its inverse.
    fn inverse(&self, y: f64) -> f64 {
        // At the lower end rounding may give a value outside the domain.
        let t = (y * (1.0 - self.skew)).max(-1.0);
        (ratio(t, f64::ln_1p) * y).exp()
    }

    /// A rank.
    pub fn sample(&self, rng: &mut Rng) -> u32 {
        loop {
            let u = self.high + unit(rng) * (self.low - self.high);
            let x = self.inverse(u);
            let k = (x + 0.5).floor().clamp(1.0, self.items);
            if k - x <= self.near || u >= self.integral(k + 0.5) - self.weight(k) {
                return k as u32 - 1;
            }
        }
    }
}

/// `f(x) / x`, also where x is close to 0 and `f(x)` close to x.
fn ratio(x: f64, f: fn(f64) -> f64) -> f64 {
    if x.abs() > 1e-8 { f(x) / x } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_their_shares() {
        for skew in [0.0, 0.5, 0.9, 1.0, 1.2] {
            let items = 1000_u32;
            let zipf = Zipf::new(items, skew);
            let mut rng = Rng::new(3);
            let samples = 400_000;
            let mut counts = vec![0_u32; items as usize];
            for _ in 0..samples {
                counts[zipf.sample(&mut rng) as usize] += 1;
            }
            let weight = |k: u32| f64::from(k).powf(-skew);
            let all: f64 = (1..=items).map(weight).sum();
            // Compared in ranges of ranks, so that chance is small against the share.
            for (first, last) in [(1, 1), (2, 3), (4, 20), (21, 200), (201, 1000)] {
                let expected = (first..=last).map(weight).sum::<f64>() / all;
                let found: u32 = counts[first as usize - 1..last as usize].iter().sum();
                let found = f64::from(found) / f64::from(samples);
                let error = (expected * (1.0 - expected) / f64::from(samples)).sqrt();
                assert!(
                    (found - expected).abs() < 5.0 * error,
                    "skew {skew}, {first}..={last}: {found} for {expected}"
                );
            }
        }
    }

    #[test]
    fn one_item_is_possible() {
        let zipf = Zipf::new(1, 0.9);
        assert!((0..100).all(|seed| zipf.sample(&mut Rng::new(seed)) == 0));
    }
}
