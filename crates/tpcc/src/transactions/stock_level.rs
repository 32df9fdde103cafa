//! Stock-Level (clause 2.8): the number of items in a district's last 20 orders that are low in stock.

use super::{Buffers, Terminal, commit};
use crate::database::Database;
use crate::error::TpccError;
use crate::random::Random;
use crate::schema::{DistrictId, DistrictKey, OrderId, OrderLineKey, StockKey, WarehouseId};
use entresol_store::{Direction, Lock, Txn};

/// Number of orders examined.
const ORDERS: u32 = 20;

/// The input from the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StockLevelInput {
    /// The home warehouse.
    pub warehouse: WarehouseId,
    /// The terminal's district.
    pub district: DistrictId,
    /// Stock below this threshold is low, `10 ..= 20`.
    pub threshold: i16,
}

impl StockLevelInput {
    /// An input according to clause 2.8.1.
    pub fn generate(random: &mut Random, terminal: &Terminal) -> Self {
        Self {
            warehouse: terminal.warehouse,
            district: terminal.district,
            threshold: i16::from(random.uniform_u8(10, 20)),
        }
    }
}

/// The output for the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StockLevelOutput {
    /// Number of distinct items low in stock.
    pub low: u32,
    /// Number of distinct items examined.
    pub items: u32,
}

/// Runs the transaction, as two of the store's transactions (clause 2.8.2.3 allows that). The first one finds
/// the newest committed order under a short shared lock of the district. The second one reads lines and stock
/// without locks, so the district's New-Orders need not wait for hundreds of reads.
pub fn stock_level(
    database: &Database,
    buffers: &mut Buffers,
    input: &StockLevelInput,
) -> Result<StockLevelOutput, TpccError> {
    let StockLevelInput { warehouse, district, .. } = *input;
    let next = commit(database.store(), |txn| {
        let key = DistrictKey { warehouse, district };
        let home = database.tables().districts.require(txn, &key, Lock::Shared, &mut buffers.row)?;
        Ok(home.next_order)
    })?;
    commit(database.store(), |txn| count(database, txn, buffers, input, next))
}

fn count(
    database: &Database,
    txn: &mut Txn,
    buffers: &mut Buffers,
    input: &StockLevelInput,
    next: OrderId,
) -> Result<StockLevelOutput, TpccError> {
    let tables = database.tables();
    let StockLevelInput { warehouse, district, threshold } = *input;
    let items = &mut buffers.items;
    items.clear();
    tables.order_lines.scan(
        txn,
        &OrderLineKey::first_of(warehouse, district, OrderId::new(next.get().saturating_sub(ORDERS))),
        &OrderLineKey::first_of(warehouse, district, next),
        Direction::Forward,
        Lock::None,
        |_, line| {
            items.push(line.item);
            true
        },
    )?;
    items.sort_unstable();
    items.dedup();
    let mut low = 0;
    for &item in items.iter() {
        let key = StockKey { warehouse, item };
        let stock = tables.stock.require(txn, &key, Lock::None, &mut buffers.row)?;
        low += u32::from(stock.quantity.get() < threshold);
    }
    Ok(StockLevelOutput { low, items: items.len() as u32 })
}
