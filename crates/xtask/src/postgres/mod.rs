//! `cargo xtask postgres`: builds, runs and tests a PostgreSQL with the hooks of `doors/postgres`.

mod bench;
mod binding;
mod build;
mod cache;
mod counters;
mod dies;
mod disk;
mod explain;
mod failover;
mod faults;
mod keep_out;
mod kept;
mod kill;
mod loopback;
mod model;
mod module;
mod path;
mod run;
mod server;
mod snapshot;
pub mod source;
mod sql;
mod standby;
mod suites;
mod tap;
mod test;
mod tools;
mod try_version;
mod upgrade;
pub mod version;

pub use bench::{BenchArgs, bench};
pub use build::{BuildArgs, build};
pub use run::{RunArgs, run};
pub use test::{TestArgs, test};
pub use try_version::{TryArgs, try_version};
