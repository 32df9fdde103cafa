//! An embedded page store with transactions over the flash tier (docs/DESIGN.md §5).
//!
//! ```text
//!   Txn ── row locks ── B+-trees ── mini-transactions ──▶ log (own device)
//!                           │
//!                      buffer pool ──▶ Layer: flash tier, or disk alone
//! ```
//!
//! Small on purpose: what it takes to run TPC-C honestly and to prove recovery. All waiting goes through
//! `entresol_runtime`, so the same code runs on threads and in simulation.
//!
//! The invariant that all parts keep together: a page reaches the layer only after the log that describes its
//! changes is durable, and the log from the newest checkpoint on, with the pages that the layer then held
//! durably, is always enough to rebuild every committed row and to remove every other one.
#![forbid(unsafe_code)]

mod blank;
mod btree;
mod checkpoint;
mod core;
mod cpu;
mod disk_room;
mod durable;
mod error;
mod examine;
mod files;
mod id;
mod log_room;
mod metrics;
mod mtr;
mod options;
mod page;
mod points;
mod pool;
mod recovery;
mod space;
mod store;
mod txn;
mod undo_need;
mod wal;
mod watch;

pub use btree::verify::VerifyReport;
pub use cpu::CpuModel;
pub use error::StoreError;
pub use examine::{LogReport, examine_log};
pub use files::{Files, OpenFiles};
pub use id::{PageNumber, TxnId};
pub use metrics::{RestartReport, StoreMetrics};
pub use options::{MIN_FRAMES, Options, Parts, Replacement};
pub use points::POINTS;
pub use store::{Store, TABLE_NAME_MAX, Table};
pub use txn::Txn;
pub use txn::transaction::{Direction, Lock};
pub use watch::PageWatcher;
