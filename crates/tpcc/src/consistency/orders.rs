//! Conditions 2 to 7 and the index by customer, for one district.

use super::report::{Condition, Report};
use crate::database::Database;
use crate::error::TpccError;
use crate::schema::{
    Cents, CustomerId, CustomerOrderKey, DistrictKey, NewOrderKey, OrderId, OrderKey, OrderLineKey,
};
use entresol_store::{Direction, Lock, Txn};

/// The stored facts of an order.
#[derive(Clone, Copy, Debug)]
struct Order {
    customer: CustomerId,
    delivered: bool,
    lines: u8,
    lines_found: u8,
    new_orders: u8,
    indexed: u8,
}

/// The customer's index in a list; beyond the end of the list for a number without a customer.
fn place_of(customer: CustomerId) -> usize {
    (customer.get() as usize).wrapping_sub(1)
}

/// A district's orders; element `n` is of order `n + 1`.
#[derive(Default)]
pub(super) struct DistrictOrders {
    orders: Vec<Order>,
    /// Rows of NEW-ORDER.
    new_orders: u64,
    /// Sum of OL_AMOUNT of delivered lines; element `n` is of customer `n + 1`.
    delivered: Vec<Cents>,
}

impl DistrictOrders {
    /// Orders that have been delivered.
    pub(super) fn delivered_orders(&self) -> u64 {
        self.orders.len() as u64 - self.new_orders
    }

    /// The sum of the customer's delivered orders.
    pub(super) fn delivered_to(&self, customer: CustomerId) -> Cents {
        self.delivered.get(place_of(customer)).copied().unwrap_or_default()
    }

    fn order(&mut self, order: OrderId) -> Option<&mut Order> {
        self.orders.get_mut((order.get() as usize).checked_sub(1)?)
    }

    /// Reads the district and checks it.
    pub(super) fn check(
        &mut self,
        database: &Database,
        txn: &mut Txn,
        key: DistrictKey,
        next_order: OrderId,
        report: &mut Report,
    ) -> Result<(), TpccError> {
        self.read_orders(database, txn, key, next_order, report)?;
        self.read_new_orders(database, txn, key, next_order, report)?;
        self.read_lines(database, txn, key, report)?;
        self.read_index(database, txn, key, report)?;
        for (number, order) in (1..).zip(&self.orders) {
            let place = || format!("order {number} of {key:?}");
            report.expect(Condition::Carrier, place, u8::from(!order.delivered), order.new_orders);
            report.expect(Condition::OrderLines, place, order.lines, order.lines_found);
            report.expect(Condition::OrderIndex, place, 1, order.indexed);
        }
        Ok(())
    }

    fn read_orders(
        &mut self,
        database: &Database,
        txn: &mut Txn,
        key: DistrictKey,
        next_order: OrderId,
        report: &mut Report,
    ) -> Result<(), TpccError> {
        let DistrictKey { warehouse, district } = key;
        let bound = |order| OrderKey { warehouse, district, order: OrderId::new(order) };
        let orders = &mut self.orders;
        orders.clear();
        self.delivered.clear();
        self.delivered.resize(database.scale().customers as usize, Cents::ZERO);
        database.tables().orders.scan(
            txn,
            &bound(0),
            &bound(u32::MAX),
            Direction::Forward,
            Lock::None,
            |key, row| {
                report.rows += 1;
                let expected = OrderId::new(orders.len() as u32 + 1);
                report.expect(Condition::OrderIndex, || format!("{key:?}, next order"), expected, key.order);
                orders.push(Order {
                    customer: row.customer,
                    delivered: !row.carrier.is_null(),
                    lines: row.lines,
                    lines_found: 0,
                    new_orders: 0,
                    indexed: 0,
                });
                true
            },
        )?;
        let newest = OrderId::new(orders.len() as u32);
        report.expect(
            Condition::NextOrder,
            || format!("{key:?}, D_NEXT_O_ID after the newest order"),
            newest.next(),
            next_order,
        );
        Ok(())
    }

    fn read_new_orders(
        &mut self,
        database: &Database,
        txn: &mut Txn,
        key: DistrictKey,
        next_order: OrderId,
        report: &mut Report,
    ) -> Result<(), TpccError> {
        let DistrictKey { warehouse, district } = key;
        let bound = |order| NewOrderKey { warehouse, district, order: OrderId::new(order) };
        let mut ends: Option<(OrderId, OrderId)> = None;
        let mut count = 0;
        let place = |order: OrderId| format!("new order {order} of {key:?}");
        database.tables().new_orders.scan(
            txn,
            &bound(0),
            &bound(u32::MAX),
            Direction::Forward,
            Lock::None,
            |key, ()| {
                report.rows += 1;
                count += 1;
                if let Some((_, last)) = ends {
                    report.expect(Condition::NewOrderGaps, || place(key.order), last.next(), key.order);
                }
                ends = Some((ends.map_or(key.order, |(first, _)| first), key.order));
                match self.order(key.order) {
                    Some(order) => order.new_orders += 1,
                    None => report.violated(
                        Condition::Carrier,
                        || place(key.order),
                        || "an order of this number".into(),
                        || "none".into(),
                    ),
                }
                true
            },
        )?;
        self.new_orders = count;
        if let Some((_, last)) = ends {
            let place = || format!("{key:?}, D_NEXT_O_ID after the newest new order");
            report.expect(Condition::NextOrder, place, last.next(), next_order);
        }
        Ok(())
    }

    fn read_lines(
        &mut self,
        database: &Database,
        txn: &mut Txn,
        key: DistrictKey,
        report: &mut Report,
    ) -> Result<(), TpccError> {
        let DistrictKey { warehouse, district } = key;
        let bound = |order| OrderLineKey::first_of(warehouse, district, OrderId::new(order));
        let mut count = 0;
        database.tables().order_lines.scan(
            txn,
            &bound(0),
            &bound(u32::MAX),
            Direction::Forward,
            Lock::None,
            |key, row| {
                count += 1;
                let Some(order) = self.order(key.order) else {
                    report.violated(
                        Condition::OrderLines,
                        || format!("line {key:?}"),
                        || "an order of this number".into(),
                        || "none".into(),
                    );
                    return true;
                };
                order.lines_found = order.lines_found.saturating_add(1);
                let Order { customer, delivered, .. } = *order;
                report.expect(
                    Condition::DeliveryDate,
                    || format!("line {key:?}, has a delivery date"),
                    delivered,
                    !row.delivery.is_null(),
                );
                if delivered && let Some(sum) = self.delivered.get_mut(place_of(customer)) {
                    *sum += row.amount;
                }
                true
            },
        )?;
        report.rows += count;
        let sum = self.orders.iter().map(|order| u64::from(order.lines)).sum();
        report.expect(Condition::LineCount, || format!("{key:?}, order lines"), sum, count);
        Ok(())
    }

    fn read_index(
        &mut self,
        database: &Database,
        txn: &mut Txn,
        key: DistrictKey,
        report: &mut Report,
    ) -> Result<(), TpccError> {
        let DistrictKey { warehouse, district } = key;
        let bound = |customer| {
            let customer = CustomerId::new(customer);
            CustomerOrderKey { warehouse, district, customer, order: OrderId::new(0) }
        };
        database.tables().customer_orders.scan(
            txn,
            &bound(0),
            &bound(u32::MAX),
            Direction::Forward,
            Lock::None,
            |entry, ()| {
                report.rows += 1;
                let customer = self.order(entry.order).map(|order| {
                    order.indexed += 1;
                    order.customer
                });
                let place = || format!("entry {entry:?}, the order's customer");
                report.expect(Condition::OrderIndex, place, Some(entry.customer), customer);
                true
            },
        )
    }
}
