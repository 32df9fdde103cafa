//! Notifications of commits. A crash test uses them for a record that a crash does not affect.

use crate::scale::DISTRICTS;
use crate::schema::{
    CarrierId, Cents, CustomerId, CustomerKey, DistrictId, DistrictKey, HistoryKey, OrderId, OrderKey,
    WarehouseId,
};

/// Gets a notification of every commit.
pub trait Acknowledge: Send + Sync {
    /// Called by the client immediately after the commit has returned; must not block for long.
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
    /// Number of transactions that the client had finished before.
    pub sequence: u64,
    /// The result that must be in the database from now on.
    pub effect: Effect,
}

/// The result of a committed transaction in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A new order with its lines.
    NewOrder {
        /// The order.
        key: OrderKey,
        /// The customer.
        customer: CustomerId,
        /// Number of lines.
        lines: u8,
    },
    /// A payment.
    Payment {
        /// Its row in HISTORY.
        key: HistoryKey,
        /// The district in which it was paid.
        district: DistrictKey,
        /// The customer that paid.
        customer: CustomerKey,
        /// The amount.
        amount: Cents,
    },
    /// The deliveries of a Delivery transaction.
    Delivery {
        /// The warehouse.
        warehouse: WarehouseId,
        /// The carrier.
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
