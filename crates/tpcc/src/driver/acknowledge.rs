//! What the outside is told of commits, so that a crash test can keep a record that the crash does not touch.

use crate::scale::DISTRICTS;
use crate::schema::{
    CarrierId, Cents, CustomerId, CustomerKey, DistrictId, DistrictKey, HistoryKey, OrderId, OrderKey,
    WarehouseId,
};

/// Is told of every commit.
pub trait Acknowledge: Send + Sync {
    /// Called by the client as soon as the commit has returned; must not block for long.
    fn acknowledge(&self, acknowledged: &Acknowledged);
}

impl<F: Fn(&Acknowledged) + Send + Sync> Acknowledge for F {
    fn acknowledge(&self, acknowledged: &Acknowledged) {
        self(acknowledged);
    }
}

/// One committed transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// The client's number, from 0.
    pub client: u32,
    /// How many transactions the client had finished before.
    pub sequence: u64,
    /// What must be found in the database from now on.
    pub effect: Effect,
}

/// What a committed transaction has left in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A new order with its lines.
    NewOrder {
        /// The order.
        key: OrderKey,
        /// Who ordered.
        customer: CustomerId,
        /// Number of lines.
        lines: u8,
    },
    /// A payment.
    Payment {
        /// Its row in HISTORY.
        key: HistoryKey,
        /// Where it was paid.
        district: DistrictKey,
        /// Who paid.
        customer: CustomerKey,
        /// How much.
        amount: Cents,
    },
    /// Deliveries.
    Delivery {
        /// The warehouse.
        warehouse: WarehouseId,
        /// Who delivered.
        carrier: CarrierId,
        /// The order delivered in each district.
        orders: [Option<OrderId>; DISTRICTS as usize],
    },
    /// An Order-Status or Stock-Level: nothing.
    Nothing,
}

impl Effect {
    /// The orders of a [`Effect::Delivery`].
    pub(super) fn delivered(
        warehouse: WarehouseId,
        orders: &[Option<OrderId>],
    ) -> impl Iterator<Item = OrderKey> {
        DistrictId::all()
            .zip(orders)
            .filter_map(move |(district, order)| order.map(|order| OrderKey { warehouse, district, order }))
    }
}
