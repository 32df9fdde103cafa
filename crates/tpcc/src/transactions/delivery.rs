//! Delivery (clause 2.7): the oldest undelivered order of each district of a warehouse is delivered.
//!
//! It runs at once, within the client and in one transaction, without the queue of clause 2.7.2.1: there is
//! no deferred execution and no result file.

use super::buffers::read_lines;
use super::{Buffers, Terminal, commit};
use crate::database::Database;
use crate::error::TpccError;
use crate::random::Random;
use crate::scale::DISTRICTS;
use crate::schema::{
    CarrierId, Cents, CustomerKey, DistrictId, NewOrderKey, OrderId, OrderKey, Timestamp, WarehouseId,
};
use entresol_store::{Direction, Lock, Txn};
use zerocopy::little_endian::U16;

/// The input from the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryInput {
    /// The home warehouse.
    pub warehouse: WarehouseId,
    /// The carrier.
    pub carrier: CarrierId,
}

impl DeliveryInput {
    /// An input according to clause 2.7.1.
    pub fn generate(random: &mut Random, terminal: &Terminal) -> Self {
        Self { warehouse: terminal.warehouse, carrier: CarrierId::new(random.uniform_u8(1, 10)) }
    }
}

/// The output: the delivered orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryOutput {
    /// The order delivered in each district; `None` if all its orders had been delivered.
    pub orders: [Option<OrderId>; DISTRICTS as usize],
}

/// Runs the transaction.
pub fn delivery(
    database: &Database,
    buffers: &mut Buffers,
    input: &DeliveryInput,
) -> Result<DeliveryOutput, TpccError> {
    commit(database.store(), |txn| {
        // Only one delivery at a time in a warehouse. Otherwise a second one would take the second oldest
        // order while the first one may still abort and restore the oldest one.
        let lock = NewOrderKey::delivery_lock(input.warehouse);
        database.tables().new_orders.get(txn, &lock, Lock::Exclusive, &mut buffers.row)?;
        let mut output = DeliveryOutput::default();
        for (district, delivered) in DistrictId::all().zip(&mut output.orders) {
            *delivered = deliver_oldest(database, txn, buffers, input, district)?;
        }
        Ok(output)
    })
}

fn deliver_oldest(
    database: &Database,
    txn: &mut Txn,
    buffers: &mut Buffers,
    input: &DeliveryInput,
    district: DistrictId,
) -> Result<Option<OrderId>, TpccError> {
    let tables = database.tables();
    let warehouse = input.warehouse;
    let Some(order) = oldest(database, txn, warehouse, district)? else { return Ok(None) };
    let key = NewOrderKey { warehouse, district, order };
    if !tables.new_orders.delete(txn, &key)? {
        return Err(TpccError::MissingRow { table: tables.new_orders.name(), key: format!("{key:?}") });
    }

    // Only deliveries change an order. So under the delivery lock this unlocked read returns the newest
    // committed version. It gives the customer, which must be locked first.
    let order_key = OrderKey { warehouse, district, order };
    let order_row = tables.orders.require(txn, &order_key, Lock::None, &mut buffers.row)?;
    let customer_key = CustomerKey { warehouse, district, customer: order_row.customer };
    let customer = tables.customers.require(txn, &customer_key, Lock::Exclusive, &mut buffers.customer)?;
    order_row.carrier = input.carrier;
    tables.orders.update(txn, &order_key, order_row)?;

    let now = Timestamp::now();
    let mut amount = Cents::ZERO;
    read_lines(database, txn, order_key, Lock::Exclusive, &mut buffers.lines)?;
    for (key, line) in &mut buffers.lines {
        amount += line.amount;
        line.delivery = now;
        tables.order_lines.update(txn, key, line)?;
    }

    customer.balance += amount;
    customer.deliveries = U16::new(customer.deliveries.get().wrapping_add(1));
    tables.customers.update(txn, &customer_key, customer)?;
    Ok(Some(order))
}

/// The oldest undelivered order, locked exclusively.
fn oldest(
    database: &Database,
    txn: &mut Txn,
    warehouse: WarehouseId,
    district: DistrictId,
) -> Result<Option<OrderId>, TpccError> {
    let bound = |order| NewOrderKey { warehouse, district, order: OrderId::new(order) };
    let mut oldest = None;
    database.tables().new_orders.scan(
        txn,
        &bound(0),
        &bound(u32::MAX),
        Direction::Forward,
        Lock::Exclusive,
        |key, ()| {
            oldest = Some(key.order);
            false
        },
    )?;
    Ok(oldest)
}
