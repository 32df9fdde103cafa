//! Order-Status (clause 2.6): what became of a customer's last order.

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

/// What the terminal sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderStatusInput {
    /// The home warehouse.
    pub warehouse: WarehouseId,
    /// The customer's district.
    pub district: DistrictId,
    /// Who asks.
    pub customer: CustomerChoice,
}

impl OrderStatusInput {
    /// As clause 2.6.1 has it.
    pub fn generate(random: &mut Random, terminal: &Terminal) -> Self {
        Self {
            warehouse: terminal.warehouse,
            district: terminal.any_district(random),
            customer: terminal.customer(random),
        }
    }
}

/// What the terminal shows; the lines are in [`Buffers::lines`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderStatusOutput {
    /// Who asked.
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

/// Runs the transaction. Its shared locks follow the common order (customer, order, lines) and last until it
/// has read these few rows.
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
    // The load gives every customer an order.
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
