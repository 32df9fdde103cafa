//! The TPC-C workload (specification revision 5.11) on Entresol's store. It is a *TPC-C workload, not a TPC
//! result*: there are no terminals, no audited run, and by default no keying and think times.
//!
//! ```text
//! load ──▶ Database ──▶ driver: clients run the five transactions ──▶ snapshots, tpmC per second, acknowledgements
//!              └──────▶ consistency: the conditions of clause 3.3.2; verification of what was acknowledged
//! ```
//!
//! Clause numbers refer to the specification.
#![forbid(unsafe_code)]

pub mod consistency;
mod database;
pub mod driver;
mod error;
pub mod load;
pub mod random;
pub mod scale;
pub mod schema;
pub mod transactions;

pub use database::Database;
pub use driver::{Acknowledged, Run, RunConfig, Statistics, run, start, verify_acknowledged};
pub use error::TpccError;
pub use load::{LoadConfig, load};
pub use random::Seed;
pub use scale::Scale;
pub use transactions::Kind;
