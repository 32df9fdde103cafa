//! A table whose rows tell how far a database has come: row `n` is there when the `n`-th commit is.

use entresol_device::Device;
use entresol_engine::DiskLayer;
use entresol_store::{Direction, Lock, Options, Parts, Store, StoreError};
use std::sync::Arc;

/// Bytes of a row.
const VALUE: usize = 300;

pub fn options() -> Options {
    Options { frames: 64, ..Options::default() }
}

pub fn create(disk: Arc<dyn Device>, log: Arc<dyn Device>) -> Result<Store, StoreError> {
    let layer = DiskLayer::create(disk, 4096)?;
    let store = Store::create(Parts { layer, log }, options())?;
    store.create_table("ledger")?;
    Ok(store)
}

pub fn open(disk: Arc<dyn Device>, log: Arc<dyn Device>) -> Result<Store, StoreError> {
    let layer = DiskLayer::open(disk, 4096)?;
    Ok(Store::open(Parts { layer, log }, options())?.0)
}

/// Commits rows until there are `rows`.
pub fn commit(store: &Store, rows: u32) -> Result<(), StoreError> {
    let table = store.table("ledger")?.expect("the table is there");
    for row in count(store)?..rows {
        let mut txn = store.begin();
        txn.insert(table, &row.to_be_bytes(), &[row as u8; VALUE])?;
        txn.commit()?;
    }
    Ok(())
}

/// Rows that there are. They must be the first ones, without a gap.
pub fn count(store: &Store) -> Result<u32, StoreError> {
    let table = store.table("ledger")?.expect("the table is there");
    let mut count = 0u32;
    let mut txn = store.begin();
    txn.scan(table, &[], &[0xff], Direction::Forward, Lock::None, &mut |key, value| {
        assert_eq!(key, count.to_be_bytes(), "a row is missing");
        assert_eq!(value, [count as u8; VALUE]);
        count += 1;
        true
    })?;
    txn.commit()?;
    Ok(count)
}
