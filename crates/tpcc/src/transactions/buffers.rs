//! Memory that a client uses again for every transaction, so that no row is allocated.

use crate::schema::{CustomerId, ItemId, OrderLineKey, OrderLineRow};

/// Scratch memory of one client.
#[derive(Default)]
pub struct Buffers {
    /// The row at hand.
    pub(super) row: Vec<u8>,
    /// A customer that is kept while other rows are read.
    pub(super) customer: Vec<u8>,
    /// Lines of the order at hand.
    pub(super) lines: Vec<(OrderLineKey, OrderLineRow)>,
    /// Customers of one last name.
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
