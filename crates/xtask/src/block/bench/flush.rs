//! Flushes of the block door: random writes of 4 KiB with a flush after each. A raw file with fdatasync,
//! the same file behind `nbdkit`, and a volume in both modes, in turn; and how many blocks of 4 KiB the
//! server has written to its devices for each flush.

use crate::block::fio::{Target, fio};
use crate::block::rig::{Filled, Rig, Running, machine, make_file, need, wait_for_socket};
use crate::block::volume::Volume;
use crate::report::{Mean, write_json};
use anyhow::Result;
use clap::Args;
use serde::Serialize;
use std::path::Path;
use std::process::Command;

#[derive(Args, Debug)]
pub(super) struct FlushArgs {
    /// Size of the volume.
    #[arg(long, default_value_t = 256)]
    mib: u64,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 3)]
    seconds: u32,
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    #[arg(long, default_value = "face-gsc")]
    policy: String,
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16])]
    clients: Vec<u32>,
}

const MODES: [&str; 2] = ["write-through", "write-back"];

#[derive(Default, Serialize)]
struct Row {
    what: String,
    clients: u32,
    /// A second.
    flushes: Vec<f64>,
    /// Blocks of 4 KiB that the server has written for each flush.
    blocks: Vec<f64>,
}

pub(super) fn measure(
    rig: impl Fn() -> Result<Rig>,
    arguments: &FlushArgs,
    json: Option<&Path>,
) -> Result<()> {
    need(&[("fio", "fio"), ("nbdkit", "nbdkit")])?;
    let rig = rig()?;
    let (raw, kit) = (rig.file("raw"), rig.file("kit.sock"));
    make_file(&raw, arguments.mib, Filled::Zeros)?;
    make_file(&rig.file("kitdisk"), arguments.mib, Filled::Zeros)?;
    let mut nbdkit = Command::new("nbdkit");
    let _nbdkit = Running::start(nbdkit.arg("-f").arg("-U").arg(&kit).arg("file").arg(rig.file("kitdisk")))?;
    wait_for_socket(&kit)?;
    let kit = format!("nbd+unix:///?socket={}", kit.display());
    let volumes = [volume(&rig, MODES[0], arguments)?, volume(&rig, MODES[1], arguments)?];
    println!("flushes a second, each after a random write of 4 KiB; {}", machine());
    println!("| clients | | flushes/s | of the raw file | blocks written a flush |\n|---|---|---|---|---|");
    let mut all = Vec::new();
    for clients in &arguments.clients {
        let names = ["raw file", "nbdkit", MODES[0], MODES[1]];
        let mut rows: Vec<Row> =
            names.map(|what| Row { what: what.to_owned(), clients: *clients, ..Row::default() }).into();
        for _ in 0..arguments.rounds {
            let options = format!(
                "--rw=randwrite --bs=4096 --iodepth=1 --size={}m --norandommap --time_based --runtime={} --numjobs={clients}",
                arguments.mib, arguments.seconds
            );
            let raw = fio(&Target::File(&raw), &format!("{options} --ioengine=psync --fdatasync=1"))?;
            rows[0].flushes.push(raw.writes);
            let through = |uri: &str| fio(&Target::Nbd(uri), &format!("{options} --fsync=1"));
            rows[1].flushes.push(through(&kit)?.writes);
            for ((volume, server), row) in volumes.iter().zip(&mut rows[2..]) {
                let before = server.written()?;
                let flushes = through(&volume.uri())?.writes;
                let blocks = (server.written()? - before) as f64 / 4096.0;
                row.flushes.push(flushes);
                row.blocks.push(blocks / (flushes * f64::from(arguments.seconds)).max(1.0));
            }
        }
        let raw = Mean::of(&rows[0].flushes).mean;
        for row in &rows {
            let flushes = Mean::of(&row.flushes).mean;
            let blocks = if row.blocks.is_empty() {
                String::new()
            } else {
                format!("{:.1}", Mean::of(&row.blocks).mean)
            };
            println!("| {clients} | {} | {flushes:.0} | {:.2} | {blocks} |", row.what, flushes / raw);
        }
        all.extend(rows);
        write_json(json, &all)?;
    }
    Ok(())
}

/// A volume in this mode, and its server. Its files were written once, as a device was.
fn volume<'a>(rig: &'a Rig, mode: &str, arguments: &FlushArgs) -> Result<(Volume<'a>, Running)> {
    let (disk, flash) = (rig.file(&format!("{mode}.disk")), rig.file(&format!("{mode}.flash")));
    make_file(&disk, arguments.mib, Filled::Zeros)?;
    make_file(&flash, arguments.mib * 5 / 4 + 64, Filled::Zeros)?;
    let volume = Volume::create(rig, mode, &disk, &flash, &["--mode", mode, "--policy", &arguments.policy])?;
    // The flash here is no slower than the disk: the cache is measured.
    volume.configure("hits_to_disk", "false")?;
    let server = volume.serve()?;
    Ok((volume, server))
}
