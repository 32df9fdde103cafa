//! Fuzz targets for arbitrary bytes: every parser of data from a device, recovery as a whole, the trace
//! readers, and the NBD server. A target accepts or rejects its input. It does not panic, hang, or use more
//! memory than the options allow.
//!
//! One set of targets has three drivers. `fuzz/` wraps them for cargo-fuzz (coverage-guided, nightly
//! toolchain). Plain tests replay the corpus in `fuzz/corpus` on the stable toolchain, and run the seeded
//! [`mutate`] on it.
//!
//! Invariant: a target's result depends on its input alone.

mod blocks;
mod images;
mod log;
pub mod mutate;
mod nbd;
mod recover;
mod reseal;
mod samples;
mod trace;

pub use images::Images;
pub use samples::samples;

/// A function that takes arbitrary bytes.
#[derive(Clone, Copy)]
pub struct Target {
    /// Name of the target, of its corpus folder, and of the cargo-fuzz target.
    pub name: &'static str,
    /// Runs the target. Panics if it finds a defect.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [Target; 9] = [
    Target { name: "superblock", run: blocks::superblock },
    Target { name: "segment", run: blocks::segment },
    Target { name: "summary", run: blocks::summary },
    Target { name: "label", run: blocks::label },
    Target { name: "page", run: blocks::page },
    Target { name: "wal", run: log::wal },
    Target { name: "recover", run: recover::recover },
    Target { name: "trace", run: trace::trace },
    Target { name: "nbd", run: nbd::nbd },
];

/// The target of that name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}

/// For `fuzz/`: runs the target of that name.
///
/// # Panics
/// If the target finds a defect, or there is no such target.
pub fn run(name: &str, input: &[u8]) {
    let target = target(name).unwrap_or_else(|| panic!("there is no fuzz target {name:?}"));
    (target.run)(input);
}
