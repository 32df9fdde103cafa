//! TPC-C under the wall clock on a slow disk, under several policies one after the other: what `entresol
//! bench tpcc` simulates, on files. Disk, flash and log are loop devices past the page cache; the disk is
//! limited by a control group; its writes only when the database has been loaded, which writes page by
//! page. Each policy begins with a blank flash.

use crate::block::rig::{Filled, Rig, Running, machine, make_file, need};
use crate::device::{Group, Limits, Loop};
use crate::programs::within;
use crate::report::write_json;
use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;
use serde_json::Value;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

#[derive(Args, Debug)]
pub(super) struct TpccArgs {
    /// Minutes of each system.
    #[arg(long, default_value_t = 3)]
    minutes: u32,
    #[arg(long, value_delimiter = ',', default_value = "disk-only,face-gsc,lc,s3-fifo,reuse,reuse-slots")]
    systems: Vec<String>,
    /// Further options of `bench tpcc`.
    #[arg(last = true)]
    options: Vec<String>,
}

const LOADING: Limits = Limits { reads: 1000, writes: 0, bytes: 100_000_000 };
const LOADED: Limits = Limits { reads: 1000, writes: 1000, bytes: 100_000_000 };
/// Written to the log: so much only transactions write.
const TRANSACTIONS_BYTES: u64 = 4 << 20;
const DEVICE_MIB: u64 = 5 << 10;

#[derive(Serialize)]
struct Row {
    system: String,
    transactions_a_minute: f64,
    flash_hit_rate: Option<f64>,
}

pub(super) fn measure(
    rig: impl Fn() -> Result<Rig>,
    arguments: &TpccArgs,
    json: Option<&Path>,
) -> Result<()> {
    need(&[("losetup", "mount")])?;
    let group = Group::of_devices()?;
    let rig = rig()?;
    let device = |name: &str| {
        make_file(&rig.file(name), DEVICE_MIB, Filled::Sparse)?;
        Loop::over(rig.file(name))
    };
    let devices = [device("disk")?, device("flash")?, device("log")?];
    println!("ten warehouses, 16 % of flash, {} minutes each, {}", arguments.minutes, machine());
    println!("| system | tpmC | flash hits |\n|---|---|---|");
    let mut all = Vec::new();
    for system in &arguments.systems {
        let row = one(&rig, &group, &devices, system, arguments)?;
        let hits = row.flash_hit_rate.map_or("-".to_owned(), |rate| format!("{rate:.3}"));
        println!("| {system} | {:.0} | {hits} |", row.transactions_a_minute);
        all.push(row);
        write_json(json, &all)?;
    }
    println!("{}", machine());
    Ok(())
}

fn one(
    rig: &Rig,
    group: &Group,
    [disk, flash, log]: &[Loop; 3],
    system: &str,
    arguments: &TpccArgs,
) -> Result<Row> {
    group.limit(disk.device(), LOADING)?;
    let before = log.traffic()?.written_bytes;
    let (report, out) = (rig.file(&format!("{system}.json")), rig.file("out"));
    let mut tpcc = Command::new(&rig.entresol);
    tpcc.args(["bench", "tpcc", "--real", "--overwrite", "--flash-percent", "16", "--warehouses", "10"]);
    tpcc.arg("--flash").arg(flash.device()).arg("--disk").arg(disk.device()).arg("--log").arg(log.device());
    tpcc.arg("--minutes")
        .arg(arguments.minutes.to_string())
        .args(["--system", system])
        .arg("--json")
        .arg(&report);
    tpcc.args(&arguments.options);
    let said = File::create(&out)?;
    let mut run = Running::keeping(within(group.path(), &tpcc).stdout(said.try_clone()?).stderr(said))?;
    let mut is_loaded = false;
    while !run.has_ended()? {
        if !is_loaded && log.traffic()?.written_bytes - before >= TRANSACTIONS_BYTES {
            group.limit(disk.device(), LOADED)?;
            is_loaded = true;
        }
        thread::sleep(Duration::from_millis(200));
    }
    if !run.wait()? {
        bail!("{system}: {}", fs::read_to_string(&out)?.trim());
    }
    let report: Value = serde_json::from_str(&fs::read_to_string(&report)?)?;
    let rate = find(&report, "tpmC").with_context(|| format!("{system}: the report has no tpmC"))?;
    Ok(Row {
        system: system.to_owned(),
        transactions_a_minute: rate,
        flash_hit_rate: find(&report, "flash_hit_rate"),
    })
}

/// The first number of this name, at any depth.
fn find(value: &Value, name: &str) -> Option<f64> {
    match value {
        Value::Object(fields) => fields
            .get(name)
            .and_then(Value::as_f64)
            .or_else(|| fields.values().find_map(|value| find(value, name))),
        Value::Array(values) => values.iter().find_map(|value| find(value, name)),
        _ => None,
    }
}
