//! `cargo xtask postgres`: builds, runs and tests a PostgreSQL with the hooks of `doors/postgres`.

mod binding;
mod build;
mod cache;
mod faults;
mod kill;
mod model;
mod module;
mod run;
mod server;
pub mod source;
mod sql;
mod standby;
mod suites;
mod test;
mod tools;

pub use build::{BuildArgs, build};
pub use run::{RunArgs, run};
pub use test::{TestArgs, test};
