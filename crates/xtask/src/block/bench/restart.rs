//! Warm restarts of the block door: the part of the pages read that the cache had, before a stop and after
//! it. Four of five requests are reads; nine of ten are to a tenth of the volume, which is four times as
//! large as the flash.

use crate::block::fio::{Target, fio};
use crate::block::rig::{Filled, Rig, machine, make_file, need};
use crate::block::volume::Volume;
use crate::report::write_json;
use anyhow::Result;
use clap::Args;
use serde::Serialize;
use std::path::Path;
use std::time::Instant;

#[derive(Args, Debug)]
pub(super) struct RestartArgs {
    /// Size of the volume.
    #[arg(long, default_value_t = 1024)]
    mib: u64,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    #[arg(long, default_value = "face-gsc")]
    policy: String,
}

#[derive(Serialize)]
struct Row {
    mode: &'static str,
    signal: &'static str,
    /// The part of the reads that the cache served.
    before: f64,
    after: f64,
    stopped_ms: f64,
    ready_ms: f64,
    dirty_pages: u64,
}

pub(super) fn measure(
    rig: impl Fn() -> Result<Rig>,
    arguments: &RestartArgs,
    json: Option<&Path>,
) -> Result<()> {
    need(&[("fio", "fio")])?;
    let rig = rig()?;
    println!("part of the reads served by the cache, in {} seconds; {}", arguments.seconds, machine());
    println!(
        "| mode | signal | before | after | stopped in ms | dirty pages | ready after ms |\n|---|---|---|---|---|---|---|"
    );
    let mut all = Vec::new();
    for mode in ["write-through", "write-back"] {
        let (disk, flash) = (rig.file("disk"), rig.file("flash"));
        make_file(&disk, arguments.mib, Filled::Sparse)?;
        make_file(&flash, arguments.mib / 4 + 16, Filled::Sparse)?;
        let volume =
            Volume::create(&rig, "data", &disk, &flash, &["--mode", mode, "--policy", &arguments.policy])?;
        volume.configure("hits_to_disk", "false")?;
        let mut server = volume.serve()?;
        work(&volume, arguments.mib, arguments.seconds * 3, 1)?;
        for (at, signal) in (0..).zip(["TERM", "KILL"]) {
            let begun = Reads::now(&volume)?;
            work(&volume, arguments.mib, arguments.seconds, 2 + 2 * at)?;
            let before = Reads::now(&volume)?.part(&begun);
            let dirty_pages = volume.count("dirty_pages")?;
            let stopping = Instant::now();
            server.signal(signal);
            server.wait()?;
            let stopped_ms = stopping.elapsed().as_secs_f64() * 1e3;
            let starting = Instant::now();
            server = volume.serve()?;
            let ready_ms = starting.elapsed().as_secs_f64() * 1e3;
            work(&volume, arguments.mib, arguments.seconds, 3 + 2 * at)?;
            let after = Reads::now(&volume)?.part(&Reads::default());
            println!(
                "| {mode} | {signal} | {before:.3} | {after:.3} | {stopped_ms:.0} | {dirty_pages} | {ready_ms:.0} |"
            );
            all.push(Row { mode, signal, before, after, stopped_ms, ready_ms, dirty_pages });
            write_json(json, &all)?;
        }
    }
    Ok(())
}

fn work(volume: &Volume<'_>, mib: u64, seconds: u32, seed: u32) -> Result<()> {
    let options = format!(
        "--rw=randrw --rwmixread=80 --bs=4096 --iodepth=8 --size={mib}m --random_distribution=zoned:90/10:10/90 \
         --norandommap --randseed={seed} --time_based --runtime={seconds}"
    );
    fio(&Target::Nbd(&volume.uri()), &options).map(drop)
}

/// Pages read since the server began, and those of them from the cache.
#[derive(Default)]
struct Reads {
    all: u64,
    hits: u64,
}

impl Reads {
    fn now(volume: &Volume<'_>) -> Result<Self> {
        let status = volume.status()?;
        let count = |name: &str| status.get(name).and_then(serde_json::Value::as_u64).unwrap_or(0);
        let hits = count("staging_hits") + count("flash_hits");
        Ok(Self { all: hits + count("disk_reads"), hits })
    }

    fn part(&self, before: &Self) -> f64 {
        (self.hits - before.hits) as f64 / (self.all - before.all).max(1) as f64
    }
}
