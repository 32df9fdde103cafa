//! `cargo xtask postgres bench`: the figures of docs/TESTING.md.

mod chart;
mod disk;
mod golden;
mod hits;
mod load;
mod memory;
mod overhead;
mod replay;
mod restart;
mod scans;
mod throttled;

use super::build::{Build, BuildArgs, make};
use super::module;
use crate::paths;
use crate::programs::{User, is_root};
use crate::step::Steps;
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// What `bench` may be told.
#[derive(Args, Debug)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: What,
    /// The user that servers run as [default: nobody].
    #[arg(long, value_name = "USER", global = true)]
    user: Option<String>,
    /// Writes every run, with its configuration and its counters, to FILE.
    #[arg(long, value_name = "FILE", global = true)]
    json: Option<PathBuf>,
    #[command(flatten)]
    build: BuildArgs,
}

#[derive(Subcommand, Debug)]
enum What {
    /// The server on a slow disk, with flash caches of several sizes and without one. Needs root: the disk is
    /// a loop device with a limit on requests a second.
    Throttled(throttled::ThrottledArgs),
    /// The time of a restart after a kill on the slow disk, and the throughput after it. Needs root.
    Restart(restart::RestartArgs),
    /// How long the server replays its log when the flash is lost under load, and what it had forecast. Needs
    /// root.
    Replay(replay::ReplayArgs),
    /// What the patches and the cache cost a server that has everything in DRAM. Needs root.
    Overhead(overhead::OverheadArgs),
    /// Backends that find every page on flash, one and more at a time. Needs root.
    Hits(hits::HitsArgs),
    /// Scans that find every page on flash, with many reads under way. Needs root.
    Scans(scans::ScansArgs),
    /// What the cache takes of DRAM.
    Memory(memory::MemoryArgs),
}

/// What every benchmark needs.
struct Rig {
    build: Build,
    user: User,
    steps: Steps,
    folder: PathBuf,
    json: Option<PathBuf>,
}

/// Measures.
///
/// # Errors
///
/// Something that is needed is missing, or a program fails.
pub fn bench(arguments: &BenchArgs) -> Result<()> {
    if !is_root()? {
        bail!("a disk with a limit is made by root alone; call this as root");
    }
    let user = User::named(Some(arguments.user.as_deref().unwrap_or("nobody")))?;
    arguments.what.check()?;
    let build = make(&arguments.build)?;
    module::install_extension(&build)?;
    let folder = paths::postgres().join("bench");
    std::fs::create_dir_all(&folder)?;
    let steps = Steps::new(&folder.join("bench.log"))?;
    let rig = Rig { build, user, steps, folder, json: arguments.json.clone() };
    match &arguments.what {
        What::Throttled(arguments) => throttled::measure(&rig, arguments),
        What::Restart(arguments) => restart::measure(&rig, arguments),
        What::Replay(arguments) => replay::measure(&rig, arguments),
        What::Overhead(arguments) => overhead::measure(&rig, arguments),
        What::Hits(arguments) => hits::measure(&rig, arguments),
        What::Scans(arguments) => scans::measure(&rig, arguments),
        What::Memory(arguments) => memory::measure(&rig, arguments),
    }
}

impl What {
    /// Refuses what cannot be measured before anything is built.
    fn check(&self) -> Result<()> {
        match self {
            What::Throttled(arguments) => arguments.check(),
            _ => Ok(()),
        }
    }
}
