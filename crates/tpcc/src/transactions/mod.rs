//! The five transactions (clauses 2.4 to 2.8), each with the input that a terminal would send and the output
//! that it would show.
//!
//! **Locks.** Rows that will be changed are locked exclusively at their first read, always in this order,
//! which rules out deadlocks between the five (the store may still report one when two keys share a lock):
//!
//! 1. the warehouse's delivery lock (a key of NEW-ORDER that no row has) and rows of NEW-ORDER, district by
//!    district;
//! 2. a customer, then its orders, then their lines;
//! 3. stock rows by (warehouse, item);
//! 4. a district, then a warehouse;
//! 5. rows being inserted, which no other transaction can see.
//!
//! Delivery goes through 1 and 2 once for each district; it waits there only for customers held by a Payment
//! or an Order-Status, and for new orders held by a New-Order, none of which waits for a delivery while
//! holding these. The hot rows, districts and warehouses, are locked last, so they are held while little
//! remains to be done.
//!
//! **Isolation** (clause 3.4). New-Order, Payment, Delivery and Order-Status are serialisable: what they read
//! without a lock are columns that no transaction changes (W_TAX, C_DISCOUNT, ITEM, the index by name).
//! Stock-Level reads committed orders, as clause 2.8.2.3 allows; its one deviation is that an S_QUANTITY may
//! be a New-Order's that has not committed yet.

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

/// Which of the five.
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
    /// All of them, in the order of their discriminants.
    pub const ALL: [Kind; 5] =
        [Kind::NewOrder, Kind::Payment, Kind::OrderStatus, Kind::Delivery, Kind::StockLevel];

    /// As in the specification.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::NewOrder => "New-Order",
            Kind::Payment => "Payment",
            Kind::OrderStatus => "Order-Status",
            Kind::Delivery => "Delivery",
            Kind::StockLevel => "Stock-Level",
        }
    }

    /// Its place in [`Kind::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// Runs `body` in a transaction and commits; aborts if `body` fails, and returns its error.
fn commit<T>(store: &Store, body: impl FnOnce(&mut Txn) -> Result<T, TpccError>) -> Result<T, TpccError> {
    let mut txn = store.begin();
    match body(&mut txn) {
        Ok(output) => {
            txn.commit()?;
            Ok(output)
        }
        Err(error) => {
            // The first error is the one to tell: if aborting fails too, it is for the same reason.
            let _ = txn.abort();
            Err(error)
        }
    }
}
