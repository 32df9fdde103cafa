//! What is fed with arbitrary bytes: every parser of what comes from a device, recovery as a whole,
//! and the readers of traces. It opens or is
//! refused; it does not panic, hang, or take more memory than the options say.
//!
//! One set of targets, three drivers: `fuzz/` wraps them for cargo-fuzz (coverage-guided, nightly toolchain);
//! plain tests replay the corpus in `fuzz/corpus` on the stable one, and run the seeded [`mutate`] over it.
//!
//! Invariant: a target's result depends on its input alone.

mod blocks;
mod images;
mod log;
pub mod mutate;
mod recover;
mod reseal;
mod samples;
mod trace;

pub use images::Images;
pub use samples::samples;

/// Something that takes arbitrary bytes.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name: of the corpus folder, and of the cargo-fuzz target.
    pub name: &'static str,
    /// Runs it; panics if something is wrong.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [Target; 8] = [
    Target { name: "superblock", run: blocks::superblock },
    Target { name: "segment", run: blocks::segment },
    Target { name: "summary", run: blocks::summary },
    Target { name: "label", run: blocks::label },
    Target { name: "page", run: blocks::page },
    Target { name: "wal", run: log::wal },
    Target { name: "recover", run: recover::recover },
    Target { name: "trace", run: trace::trace },
];

/// The target of that name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}

/// For `fuzz/`: the target of that name, run.
///
/// # Panics
/// If something is wrong, or there is no such target.
pub fn run(name: &str, input: &[u8]) {
    let target = target(name).unwrap_or_else(|| panic!("there is no fuzz target {name:?}"));
    (target.run)(input);
}
