//! `cargo xtask block bench`: figures of docs/results.

mod databases;
mod flush;
mod hits;
mod memory;
mod never_slower;
mod peers;
mod restart;
mod tpcc;

use super::rig::Rig;
use anyhow::Result;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// What `bench` may be told.
#[derive(Args, Debug)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: What,
    /// Where the files of the run are [default: target/block]; a folder in memory leaves the machine's disk
    /// out.
    #[arg(long, value_name = "FOLDER", global = true)]
    folder: Option<PathBuf>,
    /// Writes every measurement to FILE.
    #[arg(long, value_name = "FILE", global = true)]
    json: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Reads of a warm volume, of nbdkit and of qemu-nbd, in turn, through the page cache and past it; with
    /// the servers' processor time.
    Hits(hits::HitsArgs),
    /// Writes with a flush after each: a raw file, nbdkit, and a volume in both modes, in turn.
    Flush(flush::FlushArgs),
    /// The part of the reads that the cache serves before a stop and after it: a clean one, and a kill.
    Restart(restart::RestartArgs),
    /// A cache that does not pay, on limited devices, and the same volume without its cache, in turn. Only
    /// for root, with control groups of version 1.
    NeverSlower(never_slower::NeverSlowerArgs),
    /// PostgreSQL or MariaDB on a slow disk, without a cache and with several. Only for root, with control
    /// groups of version 1.
    Databases(databases::DatabasesArgs),
    /// TPC-C of the store under the wall clock on a slow disk, under several policies. Only for root, with
    /// control groups of version 1; 6 GB.
    Tpcc(tpcc::TpccArgs),
    /// The kernel's caches and ours, in a guest of QEMU on the same limited devices: dm-cache, dm-writecache,
    /// bcache, volumes by ublk and NBD; after a power failure, too.
    Peers(peers::PeersArgs),
    /// DRAM for each slot of the cache, between two sizes of flash.
    Memory(memory::MemoryArgs),
}

/// Measures.
///
/// # Errors
///
/// Something that is needed is missing, or a program fails.
pub fn bench(arguments: &BenchArgs) -> Result<()> {
    let json = arguments.json.as_deref();
    let rig = || Rig::new(arguments.folder.as_deref());
    match &arguments.what {
        What::Hits(arguments) => hits::measure(rig, arguments, json),
        What::Flush(arguments) => flush::measure(rig, arguments, json),
        What::Restart(arguments) => restart::measure(rig, arguments, json),
        What::NeverSlower(arguments) => never_slower::measure(rig, arguments, json),
        What::Databases(arguments) => databases::measure(rig, arguments, json),
        What::Tpcc(arguments) => tpcc::measure(rig, arguments, json),
        What::Peers(peers) => {
            peers::measure(|| Rig::with_features(arguments.folder.as_deref(), &["ublk"]), peers, json)
        }
        What::Memory(arguments) => memory::measure(arguments, json),
    }
}
