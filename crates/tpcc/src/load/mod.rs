//! The initial database (clause 4.3.3), loaded table by table in key order.
//!
//! Invariant: the rows are a function of the scale and the seed alone. Each part of a table (a warehouse's
//! stock, a district's customers) has its own stream of random numbers. So tables with common facts (orders,
//! their lines and their index; customers and their index by name) generate the same facts without storing
//! them.

mod customer;
mod order;
mod place;
mod static_tables;

use crate::database::Database;
use crate::error::TpccError;
use crate::random::{Constants, Seed};
use crate::scale::Scale;
use crate::schema::{Record, Relation};
use entresol_store::Store;

/// The configuration of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadConfig {
    /// The size.
    pub scale: Scale,
    /// The seed of the content.
    pub seed: Seed,
}

/// The progress of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The table being loaded.
    pub table: &'static str,
    /// Number of rows loaded so far, in all tables.
    pub rows: u64,
    /// Approximate number of rows of all tables at the end (the number of order lines is random).
    pub rows_total: u64,
}

/// Number of rows between two progress reports.
const REPORT_EVERY: u64 = 1 << 16;

/// Loads a database into an empty store and makes it durable with a checkpoint. `progress` is called at
/// intervals and at the end of each table.
pub fn load(
    store: &Store,
    config: &LoadConfig,
    progress: &mut dyn FnMut(Progress),
) -> Result<Database, TpccError> {
    let constants = Constants::for_load(config.seed);
    let database = Database::create(store, config.scale, constants)?;
    let tables = database.tables();
    let mut loader = Loader { store, progress, rows: 0, rows_total: expected_rows(config.scale) };
    loader.fill(&tables.items, FULL, static_tables::items(config))?;
    loader.fill(&tables.warehouses, FULL, static_tables::warehouses(config))?;
    loader.fill(&tables.districts, FULL, static_tables::districts(config))?;
    loader.fill(&tables.customers, FULL, customer::customers(config, constants))?;
    loader.fill(&tables.customer_names, FULL, customer::customer_names(config, constants))?;
    loader.fill(&tables.history, FULL, customer::history(config))?;
    loader.fill(&tables.stock, FULL, static_tables::stock(config))?;
    loader.fill(&tables.orders, FULL, order::orders(config))?;
    loader.fill(&tables.customer_orders, ROOM_TO_GROW, order::customer_orders(config))?;
    loader.fill(&tables.new_orders, FULL, order::new_orders(config))?;
    loader.fill(&tables.order_lines, FULL, order::order_lines(config))?;
    store.checkpoint()?;
    Ok(database)
}

/// For tables that never grow, or grow only at the end of a district's part.
const FULL: f64 = 1.0;
/// For tables that grow at all places.
const ROOM_TO_GROW: f64 = 0.9;

fn expected_rows(scale: Scale) -> u64 {
    let warehouses = u64::from(scale.warehouses);
    let undelivered = u64::from(scale.customers - scale.first_undelivered() + 1) * scale.districts();
    // Customer, its index, history, order and its index; ten lines per order.
    u64::from(scale.items) * (warehouses + 1)
        + warehouses
        + scale.districts()
        + undelivered
        + scale.all_customers() * 15
}

struct Loader<'a> {
    store: &'a Store,
    progress: &'a mut dyn FnMut(Progress),
    rows: u64,
    rows_total: u64,
}

impl Loader<'_> {
    /// Fills one table with the keys and rows that `next` writes, until it returns false.
    fn fill<K: Record, R: Record>(
        &mut self,
        relation: &Relation<K, R>,
        fill: f64,
        mut next: impl FnMut(&mut K, &mut R) -> bool,
    ) -> Result<(), TpccError> {
        self.store.bulk_load(relation.table(), fill, &mut |key, row| {
            key.resize(size_of::<K>(), 0);
            row.resize(size_of::<R>(), 0);
            let more = next(
                K::mut_from_bytes(key).expect("the buffer has just been given the key's size"),
                R::mut_from_bytes(row).expect("the buffer has just been given the row's size"),
            );
            if more {
                self.rows += 1;
                if self.rows.is_multiple_of(REPORT_EVERY) {
                    let (rows, rows_total) = (self.rows, self.rows_total);
                    (self.progress)(Progress { table: relation.name(), rows, rows_total });
                }
            }
            more
        })?;
        let (rows, rows_total) = (self.rows, self.rows_total);
        (self.progress)(Progress { table: relation.name(), rows, rows_total });
        Ok(())
    }
}
