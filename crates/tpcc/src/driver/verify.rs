//! Verification after a restart: all transactions that were acknowledged before the crash must be there.

use super::acknowledge::{Acknowledged, Effect};
use crate::database::Database;
use crate::error::TpccError;
use crate::schema::{
    CarrierId, CustomerId, CustomerOrderKey, DistrictKey, NewOrderKey, OrderId, OrderKey, OrderLineKey,
};
use entresol_store::{Direction, Lock, Txn};
use std::fmt;

/// Maximum number of losses listed in full; the others are only counted.
const LISTED: usize = 20;

/// An acknowledged effect that is not in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The acknowledged transaction.
    pub acknowledged: Acknowledged,
    /// The expected content.
    pub expected: String,
    /// The content found.
    pub found: String,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}, found {}; acknowledged: {:?}", self.expected, self.found, self.acknowledged)
    }
}

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Number of acknowledged transactions checked.
    pub checked: u64,
    /// Number of them that are lost, completely or in part.
    pub lost: u64,
    /// The first of the losses.
    pub losses: Vec<Loss>,
}

impl fmt::Display for Verification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} acknowledged transactions checked, {} lost", self.checked, self.lost)?;
        for loss in &self.losses {
            write!(f, "\n  {loss}")?;
        }
        Ok(())
    }
}

/// Checks all acknowledged effects: each new order with its lines and its index entry, each payment in
/// HISTORY, each delivery. The database must be at rest.
pub fn verify_acknowledged<'a>(
    database: &Database,
    acknowledged: impl IntoIterator<Item = &'a Acknowledged>,
) -> Result<Verification, TpccError> {
    let mut verification = Verification::default();
    let mut row = Vec::new();
    let mut txn = database.store().begin();
    for &acknowledged in acknowledged {
        let mut search = Search { database, txn: &mut txn, row: &mut row };
        let missing = match acknowledged.effect {
            Effect::NewOrder { key, customer, lines } => search.new_order(key, customer, lines)?,
            Effect::Payment { .. } => search.payment(&acknowledged.effect)?,
            Effect::Delivery { warehouse, carrier, orders } => {
                let mut missing = None;
                for key in Effect::delivered(warehouse, &orders) {
                    missing = search.delivered(key, carrier)?;
                    if missing.is_some() {
                        break;
                    }
                }
                missing
            }
            Effect::Nothing => None,
        };
        verification.checked += 1;
        if let Some((expected, found)) = missing {
            verification.lost += 1;
            if verification.losses.len() < LISTED {
                verification.losses.push(Loss { acknowledged, expected, found });
            }
        }
    }
    txn.commit()?;
    Ok(verification)
}

/// The expected content and the content found.
type Missing = Option<(String, String)>;

struct Search<'a> {
    database: &'a Database,
    txn: &'a mut Txn,
    row: &'a mut Vec<u8>,
}

impl Search<'_> {
    fn new_order(&mut self, key: OrderKey, customer: CustomerId, lines: u8) -> Result<Missing, TpccError> {
        let tables = self.database.tables();
        let OrderKey { warehouse, district, order } = key;
        let Some(found) = tables.orders.get(self.txn, &key, Lock::None, self.row)? else {
            return Ok(Some((format!("order {key:?}"), "no such order".into())));
        };
        if (found.customer, found.lines) != (customer, lines) {
            return Ok(Some((
                format!("customer {customer} and {lines} lines in {key:?}"),
                format!("{found:?}"),
            )));
        }
        let delivered = !found.carrier.is_null();
        let count = self.lines(key, |_| true)?;
        if count != u32::from(lines) {
            return Ok(Some((format!("{lines} lines of {key:?}"), format!("{count} lines"))));
        }
        let by_customer = CustomerOrderKey { warehouse, district, customer, order };
        if tables.customer_orders.get(self.txn, &by_customer, Lock::None, self.row)?.is_none() {
            return Ok(Some((format!("index entry {by_customer:?}"), "no such entry".into())));
        }
        let waiting = NewOrderKey { warehouse, district, order };
        if !delivered && tables.new_orders.get(self.txn, &waiting, Lock::None, self.row)?.is_none() {
            return Ok(Some((format!("a carrier of {key:?}, or {waiting:?}"), "neither".into())));
        }
        let home = DistrictKey { warehouse, district };
        let next = tables.districts.require(self.txn, &home, Lock::None, self.row)?.next_order;
        if next <= order {
            return Ok(Some((format!("D_NEXT_O_ID of {home:?} above {order}"), next.to_string())));
        }
        Ok(None)
    }

    fn payment(&mut self, effect: &Effect) -> Result<Missing, TpccError> {
        let Effect::Payment { key, district, customer, amount } = *effect else { return Ok(None) };
        let Some(found) = self.database.tables().history.get(self.txn, &key, Lock::None, self.row)? else {
            return Ok(Some((format!("payment {key:?}"), "no such row".into())));
        };
        let same = found.amount == amount
            && (found.warehouse, found.district) == (district.warehouse, district.district)
            && (found.customer_warehouse, found.customer_district) == (customer.warehouse, customer.district)
            && found.customer == customer.customer;
        Ok((!same).then(|| (format!("payment {key:?} as acknowledged"), format!("{found:?}"))))
    }

    fn delivered(&mut self, key: OrderKey, carrier: CarrierId) -> Result<Missing, TpccError> {
        let tables = self.database.tables();
        let OrderKey { warehouse, district, order } = key;
        let Some(found) = tables.orders.get(self.txn, &key, Lock::None, self.row)? else {
            return Ok(Some((format!("delivered order {key:?}"), "no such order".into())));
        };
        if found.carrier != carrier {
            return Ok(Some((format!("carrier {carrier} of {key:?}"), format!("{found:?}"))));
        }
        let lines = u32::from(found.lines);
        let dated = self.lines(key, |delivered| delivered)?;
        if dated != lines {
            return Ok(Some((format!("{lines} lines of {key:?} with a delivery date"), dated.to_string())));
        }
        let waiting = NewOrderKey { warehouse, district, order };
        if tables.new_orders.get(self.txn, &waiting, Lock::None, self.row)?.is_some() {
            return Ok(Some((format!("no row {waiting:?}, as the order was delivered"), "the row".into())));
        }
        Ok(None)
    }

    /// Number of lines of an order for which `counts` returns true; its argument is whether the line is
    /// delivered.
    fn lines(&mut self, key: OrderKey, counts: impl Fn(bool) -> bool) -> Result<u32, TpccError> {
        let OrderKey { warehouse, district, order } = key;
        let bound = |order: OrderId| OrderLineKey::first_of(warehouse, district, order);
        let mut count = 0;
        self.database.tables().order_lines.scan(
            self.txn,
            &bound(order),
            &bound(order.next()),
            Direction::Forward,
            Lock::None,
            |_, line| {
                count += u32::from(counts(!line.delivery.is_null()));
                true
            },
        )?;
        Ok(count)
    }
}
