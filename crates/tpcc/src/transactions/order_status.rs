//! Order-Status (clause 2.6): the state of a customer's last order.

use super::buffers::read_lines;
use super::{Buffers, CustomerChoice, Terminal, commit};
use crate::database::Database;
use crate::error::TpccError;
use crate::random::Random;
use crate::schema::{
    CarrierId, Cents, CustomerId, CustomerKey, CustomerOrderKey, DistrictId, OrderId, OrderKey, Timestamp,
    WarehouseId,
};
use entresol_store::{Direction, Lock, Txn};

/// The input from the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderStatusInput {
    /// The home warehouse.
    pub warehouse: WarehouseId,
    /// The customer's district.
    pub district: DistrictId,
    /// The customer.
    pub customer: CustomerChoice,
}

impl OrderStatusInput {
    /// An input according to clause 2.6.1.
    pub fn generate(random: &mut Random, terminal: &Terminal) -> Self {
        Self {
            warehouse: terminal.warehouse,
            district: terminal.any_district(random),
            customer: terminal.customer(random),
        }
    }
}

/// The output for the terminal; the lines are in [`Buffers::lines`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderStatusOutput {
    /// The customer.
    pub customer: CustomerId,
    /// C_BALANCE.
    pub balance: Cents,
    /// The customer's newest order.
    pub order: OrderId,
    /// O_ENTRY_D.
    pub entry: Timestamp,
    /// O_CARRIER_ID.
    pub carrier: CarrierId,
}

/// Runs the transaction. Its shared locks follow the common order (customer, order, lines). They are held
/// only until it has read these few rows.
pub fn order_status(
    database: &Database,
    buffers: &mut Buffers,
    input: &OrderStatusInput,
) -> Result<OrderStatusOutput, TpccError> {
    commit(database.store(), |txn| look(database, txn, buffers, input))
}

fn look(
    database: &Database,
    txn: &mut Txn,
    buffers: &mut Buffers,
    input: &OrderStatusInput,
) -> Result<OrderStatusOutput, TpccError> {
    let tables = database.tables();
    let OrderStatusInput { warehouse, district, .. } = *input;
    let customer = input.customer.find(database, txn, warehouse, district, &mut buffers.customers)?;
    let row = &mut buffers.row;
    let key = CustomerKey { warehouse, district, customer };
    let balance = tables.customers.require(txn, &key, Lock::Shared, row)?.balance;

    let bound = |order| CustomerOrderKey { warehouse, district, customer, order: OrderId::new(order) };
    let mut newest = None;
    tables.customer_orders.scan(
        txn,
        &bound(0),
        &bound(u32::MAX),
        Direction::Backward,
        Lock::Shared,
        |key, ()| {
            newest = Some(key.order);
            false
        },
    )?;
    // The load creates an order for every customer.
    let order = newest.ok_or_else(|| TpccError::MissingRow {
        table: tables.customer_orders.name(),
        key: format!("{:?}", bound(0)),
    })?;
    let order_key = OrderKey { warehouse, district, order };
    let found = tables.orders.require(txn, &order_key, Lock::Shared, row)?;
    let (entry, carrier) = (found.entry, found.carrier);

    read_lines(database, txn, order_key, Lock::Shared, &mut buffers.lines)?;
    Ok(OrderStatusOutput { customer, balance, order, entry, carrier })
}
