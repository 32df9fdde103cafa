//! Memory that a client reuses for every transaction, so that no row is allocated.

use crate::database::Database;
use crate::error::TpccError;
use crate::schema::{CustomerId, ItemId, OrderKey, OrderLineKey, OrderLineRow};
use entresol_store::{Direction, Lock, Txn};

/// Scratch memory of one client.
#[derive(Default)]
pub struct Buffers {
    /// The current row.
    pub(super) row: Vec<u8>,
    /// A customer row that is kept during reads of other rows.
    pub(super) customer: Vec<u8>,
    /// Lines of the current order.
    pub(super) lines: Vec<(OrderLineKey, OrderLineRow)>,
    /// Customers with the same last name.
    pub(super) customers: Vec<CustomerId>,
    /// Items of recent orders.
    pub(super) items: Vec<ItemId>,
}

impl Buffers {
    /// The lines that the last Order-Status has read.
    pub fn lines(&self) -> &[(OrderLineKey, OrderLineRow)] {
        &self.lines
    }
}

/// Reads the lines of an order into `lines`, in their order.
pub(super) fn read_lines(
    database: &Database,
    txn: &mut Txn,
    of: OrderKey,
    lock: Lock,
    lines: &mut Vec<(OrderLineKey, OrderLineRow)>,
) -> Result<(), TpccError> {
    let OrderKey { warehouse, district, order } = of;
    lines.clear();
    database.tables().order_lines.scan(
        txn,
        &OrderLineKey::first_of(warehouse, district, order),
        &OrderLineKey::first_of(warehouse, district, order.next()),
        Direction::Forward,
        lock,
        |key, line| {
            lines.push((*key, *line));
            true
        },
    )
}
