//! Hits of the block door and other NBD servers of the same file: random reads by fio's NBD engine from a
//! warm volume, from `nbdkit file` and from `qemu-nbd`, all through the page cache and then all with
//! O_DIRECT.

use crate::block::fio::{Target, fio};
use crate::block::rig::{Filled, Rig, Running, machine, make_file, need, wait_for_socket};
use crate::block::volume::Volume;
use crate::programs::output;
use crate::report::{Mean, write_json};
use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

#[derive(Args, Debug)]
pub(super) struct HitsArgs {
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
    /// Requests at a time of a connection.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 32])]
    depths: Vec<u32>,
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4])]
    connections: Vec<u32>,
}

/// Looks at whether a cache of fragments has all pages: it takes what was read often enough.
const WARM_TRIES: u32 = 40;

struct Server {
    name: &'static str,
    process: Running,
    uri: String,
}

/// One server under one load.
#[derive(Serialize)]
struct Row {
    server: &'static str,
    direct: bool,
    bytes: u32,
    depth: u32,
    connections: u32,
    /// A second.
    reads: Vec<f64>,
    /// Processor time of the server for each.
    ns: Vec<f64>,
}

pub(super) fn measure(
    rig: impl Fn() -> Result<Rig>,
    arguments: &HitsArgs,
    json: Option<&Path>,
) -> Result<()> {
    need(&[("fio", "fio"), ("nbdkit", "nbdkit"), ("qemu-nbd", "qemu-utils"), ("nbdcopy", "libnbd-bin")])?;
    let rig = rig()?;
    make_file(&rig.file("disk"), arguments.mib, Filled::Random)?;
    println!(
        "random reads a second of a volume with all pages in the cache, of nbdkit and of qemu-nbd; {}",
        machine()
    );
    println!(
        "| O_DIRECT | bytes | depth | connections | entresol | nbdkit | qemu-nbd | of the better | CPU µs a read |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut all = Vec::new();
    for direct in [false, true] {
        make_file(&rig.file("flash"), arguments.mib * 5 / 4 + 64, Filled::Sparse)?;
        let options = ["--overwrite", "--policy", &arguments.policy];
        let volume = Volume::create(&rig, "data", &rig.file("disk"), &rig.file("flash"), &options)?;
        volume.configure("direct_io", if direct { "true" } else { "false" })?;
        // Pages are brought in by a stream of writes; and hits are not read from the same file as "disk".
        volume.configure("sequential_bypass_bytes", "0")?;
        volume.configure("hits_to_disk", "false")?;
        let servers = start(&rig, &volume, direct)?;
        warm(&rig, &volume, &servers[0], arguments)?;
        for bytes in [4096, 8192] {
            for depth in &arguments.depths {
                for connections in &arguments.connections {
                    let load = Load { direct, bytes, depth: *depth, connections: *connections };
                    all.extend(load.measure(&servers, arguments)?);
                    write_json(json, &all)?;
                }
            }
        }
    }
    Ok(())
}

fn start(rig: &Rig, volume: &Volume<'_>, direct: bool) -> Result<[Server; 3]> {
    let (disk, kit, qemu) = (rig.file("disk"), rig.file("kit.sock"), rig.file("qemu.sock"));
    let ours = Server { name: "entresol", process: volume.serve()?, uri: volume.uri() };
    for socket in [&kit, &qemu] {
        let _ = std::fs::remove_file(socket);
    }
    let cache = if direct { "cache=none" } else { "cache=default" };
    let mut nbdkit = Command::new("nbdkit");
    nbdkit.arg("-f").arg("-U").arg(&kit).arg("file").arg(&disk).arg(cache);
    let kit_process = Running::start(&mut nbdkit)?;
    let cache = if direct { "--cache=none" } else { "--cache=writeback" };
    let mut qemu_nbd = Command::new("qemu-nbd");
    qemu_nbd.args(["-t", "-e", "8", "-f", "raw", "-r", "-x", "data", cache, "-k"]).arg(&qemu).arg(&disk);
    let qemu_process = Running::start(&mut qemu_nbd)?;
    wait_for_socket(&kit)?;
    wait_for_socket(&qemu)?;
    let uri = |export: &str, socket: &Path| format!("nbd+unix:///{export}?socket={}", socket.display());
    Ok([
        ours,
        Server { name: "nbdkit", process: kit_process, uri: uri("", &kit) },
        Server { name: "qemu-nbd", process: qemu_process, uri: uri("data", &qemu) },
    ])
}

/// Brings all pages into the cache: by one writer, so that adjacent pages are neighbours on flash, as in
/// the file.
fn warm(rig: &Rig, volume: &Volume<'_>, ours: &Server, arguments: &HitsArgs) -> Result<()> {
    let mut copy = Command::new("nbdcopy");
    output(copy.args(["--flush", "--connections=1", "--requests=1"]).arg(rig.file("disk")).arg(&ours.uri))?;
    for _ in 0..WARM_TRIES {
        if volume.count("pages")? == arguments.mib * 256 {
            return Ok(());
        }
        Load { direct: false, bytes: 4096, depth: 32, connections: 1 }.run(ours, arguments)?;
        thread::sleep(Duration::from_millis(500));
    }
    bail!("not all pages are in the cache")
}

#[derive(Clone, Copy)]
struct Load {
    direct: bool,
    bytes: u32,
    depth: u32,
    connections: u32,
}

impl Load {
    /// Reads a second, and the nanoseconds of processor time that the server took for each.
    fn run(self, server: &Server, arguments: &HitsArgs) -> Result<[f64; 2]> {
        let before = server.process.processor_ns()?;
        let options = format!(
            "--rw=randread --bs={} --iodepth={} --numjobs={} --size={}m --norandommap --time_based --runtime={}",
            self.bytes, self.depth, self.connections, arguments.mib, arguments.seconds
        );
        let reads = fio(&Target::Nbd(&server.uri), &options)?.reads;
        let took = server.process.processor_ns()? - before;
        Ok([reads, took / (reads * f64::from(arguments.seconds)).max(1.0)])
    }

    fn measure(self, servers: &[Server; 3], arguments: &HitsArgs) -> Result<Vec<Row>> {
        let Self { direct, bytes, depth, connections } = self;
        let row = |server: &Server| Row {
            server: server.name,
            direct,
            bytes,
            depth,
            connections,
            reads: Vec::new(),
            ns: Vec::new(),
        };
        let mut rows: Vec<Row> = servers.iter().map(row).collect();
        for _ in 0..arguments.rounds {
            for (server, row) in servers.iter().zip(&mut rows) {
                let [reads, ns] = self.run(server, arguments)?;
                row.reads.push(reads);
                row.ns.push(ns);
            }
        }
        let reads: Vec<f64> = rows.iter().map(|row| Mean::of(&row.reads).mean).collect();
        let us: Vec<String> =
            rows.iter().map(|row| format!("{:.1}", Mean::of(&row.ns).mean / 1000.0)).collect();
        println!(
            "| {direct} | {bytes} | {depth} | {connections} | {:.0} | {:.0} | {:.0} | {:.2} | {} |",
            reads[0],
            reads[1],
            reads[2],
            reads[0] / reads[1].max(reads[2]),
            us.join(", ")
        );
        Ok(rows)
    }
}
