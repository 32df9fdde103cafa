//! The consistency conditions of clause 3.3.2, checked on a database at rest.
//!
//! | condition | content |
//! |---|---|
//! | 1 | W_YTD = sum of D_YTD |
//! | 2 | D_NEXT_O_ID - 1 = newest order = newest new order |
//! | 3 | new orders of a district have no gaps |
//! | 4 | sum of O_OL_CNT = number of order lines |
//! | 5 | an order has no carrier if and only if it is a new order |
//! | 6 | O_OL_CNT = number of the order's lines |
//! | 7 | a line has no delivery date if and only if its order has no carrier |
//! | 8 | W_YTD = sum of H_AMOUNT at the warehouse |
//! | 9 | D_YTD = sum of H_AMOUNT at the district |
//! | 10 | C_BALANCE = sum of delivered OL_AMOUNT - sum of H_AMOUNT |
//! | 11 | orders - new orders = orders loaded as delivered + C_DELIVERY_CNT (2,100 at first, as in the clause) |
//! | 12 | C_BALANCE + C_YTD_PAYMENT = sum of delivered OL_AMOUNT |
//! | indexes (ours) | orders without gaps; one entry by customer for each order, and one by name for each customer |
//!
//! Invariant: each table is read once, in key order, without locks. The memory use is that of one district's
//! orders and, with [`Depth::Full`], 8 bytes for each customer.

mod customers;
mod digest;
mod orders;
mod payments;
mod report;

pub use digest::digest;
pub use report::{Condition, Report, Violation};

use crate::database::Database;
use crate::error::TpccError;
use crate::schema::{Cents, DistrictId, DistrictKey, WarehouseId, WarehouseKey};
use customers::check_customers;
use entresol_store::{Lock, Txn};
use orders::DistrictOrders;
use payments::Payments;

/// The extent of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Conditions 1 to 7 and the index by customer: reads warehouses, districts, orders and lines.
    Orders,
    /// All conditions: also reads customers and history.
    Full,
}

/// Checks all warehouses.
pub fn check(database: &Database, depth: Depth) -> Result<Report, TpccError> {
    check_range(database, depth, 1, database.scale().warehouses)
}

/// Checks one warehouse. With [`Depth::Full`] all of HISTORY is read nevertheless, because payments are
/// stored in the order of time.
pub fn check_warehouse(
    database: &Database,
    warehouse: WarehouseId,
    depth: Depth,
) -> Result<Report, TpccError> {
    check_range(database, depth, warehouse.get(), warehouse.get())
}

fn check_range(database: &Database, depth: Depth, first: u32, last: u32) -> Result<Report, TpccError> {
    let mut report = Report::default();
    let mut txn = database.store().begin();
    let payments = match depth {
        Depth::Orders => None,
        Depth::Full => Some(Payments::read(database, &mut txn, first, last, &mut report)?),
    };
    let mut check = Check { database, txn: &mut txn, payments, orders: DistrictOrders::default(), report };
    for number in first..=last {
        check.warehouse(WarehouseId::new(number))?;
    }
    let report = check.report;
    txn.commit()?;
    Ok(report)
}

struct Check<'a> {
    database: &'a Database,
    txn: &'a mut Txn,
    payments: Option<Payments>,
    /// Memory that is reused for each district.
    orders: DistrictOrders,
    report: Report,
}

impl Check<'_> {
    fn warehouse(&mut self, warehouse: WarehouseId) -> Result<(), TpccError> {
        let mut row = Vec::new();
        let tables = self.database.tables();
        let key = WarehouseKey { warehouse };
        let ytd = tables.warehouses.require(self.txn, &key, Lock::None, &mut row)?.ytd;
        self.report.rows += 1;
        let mut sum = Cents::ZERO;
        for district in DistrictId::all() {
            sum += self.district(DistrictKey { warehouse, district }, &mut row)?;
        }
        self.report.expect(Condition::WarehouseYtd, || format!("{key:?}, W_YTD"), sum, ytd);
        if let Some(payments) = &self.payments {
            let paid = payments.at_warehouse(warehouse);
            self.report.expect(Condition::WarehouseHistory, || format!("{key:?}, W_YTD"), paid, ytd);
        }
        Ok(())
    }

    /// Returns D_YTD.
    fn district(&mut self, key: DistrictKey, row: &mut Vec<u8>) -> Result<Cents, TpccError> {
        let tables = self.database.tables();
        let home = tables.districts.require(self.txn, &key, Lock::None, row)?;
        let (ytd, next_order) = (home.ytd, home.next_order);
        self.report.rows += 1;
        self.orders.check(self.database, self.txn, key, next_order, &mut self.report)?;
        if let Some(payments) = &self.payments {
            let paid = payments.at_district(key);
            self.report.expect(Condition::DistrictHistory, || format!("{key:?}, D_YTD"), paid, ytd);
            check_customers(self.database, self.txn, key, &self.orders, payments, &mut self.report)?;
        }
        Ok(ytd)
    }
}
