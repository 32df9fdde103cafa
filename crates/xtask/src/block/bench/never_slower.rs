//! A cache that does not pay, on limited devices: a flash of half of the disk's requests a second, uniform
//! reads of which 2 % hit, and scans of the whole volume. fio's NBD engine reads a volume with its cache,
//! with the usual options, and the same door with the cache off, in turn. Disk and flash are loop devices
//! past the page cache.

use crate::block::fio::{Target, fio};
use crate::block::rig::{Filled, Rig, Running, machine, make_file, need};
use crate::block::volume::Volume;
use crate::device::{Group, Limits, Loop};
use crate::report::{Mean, write_json};
use anyhow::Result;
use clap::Args;
use serde::Serialize;
use std::path::Path;

#[derive(Args, Debug)]
pub(super) struct NeverSlowerArgs {
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 4)]
    seconds: u32,
    #[arg(long, default_value_t = 4)]
    pairs: u32,
}

const DISK: Limits = Limits { reads: 1000, writes: 1000, bytes: 100_000_000 };
const SLOW_FLASH: Limits = Limits { reads: 500, writes: 500, bytes: 50_000_000 };

/// What is read, and of which volume.
struct Load {
    title: &'static str,
    mib: u64,
    flash_mib: u64,
    flash: Limits,
    /// In KiB a second instead of reads.
    is_scan: bool,
    options: &'static str,
}

const RANDOM_1: &str = "--rw=randread --bs=4k --norandommap --time_based --iodepth=1";
const RANDOM_16: &str = "--rw=randread --bs=4k --norandommap --time_based --iodepth=16";
const SCAN: &str = "--rw=read --bs=256k --iodepth=4";
const FREE: Limits = Limits { reads: 0, writes: 0, bytes: 0 };

#[rustfmt::skip]
const LOADS: [Load; 6] = [
    Load { title: "flash half as fast, all hits, depth 1", mib: 64, flash_mib: 96, flash: SLOW_FLASH, is_scan: false, options: RANDOM_1 },
    Load { title: "2 % hits, depth 1", mib: 512, flash_mib: 13, flash: FREE, is_scan: false, options: RANDOM_1 },
    Load { title: "flash half as fast, all hits, depth 16", mib: 64, flash_mib: 96, flash: SLOW_FLASH, is_scan: false, options: RANDOM_16 },
    Load { title: "2 % hits, depth 16", mib: 512, flash_mib: 13, flash: FREE, is_scan: false, options: RANDOM_16 },
    Load { title: "scans in requests of 256 KiB", mib: 384, flash_mib: 96, flash: FREE, is_scan: true, options: SCAN },
    Load { title: "the same, flash half as fast", mib: 384, flash_mib: 96, flash: SLOW_FLASH, is_scan: true, options: SCAN },
];

#[derive(Serialize)]
struct Row {
    title: &'static str,
    /// Reads, or KiB of a scan, a second: with the cache, and without.
    with: Vec<f64>,
    without: Vec<f64>,
}

pub(super) fn measure(
    rig: impl Fn() -> Result<Rig>,
    arguments: &NeverSlowerArgs,
    json: Option<&Path>,
) -> Result<()> {
    need(&[("fio", "fio"), ("losetup", "mount")])?;
    let group = Group::of_devices()?;
    let rig = rig()?;
    println!(
        "reads a second (scans: KiB) of a volume with its cache, and of the same door without; disks of 1,000 requests a \
         second; {} pairs of {} s, {}",
        arguments.pairs,
        arguments.seconds,
        machine()
    );
    println!("| load | with | without | ratio | pairs |\n|---|---|---|---|---|");
    let mut all = Vec::new();
    for load in &LOADS {
        let row = load.measure(&rig, &group, arguments)?;
        let (with, without) = (Mean::of(&row.with).mean, Mean::of(&row.without).mean);
        let ratios: Vec<_> = row
            .with
            .iter()
            .zip(&row.without)
            .map(|(with, without)| format!("{:.2}", with / without))
            .collect();
        println!(
            "| {} | {with:.0} | {without:.0} | {:.3} | {} |",
            load.title,
            with / without,
            ratios.join(" ")
        );
        all.push(row);
        write_json(json, &all)?;
    }
    Ok(())
}

/// A volume over devices of its own; fields are dropped in order.
struct Served<'a> {
    _server: Running,
    volume: Volume<'a>,
    disk: Loop,
    flash: Loop,
}

impl Load {
    fn measure(&self, rig: &Rig, group: &Group, arguments: &NeverSlowerArgs) -> Result<Row> {
        let with = self.serve(rig, group, "with", true)?;
        let without = self.serve(rig, group, "without", false)?;
        // Every page is read, in any order.
        with.volume.set("hits-to-disk", "false")?;
        for _ in 0..3 {
            self.read(&with, "--rw=randread --bs=4k --iodepth=16")?;
        }
        with.volume.set("hits-to-disk", "true")?;
        for served in [&with, &without] {
            group.limit(served.disk.device(), DISK)?;
        }
        group.limit(with.flash.device(), self.flash)?;
        // What it learns of devices that have just become slower is not measured.
        self.read(&with, &format!("{RANDOM_16} --runtime=10"))?;
        let mut row = Row { title: self.title, with: Vec::new(), without: Vec::new() };
        let options = match self.is_scan {
            true => self.options.to_owned(),
            false => format!("{} --runtime={}", self.options, arguments.seconds),
        };
        for _ in 0..arguments.pairs {
            row.with.push(self.read(&with, &options)?);
            row.without.push(self.read(&without, &options)?);
        }
        for device in [&with.disk, &without.disk, &with.flash] {
            group.limit(device.device(), FREE)?;
        }
        Ok(row)
    }

    fn serve<'a>(&self, rig: &'a Rig, group: &Group, name: &str, is_cached: bool) -> Result<Served<'a>> {
        let device = |what: &str, mib, filled| {
            let file = rig.file(&format!("{name}.{what}"));
            make_file(&file, mib, filled)?;
            Loop::over(file)
        };
        let disk = device("disk", self.mib, Filled::Random)?;
        let flash = device("flash", self.flash_mib, Filled::Sparse)?;
        let volume = Volume::create(rig, name, disk.device(), flash.device(), &[])?;
        if !is_cached {
            volume.configure("cache", "false")?;
        }
        let server = volume.serve_with(Some(group.path()), &[])?;
        Ok(Served { _server: server, volume, disk, flash })
    }

    fn read(&self, served: &Served<'_>, options: &str) -> Result<f64> {
        let measured = fio(&Target::Nbd(&served.volume.uri()), &format!("{options} --size={}m", self.mib))?;
        Ok(if self.is_scan { measured.read_kib } else { measured.reads })
    }
}
