//! The clusters that runs begin with: loaded once, stopped cleanly, and copied for each run.

use super::Rig;
use super::load::Load;
use crate::postgres::server::Server;
use crate::programs::output;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// For loading: nothing is to last until the clean shutdown.
const LOADING: &str = "
shared_buffers = 1GB
max_wal_size = 512MB
checkpoint_timeout = 1h
fsync = off
full_page_writes = off
autovacuum = off
maintenance_work_mem = 256MB
";

/// After loading: every database is vacuumed, so that hint bits, the visibility map and statistics are not
/// made in the measurement. A cluster that was made in another way is made anew.
const VACUUM: [&str; 3] = ["--all", "--freeze", "--analyze"];

/// The loaded cluster of `load`, made if it is not there. Each major version has its own.
pub(super) fn golden(rig: &Rig, load: &Load) -> Result<PathBuf> {
    let major = rig.build.version().major;
    let folder = rig.folder.join(format!("golden-{major}-{}", load.name()));
    let (data, done) = (folder.join("data"), folder.join("done"));
    let is_done = fs::read_to_string(&done).is_ok_and(|how| how == VACUUM.join(" "));
    if is_done && data.join("PG_VERSION").is_file() {
        return Ok(data);
    }
    let _ = fs::remove_file(&done);
    if data.exists() {
        fs::remove_dir_all(&data)?;
    }
    fs::create_dir_all(&data)?;
    rig.user.own(&folder)?;
    let mut initdb = rig.user.command(rig.build.program("initdb"));
    output(initdb.arg("-D").arg(&data).args(["-U", "postgres", "-A", "trust", "--no-sync", "-k"]))?;
    let mut server = Server::over(&rig.build, &rig.user, data.clone(), &load.name())?;
    server.listen()?;
    fs::write(data.join("loading.conf"), LOADING)?;
    append(
        &data.join("postgresql.conf"),
        "\ninclude_if_exists 'loading.conf'\ninclude_if_exists 'bench.conf'\n",
    )?;
    server.start_again()?;
    load.fill(rig, &server)?;
    rig.steps.run("vacuuming", server.client("vacuumdb").args(VACUUM))?;
    server.stop()?;
    fs::remove_file(data.join("loading.conf"))?;
    output(Command::new("sync").arg("-f").arg(&data))?;
    fs::write(&done, VACUUM.join(" "))?;
    Ok(data)
}

/// Copies a cluster into `to`, which is made anew.
pub(super) fn copy(rig: &Rig, golden: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    output(Command::new("cp").args(["-a", "--sparse=auto"]).arg(golden).arg(to))
        .context("a copy of the loaded cluster")?;
    output(Command::new("sync").arg("-f").arg(to))?;
    rig.user.own(to)
}

fn append(file: &Path, text: &str) -> Result<()> {
    let before = fs::read_to_string(file)?;
    Ok(fs::write(file, before + text)?)
}
