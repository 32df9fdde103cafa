//! The result of a check.

use std::fmt::{self, Debug};

/// A condition of clause 3.3.2, or one of our own about indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Condition {
    /// Condition 1.
    WarehouseYtd,
    /// Condition 2.
    NextOrder,
    /// Condition 3.
    NewOrderGaps,
    /// Condition 4.
    LineCount,
    /// Condition 5.
    Carrier,
    /// Condition 6.
    OrderLines,
    /// Condition 7.
    DeliveryDate,
    /// Condition 8.
    WarehouseHistory,
    /// Condition 9.
    DistrictHistory,
    /// Condition 10.
    Balance,
    /// Condition 11.
    Deliveries,
    /// Condition 12.
    BalanceAndPayments,
    /// Orders have no gaps; each has one entry in the index by customer.
    OrderIndex,
    /// Each customer has one entry in the index by name.
    NameIndex,
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::OrderIndex => write!(f, "index of orders by customer"),
            Condition::NameIndex => write!(f, "index of customers by name"),
            clause => write!(f, "condition 3.3.2.{}", *clause as u8 + 1),
        }
    }
}

/// A place where a condition does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The condition.
    pub condition: Condition,
    /// The row, and the column or sum.
    pub place: String,
    /// The expected value.
    pub expected: String,
    /// The value found.
    pub found: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation { condition, place, expected, found } = self;
        write!(f, "{condition} violated at {place}: expected {expected}, found {found}")
    }
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Rows and index entries read.
    pub rows: u64,
    /// Comparisons made.
    pub comparisons: u64,
    /// The first violation of each condition, in the order in which they were found.
    pub violations: Vec<Violation>,
    /// Number of violations of all conditions.
    pub violations_total: u64,
}

impl Report {
    /// Whether all conditions hold.
    pub fn is_consistent(&self) -> bool {
        self.violations_total == 0
    }

    /// Compares; calls `place` only if the values differ.
    pub(super) fn expect<T: PartialEq + Debug>(
        &mut self,
        condition: Condition,
        place: impl FnOnce() -> String,
        expected: T,
        found: T,
    ) {
        self.comparisons += 1;
        if expected != found {
            self.violated(condition, place, || format!("{expected:?}"), || format!("{found:?}"));
        }
    }

    pub(super) fn violated(
        &mut self,
        condition: Condition,
        place: impl FnOnce() -> String,
        expected: impl FnOnce() -> String,
        found: impl FnOnce() -> String,
    ) {
        self.violations_total += 1;
        if self.violations.iter().all(|violation| violation.condition != condition) {
            let violation = Violation { condition, place: place(), expected: expected(), found: found() };
            self.violations.push(violation);
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { rows, comparisons, violations, violations_total } = self;
        write!(f, "{rows} rows, {comparisons} comparisons, {violations_total} violations")?;
        for violation in violations {
            write!(f, "\n  {violation}")?;
        }
        Ok(())
    }
}
