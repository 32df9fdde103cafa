//! Column values as types: money, rates, instants, addresses.
//!
//! Invariant: numbers are stored little-endian with a fixed size, so every row can be read and changed in
//! place.

use super::Text;
use std::fmt;
use zerocopy::little_endian::{I64, U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// An amount of money in cents, possibly negative.
#[derive(
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(transparent)]
pub struct Cents(I64);

impl Cents {
    /// No money.
    pub const ZERO: Cents = Cents::new(0);

    /// This many cents.
    pub const fn new(cents: i64) -> Self {
        Self(I64::new(cents))
    }
    /// This many whole units of money.
    pub const fn whole(units: i64) -> Self {
        Self::new(units * 100)
    }
    /// The number of cents.
    pub const fn get(self) -> i64 {
        self.0.get()
    }
}

impl std::ops::Add for Cents {
    type Output = Cents;
    fn add(self, other: Cents) -> Cents {
        Cents::new(self.get() + other.get())
    }
}

impl std::ops::Sub for Cents {
    type Output = Cents;
    fn sub(self, other: Cents) -> Cents {
        Cents::new(self.get() - other.get())
    }
}

impl std::ops::AddAssign for Cents {
    fn add_assign(&mut self, other: Cents) {
        *self = *self + other;
    }
}

impl std::ops::SubAssign for Cents {
    fn sub_assign(&mut self, other: Cents) {
        *self = *self - other;
    }
}

impl std::ops::Mul<u8> for Cents {
    type Output = Cents;
    fn mul(self, times: u8) -> Cents {
        Cents::new(self.get() * i64::from(times))
    }
}

impl std::iter::Sum for Cents {
    fn sum<I: Iterator<Item = Cents>>(iter: I) -> Cents {
        iter.fold(Cents::ZERO, |sum, cents| sum + cents)
    }
}

impl fmt::Display for Cents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.get() < 0 { "-" } else { "" };
        let cents = self.get().unsigned_abs();
        write!(f, "{sign}{}.{:02}", cents / 100, cents % 100)
    }
}

impl fmt::Debug for Cents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An instant: microseconds of runtime time plus two; 0 represents the specification's null.
#[derive(
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(transparent)]
pub struct Timestamp(U64);

impl Timestamp {
    /// Null: the event has not happened.
    pub const NULL: Timestamp = Timestamp(U64::ZERO);
    /// The time of the load: before any instant of a run.
    pub const LOAD: Timestamp = Timestamp(U64::new(1));

    /// The current runtime time.
    pub fn now() -> Self {
        Self(U64::new(entresol_runtime::now().0 / 1_000 + 2))
    }
    /// Whether this represents null.
    pub const fn is_null(self) -> bool {
        self.0.get() == 0
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} us", self.0.get())
    }
}

/// A rate in hundredths of a percent, `0 ..= 10_000`.
#[derive(
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(transparent)]
pub struct Rate(U16);

impl Rate {
    /// The whole: 100 %.
    pub const WHOLE: Rate = Rate::new(10_000);

    /// This many hundredths of a percent.
    pub const fn new(basis_points: u16) -> Self {
        Self(U16::new(basis_points))
    }
    /// The number of hundredths of a percent.
    pub const fn get(self) -> u16 {
        self.0.get()
    }
}

impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02} %", self.get() / 100, self.get() % 100)
    }
}

/// A postal address.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Address {
    /// First line.
    pub street_1: Text<20>,
    /// Second line.
    pub street_2: Text<20>,
    /// City.
    pub city: Text<20>,
    /// Two letters.
    pub state: Text<2>,
    /// Four digits and "11111" (clause 4.3.2.7).
    pub zip: Text<9>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cents_print_as_money() {
        assert_eq!(Cents::new(-1_005).to_string(), "-10.05");
        assert_eq!((Cents::new(250) * 3 - Cents::new(51)).to_string(), "6.99");
    }
}
