//! What the tests share.
#![allow(dead_code, reason = "each test uses a part of it")]

mod store;

#[allow(unused_imports, reason = "each test uses a part of it")]
pub use store::{Devices, few_frames, new_store};

use entresol_runtime::sim::{SimConfig, Simulation};
use entresol_store::{Direction, Lock, Store, Table};
use entresol_tpcc::consistency::{Depth, Report, check};
use entresol_tpcc::random::Constants;
use entresol_tpcc::schema::{DistrictId, WarehouseId};
use entresol_tpcc::transactions::Terminal;
use entresol_tpcc::{Database, LoadConfig, Scale, Seed, load};

/// Loads a small database.
pub fn load_tiny(store: &Store, warehouses: u32, seed: u64) -> Database {
    let config = LoadConfig { scale: Scale::tiny(warehouses), seed: Seed(seed) };
    load(store, &config, &mut |_| ()).expect("the load succeeds")
}

/// Runs `main` in a simulation that picks the order of tasks from `seed`.
pub fn simulate<T>(seed: u64, main: impl FnOnce() -> T + Send) -> T {
    Simulation::new(SimConfig { seed, random_order: true, ..SimConfig::default() }).run(main).unwrap()
}

/// Asserts that all conditions hold.
pub fn assert_consistent(database: &Database) -> Report {
    let report = check(database, Depth::Full).expect("the check can read the database");
    assert!(report.is_consistent(), "{report}");
    report
}

/// Rows of a table.
pub fn count(store: &Store, table: Table) -> u64 {
    let mut rows = 0;
    let mut txn = store.begin();
    txn.scan(table, &[], &[u8::MAX; 64], Direction::Forward, Lock::None, &mut |_, _| {
        rows += 1;
        true
    })
    .expect("the table can be scanned");
    rows
}

/// A terminal at the first warehouse.
pub fn terminal(database: &Database) -> Terminal {
    Terminal {
        scale: database.scale(),
        constants: Constants::for_run(Seed(0), database.load_constants()),
        warehouse: WarehouseId::new(1),
        district: DistrictId::new(1),
    }
}
