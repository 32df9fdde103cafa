//! An embedded page store with transactions over the flash tier (docs/DESIGN.md §5).
//!
//! ```text
//!   Txn ── row locks ── B+-trees ── mini-transactions ──▶ log (own device)
//!                           │
//!                      buffer pool ──▶ Layer: flash tier, or disk alone
//! ```
//!
//! It is intentionally small: it has the functions to run TPC-C honestly and to prove recovery. All waits use
//! `entresol_runtime`, so the same code runs on threads and in simulation.
//!
//! `README.md` has the rooms of this crate, and the rules.
//!
//! Two invariants that all parts maintain together:
//! 1. A page is evicted to the layer only after the log records of its changes are durable.
//! 2. The log from the newest checkpoint on, and the pages that the layer had made durable by then, are
//!    always sufficient to rebuild every committed row and to remove every other row.
#![forbid(unsafe_code)]

mod access;
mod allocate;
mod blank;
mod btree;
mod bytes;
mod catalog;
mod checkpoint;
mod checkpoints;
mod core;
mod cpu;
mod disk_room;
mod durable;
mod error;
mod examine;
mod files;
mod history;
mod id;
mod locks;
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
mod table;
mod txn;
mod undo;
mod wal;
mod watch;
mod work;

pub use access::{Direction, Lock};
pub use btree::verify::VerifyReport;
pub use catalog::TABLE_NAME_MAX;
pub use cpu::CpuModel;
pub use entresol_core::PolicyKind;
pub use entresol_engine::DailyWrites;
pub use error::StoreError;
pub use examine::{LogReport, examine_log, is_log};
pub use files::{Files, OpenFiles};
pub use id::{PageNumber, TxnId};
pub use metrics::{RestartReport, StoreMetrics};
pub use options::{FlashLoss, MIN_FRAMES, Options, Parts, Replacement};
pub use points::POINTS;
pub use store::{FreeLog, Store};
pub use table::Table;
pub use txn::Txn;
pub use watch::PageWatcher;

/// The examples of README.md are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
