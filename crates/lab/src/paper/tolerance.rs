//! How far our numbers may be from a paper's words.

/// What a claim allows, as data. Bounds are of a value, or of a value relative to a base.
///
/// [`Tolerance::Exact`] and [`Tolerance::Direction`] leave no bound to choose. Claims with them compare their
/// numbers without asking the tolerance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// The value equals the base: arithmetic, or yes and no.
    Exact,
    /// Only the direction counts: the value is above the base.
    Direction,
    /// At least so much.
    AtLeast(f64),
    /// More than so much.
    Above(f64),
    /// At most so much.
    AtMost(f64),
    /// Less than so much.
    Below(f64),
    /// From the first to the second, both included.
    Between(f64, f64),
    /// A trend: each step may go back by this share of the value before it.
    StepBack(f64),
    /// The claim is judged once at each of these shares of a level.
    AtEach(&'static [f64]),
}

impl Tolerance {
    /// A quarter more or less than the paper's figure.
    pub const fn within_a_quarter(figure: f64) -> Self {
        let (nearer, farther) = (0.75 * figure, 1.25 * figure);
        if figure < 0.0 { Tolerance::Between(farther, nearer) } else { Tolerance::Between(nearer, farther) }
    }

    /// Whether it allows a value.
    pub fn allows(self, value: f64) -> bool {
        self.allows_of(value, 1.0)
    }

    /// Whether it allows a value, with bounds that are multiples of `base`. For a trend the value is the
    /// step, positive along the trend, and the base is the value before it.
    pub fn allows_of(self, value: f64, base: f64) -> bool {
        match self {
            Tolerance::Exact => value == base,
            Tolerance::Direction => value > base,
            Tolerance::AtLeast(least) => value >= least * base,
            Tolerance::Above(least) => value > least * base,
            Tolerance::AtMost(most) => value <= most * base,
            Tolerance::Below(most) => value < most * base,
            Tolerance::Between(least, most) => (least * base..=most * base).contains(&value),
            Tolerance::StepBack(share) => value >= -share * base.abs(),
            Tolerance::AtEach(shares) => shares.iter().all(|share| value >= share * base),
        }
    }

    /// The shares at which the claim is judged; none for other tolerances.
    pub const fn shares(self) -> &'static [f64] {
        match self {
            Tolerance::AtEach(shares) => shares,
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Tolerance::{self, *};

    #[test]
    fn bounds_are_met_or_not_as_their_names_say() {
        let cases: [(Tolerance, [bool; 3]); 9] = [
            (Exact, [false, true, false]),
            (Direction, [false, false, true]),
            (AtLeast(1.0), [false, true, true]),
            (Above(1.0), [false, false, true]),
            (AtMost(1.0), [true, true, false]),
            (Below(1.0), [true, false, false]),
            (Between(1.0, 1.25), [false, true, true]),
            (StepBack(-1.0), [false, true, true]),
            (AtEach(&[0.5, 1.0]), [false, true, true]),
        ];
        for (tolerance, expected) in cases {
            assert_eq!([0.75, 1.0, 1.25].map(|value| tolerance.allows(value)), expected, "{tolerance:?}");
            let scaled = [6.0, 8.0, 10.0].map(|value| tolerance.allows_of(value, 8.0));
            assert_eq!(scaled, expected, "{tolerance:?} of 8");
        }
        assert!(StepBack(0.01).allows_of(-0.5, 100.0) && !StepBack(0.01).allows_of(-1.5, 100.0));
        assert!(!Between(1.0, 1.25).allows(1.3));
    }

    #[test]
    fn a_quarter_of_a_loss_is_a_quarter_too() {
        let of =
            |figure| [-13.0, -9.0, -7.0, 7.0, 9.0].map(|v| Tolerance::within_a_quarter(figure).allows(v));
        assert_eq!(of(-10.0), [false, true, false, false, false]);
        assert_eq!(of(10.0), [false, false, false, false, true]);
    }

    #[test]
    fn a_number_that_is_none_is_never_allowed() {
        for tolerance in
            [Exact, Direction, AtLeast(0.0), Above(0.0), AtMost(9.0), Below(9.0), Between(0.0, 9.0)]
        {
            assert!(!tolerance.allows(f64::NAN), "{tolerance:?}");
        }
    }
}
