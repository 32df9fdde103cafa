//! `cargo xtask block`: measures the block door, and kills its server under real systems.

mod attached;
mod bench;
mod fio;
mod guest;
mod rig;
mod test;
mod volume;

pub use bench::{BenchArgs, bench};
pub use test::{TestArgs, test};
