//! The size of a database (clause 1.2, clause 4.3).

use crate::error::TpccError;

/// Districts of a warehouse. Fixed, also in scaled-down databases.
pub const DISTRICTS: u8 = 10;
/// Minimum number of lines of an order.
pub const LINES_MIN: u8 = 5;
/// Maximum number of lines of an order.
pub const LINES_MAX: u8 = 15;

/// Cardinalities. Those of the specification are given by [`Scale::standard`]. All others are *non-standard*,
/// for tests: they keep every relation between the tables, but not the specification's contention and
/// locality.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Number of warehouses, at least 1.
    pub warehouses: u32,
    /// Number of items, and of stock rows of each warehouse (standard: 100,000).
    pub items: u32,
    /// Number of customers of each district, and of orders loaded for each district (standard: 3,000).
    pub customers: u32,
}

impl Scale {
    /// The specification's cardinalities: 100,000 items, 3,000 customers per district.
    pub const fn standard(warehouses: u32) -> Self {
        Self { warehouses, items: 100_000, customers: 3_000 }
    }

    /// A small non-standard database for tests: 1,000 items, 60 customers per district.
    pub const fn tiny(warehouses: u32) -> Self {
        Self { warehouses, items: 1_000, customers: 60 }
    }

    /// Whether the cardinalities are the specification's.
    pub const fn is_standard(self) -> bool {
        self.items == 100_000 && self.customers == 3_000
    }

    /// Refuses invalid cardinalities.
    pub fn check(self) -> Result<Self, TpccError> {
        let bounds = [
            ("warehouses", self.warehouses, 1, 1_000_000, "1 ..= 1,000,000"),
            ("items", self.items, 20, 10_000_000, "20 ..= 10,000,000"),
            ("customers", self.customers, 10, 100_000, "10 ..= 100,000"),
        ];
        for (what, found, low, high, expected) in bounds {
            if !(low..=high).contains(&found) {
                return Err(TpccError::Scale { what, expected, found });
            }
        }
        Ok(self)
    }

    /// Number of districts of all warehouses.
    pub const fn districts(self) -> u64 {
        self.warehouses as u64 * DISTRICTS as u64
    }

    /// Number of customers of all warehouses; equal to the number of loaded orders.
    pub const fn all_customers(self) -> u64 {
        self.districts() * self.customers as u64
    }

    /// The first order of each district that is loaded undelivered: the newest 30 % are undelivered (clause
    /// 4.3.3.1: from 2,101 of 3,000).
    pub const fn first_undelivered(self) -> u32 {
        self.customers - self.customers * 3 / 10 + 1
    }

    /// Number of last names in use, `1 ..= 1000`.
    pub const fn last_names(self) -> u32 {
        if self.customers < 1_000 { self.customers } else { 1_000 }
    }
}
