//! Sums of HISTORY, which is stored in the order of time: read once, for all checked warehouses.

use super::report::Report;
use crate::database::Database;
use crate::error::TpccError;
use crate::scale::DISTRICTS;
use crate::schema::{Cents, CustomerId, DistrictId, DistrictKey, HistoryKey, WarehouseId};
use entresol_store::{Direction, Lock, Txn};
use zerocopy::big_endian::{U32, U64};

/// Payments by place and by customer, at the warehouses `first ..= last`.
pub(super) struct Payments {
    first: u32,
    last: u32,
    customers: usize,
    at_district: Vec<Cents>,
    by_customer: Vec<Cents>,
}

impl Payments {
    pub(super) fn read(
        database: &Database,
        txn: &mut Txn,
        first: u32,
        last: u32,
        report: &mut Report,
    ) -> Result<Self, TpccError> {
        let districts = (last - first + 1) as usize * usize::from(DISTRICTS);
        let customers = database.scale().customers as usize;
        let mut payments = Self {
            first,
            last,
            customers,
            at_district: vec![Cents::ZERO; districts],
            by_customer: vec![Cents::ZERO; districts * customers],
        };
        let bound =
            |session, sequence| HistoryKey { session: U32::new(session), sequence: U64::new(sequence) };
        database.tables().history.scan(
            txn,
            &bound(0, 0),
            &bound(u32::MAX, u64::MAX),
            Direction::Forward,
            Lock::None,
            |_, row| {
                report.rows += 1;
                let paid_at = DistrictKey { warehouse: row.warehouse, district: row.district };
                if let Some(at) = payments.district(paid_at) {
                    payments.at_district[at] += row.amount;
                }
                let home = DistrictKey { warehouse: row.customer_warehouse, district: row.customer_district };
                if let Some(at) = payments.customer(home, row.customer) {
                    payments.by_customer[at] += row.amount;
                }
                true
            },
        )?;
        Ok(payments)
    }

    fn district(&self, key: DistrictKey) -> Option<usize> {
        let warehouse = key.warehouse.get();
        let known =
            (self.first..=self.last).contains(&warehouse) && (1..=DISTRICTS).contains(&key.district.get());
        known.then(|| {
            (warehouse - self.first) as usize * usize::from(DISTRICTS) + usize::from(key.district.get()) - 1
        })
    }

    fn customer(&self, key: DistrictKey, customer: CustomerId) -> Option<usize> {
        let number = customer.get() as usize;
        let known = (1..=self.customers).contains(&number);
        self.district(key).filter(|_| known).map(|district| district * self.customers + number - 1)
    }

    /// Paid at any district of the warehouse.
    pub(super) fn at_warehouse(&self, warehouse: WarehouseId) -> Cents {
        DistrictId::all().map(|district| self.at_district(DistrictKey { warehouse, district })).sum()
    }

    /// Paid at the district.
    pub(super) fn at_district(&self, key: DistrictKey) -> Cents {
        self.district(key).map_or(Cents::ZERO, |at| self.at_district[at])
    }

    /// Paid by the customer of the district, anywhere.
    pub(super) fn by_customer(&self, key: DistrictKey, customer: CustomerId) -> Cents {
        self.customer(key, customer).map_or(Cents::ZERO, |at| self.by_customer[at])
    }
}
