//! The consistency conditions after a run.

use entresol_store::Store;
use entresol_tpcc::Database;
use entresol_tpcc::consistency::{Depth, check};

/// Whether conditions 1 to 7 of clause 3.3.2 hold (the specification asks for 1 to 4).
pub fn consistent(store: &Store) -> anyhow::Result<bool> {
    Ok(check(&Database::open(store)?, Depth::Orders)?.is_consistent())
}
