//! Conditions 10 to 12 and the index by name, for one district.

use super::orders::DistrictOrders;
use super::payments::Payments;
use super::report::{Condition, Report};
use crate::database::Database;
use crate::error::TpccError;
use crate::schema::{CustomerId, CustomerKey, CustomerNameKey, DistrictId, DistrictKey, Text};
use entresol_store::{Direction, Lock, Txn};

pub(super) fn check_customers(
    database: &Database,
    txn: &mut Txn,
    key: DistrictKey,
    orders: &DistrictOrders,
    payments: &Payments,
    report: &mut Report,
) -> Result<(), TpccError> {
    let DistrictKey { warehouse, district } = key;
    let tables = database.tables();
    let bound = |customer| CustomerKey { warehouse, district, customer: CustomerId::new(customer) };
    let mut names: Vec<(Text<16>, Text<16>, CustomerId)> = Vec::new();
    let mut deliveries = 0;
    tables.customers.scan(
        txn,
        &bound(0),
        &bound(u32::MAX),
        Direction::Forward,
        Lock::None,
        |customer, row| {
            report.rows += 1;
            deliveries += u64::from(row.deliveries.get());
            names.push((row.last, row.first, customer.customer));
            let delivered = orders.delivered_to(customer.customer);
            let paid = payments.by_customer(key, customer.customer);
            let place = || format!("{customer:?}, C_BALANCE");
            report.expect(Condition::Balance, place, delivered - paid, row.balance);
            let place = || format!("{customer:?}, C_BALANCE + C_YTD_PAYMENT");
            report.expect(Condition::BalanceAndPayments, place, delivered, row.balance + row.ytd_payment);
            true
        },
    )?;
    let at_load = u64::from(database.scale().first_undelivered() - 1);
    let place = || format!("{key:?}, orders - new orders");
    report.expect(Condition::Deliveries, place, at_load + deliveries, orders.delivered_orders());

    names.sort_unstable();
    let mut expected = names.iter();
    let bound = |district| CustomerNameKey {
        warehouse,
        district,
        last: Text::default(),
        first: Text::default(),
        customer: CustomerId::new(0),
    };
    tables.customer_names.scan(
        txn,
        &bound(district),
        &bound(DistrictId::new(district.get() + 1)),
        Direction::Forward,
        Lock::None,
        |entry, ()| {
            report.rows += 1;
            let found = Some((entry.last, entry.first, entry.customer));
            let place = || format!("entry {entry:?}");
            report.expect(Condition::NameIndex, place, expected.next().copied(), found);
            true
        },
    )?;
    let place = || format!("{key:?}, end of the index");
    report.expect(Condition::NameIndex, place, None, expected.next());
    Ok(())
}
