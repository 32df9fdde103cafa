//! The five transactions (clauses 2.4 to 2.8), each with the input from a terminal and the output for it.
//!
//! **Locks.** A row that will be changed is locked exclusively at its first read. The order of the locks is
//! always as below, so the five cannot deadlock with each other (the store may still report a deadlock when
//! two keys share a lock):
//!
//! 1. the warehouse's delivery lock (a key of NEW-ORDER that no row has) and rows of NEW-ORDER, district by
//!    district;
//! 2. a customer, then its orders, then their lines;
//! 3. stock rows by (warehouse, item);
//! 4. a district, then a warehouse;
//! 5. rows being inserted, which no other transaction can see.
//!
//! Delivery takes locks 1 and 2 once for each district. There it waits only for customers locked by a Payment
//! or an Order-Status, and for new orders locked by a New-Order. None of these waits for a delivery while it
//! holds these locks. The hot rows, districts and warehouses, are locked last, so the time until their
//! release is short.
//!
//! **Isolation** (clause 3.4). New-Order, Payment, Delivery and Order-Status are serialisable: they read
//! without a lock only columns that no transaction changes (W_TAX, C_DISCOUNT, ITEM, the index by name).
//! Stock-Level reads committed orders, as clause 2.8.2.3 allows. Its one deviation: an S_QUANTITY may be that
//! of a New-Order that has not committed yet.

mod buffers;
mod delivery;
mod input;
mod new_order;
mod order_status;
mod payment;
mod stock_level;

pub use buffers::Buffers;
pub use delivery::{DeliveryInput, DeliveryOutput, delivery};
pub use input::{CustomerChoice, Terminal};
pub use new_order::{LineInput, LineOutput, NewOrderInput, NewOrderOutcome, NewOrderOutput, new_order};
pub use order_status::{OrderStatusInput, OrderStatusOutput, order_status};
pub use payment::{PaymentInput, PaymentOutput, payment};
pub use stock_level::{StockLevelInput, StockLevelOutput, stock_level};

use crate::error::TpccError;
use entresol_store::{Store, Txn};

/// The kind of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Clause 2.4.
    NewOrder,
    /// Clause 2.5.
    Payment,
    /// Clause 2.6.
    OrderStatus,
    /// Clause 2.7.
    Delivery,
    /// Clause 2.8.
    StockLevel,
}

impl Kind {
    /// All kinds, in the order of their discriminants.
    pub const ALL: [Kind; 5] =
        [Kind::NewOrder, Kind::Payment, Kind::OrderStatus, Kind::Delivery, Kind::StockLevel];

    /// The name in the specification.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::NewOrder => "New-Order",
            Kind::Payment => "Payment",
            Kind::OrderStatus => "Order-Status",
            Kind::Delivery => "Delivery",
            Kind::StockLevel => "Stock-Level",
        }
    }

    /// Its index in [`Kind::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// Runs `body` in a transaction and commits. If `body` fails, aborts and returns its error.
fn commit<T>(store: &Store, body: impl FnOnce(&mut Txn) -> Result<T, TpccError>) -> Result<T, TpccError> {
    let mut txn = store.begin();
    match body(&mut txn) {
        Ok(output) => {
            txn.commit()?;
            Ok(output)
        }
        Err(error) => {
            // The first error is reported: if the abort fails too, it has the same reason.
            let _ = txn.abort();
            Err(error)
        }
    }
}
