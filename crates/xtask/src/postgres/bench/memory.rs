//! `bench memory`: what the cache takes of DRAM, from the sizes of its tables, from PostgreSQL's list of its
//! shared memory, and from the worker's process.

use super::Rig;
use crate::postgres::kill;
use crate::postgres::server::Server;
use crate::report::write_json;
use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use std::fs;

/// What may be told.
#[derive(Args, Debug)]
pub(super) struct MemoryArgs {
    /// Sizes of the flash in MiB; the file is sparse.
    #[arg(long, value_name = "MIB", value_delimiter = ',', default_value = "256,1024,4096,16384")]
    flash: Vec<u64>,
    /// Values of `entresol.objects`.
    #[arg(long, value_delimiter = ',', default_value = "256,65536")]
    objects: Vec<u32>,
}

/// One server.
#[derive(Debug, Serialize)]
struct Row {
    flash_mib: u64,
    objects: u32,
    pages: u64,
    /// Shared memory of the cache.
    shared_bytes: u64,
    /// Of it, what the worker uses apart from the shared memory, from `/proc`.
    worker_own_bytes: u64,
    /// The same of another background process: what a process has anyway.
    other_own_bytes: u64,
}

pub(super) fn measure(rig: &Rig, arguments: &MemoryArgs) -> Result<()> {
    let mut rows = Vec::new();
    println!("| flash | objects | pages | shared memory | a page | worker's own | writer's own |");
    println!("|---|---|---|---|---|---|---|");
    for objects in &arguments.objects {
        let mut before: Option<Row> = None;
        for flash_mib in &arguments.flash {
            let row = one(rig, *flash_mib, *objects)?;
            // The slope leaves out what does not grow.
            let each = before.as_ref().map_or("".to_owned(), |before| {
                let bytes = row.shared_bytes as f64 - before.shared_bytes as f64;
                format!("{:.2} B", bytes / (row.pages as f64 - before.pages as f64))
            });
            println!(
                "| {flash_mib} MiB | {objects} | {} | {:.2} MiB | {each} | {:.1} MiB | {:.1} MiB |",
                row.pages,
                row.shared_bytes as f64 / 1048576.0,
                row.worker_own_bytes as f64 / 1048576.0,
                row.other_own_bytes as f64 / 1048576.0,
            );
            if let Some(before) = before.replace(row) {
                rows.push(before);
            }
        }
        rows.extend(before);
    }
    write_json(rig.json.as_deref(), &rows)
}

fn one(rig: &Rig, flash_mib: u64, objects: u32) -> Result<Row> {
    let configuration = format!(
        "shared_preload_libraries = 'entresol'\nentresol.flash = 'FOLDER/flash'\nentresol.size = {flash_mib}MB\n\
         entresol.objects = {objects}\nshared_buffers = 16MB\n"
    );
    let server = Server::start(&rig.build, &rig.user, "memory", &[], &configuration)?;
    let pages = server.query("CREATE EXTENSION entresol; SELECT slots FROM entresol_stat")?.parse()?;
    let shared_bytes = server
        .query("SELECT sum(allocated_size) FROM pg_shmem_allocations WHERE name LIKE 'entresol%'")?
        .parse()?;
    let own = |title: &str| -> Result<u64> {
        let pid = kill::process(&server, title)?.with_context(|| format!("there is no {title}"))?;
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).context("no RssAnon")?;
        let kib: u64 = line.trim().trim_end_matches(" kB").trim().parse()?;
        Ok(kib << 10)
    };
    let (worker_own_bytes, other_own_bytes) = (own("entresol worker")?, own("background writer")?);
    server.stop_at_once()?;
    fs::remove_file(server.data().with_file_name("flash"))?;
    Ok(Row { flash_mib, objects, pages, shared_bytes, worker_own_bytes, other_own_bytes })
}
