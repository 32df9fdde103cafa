//! The suite `flash-binding`: a flash and a cluster that do not belong together are refused, with a sentence,
//! and nothing is changed by that.

use super::cache::{ENTRESOL, THROUGH};
use super::server::Server;
use super::test::Bench;
use crate::programs::output;
use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// After those of the kill suite.
const KEEPS_DIRTY: &str = "entresol.drain_at_shutdown = off\n";

const SUM: &str = "SELECT sum(abalance), (SELECT sum(delta) FROM pgbench_history) FROM pgbench_accounts";

/// A cluster with dirty pages on its flash, and an earlier state of both.
struct World<'a> {
    server: Server<'a>,
    flash: PathBuf,
    older_data: PathBuf,
    older_flash: PathBuf,
    sum: String,
}

pub(super) fn test(bench: &Bench) -> Result<()> {
    let world = World::new(bench)?;
    let other = foreign(bench)?;
    let mut cases = 0;
    let mut refused = |what: &str, expected: &str, with: &dyn Fn() -> Result<()>| -> Result<()> {
        with()?;
        let said = world.server.refuses_to_start().with_context(|| format!("binding: {what}"))?;
        if !said.contains(expected) {
            bail!("binding: {what}: the log has no {expected:?}: {said}");
        }
        println!("binding: {what}: refused");
        cases += 1;
        Ok(())
    };
    let World { server, flash, older_flash, older_data, .. } = &world;
    let is_flash = |path: &Path| server.set("entresol.flash", &path.display().to_string());
    let absent = flash.with_file_name("absent");
    refused("the files are older than the flash", "the flash is newer than the cluster's files", &|| {
        world.exchange(older_data)
    })?;
    world.exchange(older_data)?;
    refused("the flash is older than the files", "an older state of itself", &|| is_flash(older_flash))?;
    refused("another cluster's flash", "attach that flash device", &|| is_flash(&other.join("dirty")))?;
    refused("another cluster's flash, drained", "needs the newer pages on its own cache", &|| {
        is_flash(&other.join("drained"))
    })?;
    refused("no flash", "No such file", &|| is_flash(&absent))?;
    if absent.exists() {
        bail!("binding: a flash was made for a cluster that needs its own");
    }
    refused("no flash is named", "Set \"entresol.flash\" to the flash", &|| {
        server.set("entresol.flash", "")
    })?;
    is_flash(flash)?;
    refused("no module", "Add the module that was loaded before", &|| {
        server.set("shared_preload_libraries", "")
    })?;
    server.set("shared_preload_libraries", "entresol")?;
    refused("too small", "too small for a cache", &|| server.set("entresol.size", "1MB"))?;
    refused("too small for its objects", "with the fewest of them, 256, it takes 15 MB", &|| {
        server.set("entresol.objects", "262144")?;
        server.set("entresol.size", "16MB")
    })?;
    server.set("entresol.objects", "2048")?;
    server.set("entresol.size", "24MB")?;
    refused("a mode that is none", "entresol.mode", &|| server.set("entresol.mode", "write-around"))?;
    server.set("entresol.mode", "write-back")?;
    refused("a policy that is none", "entresol.policy", &|| server.set("entresol.policy", "lru"))?;
    server.set("entresol.policy", "face-gsc")?;
    refused("a folder", "neither a file nor a block device", &|| is_flash(server.data()))?;
    refused("a value out of range", "1 .. 64", &|| server.set("entresol.workers", "65"))?;
    server.set("entresol.workers", "4")?;
    refused("a path that is relative", "is not an absolute path", &|| server.set("entresol.flash", "x"))?;
    is_flash(flash)?;
    let label = server.data().join("entresol/label");
    let aside = label.with_extension("aside");
    refused("no label", "which says which flash the cluster needs", &|| Ok(fs::rename(&label, &aside)?))?;
    fs::rename(&aside, &label)?;

    server.start_again().context("binding: what belongs together")?;
    let sum = server.query(SUM)?;
    if sum != world.sum {
        bail!("binding: the sums were {}, after the refusals they are {sum}", world.sum);
    }
    in_use(bench, server, flash)?;
    clean(bench, &other)?;
    to_write_through(server, &world.sum)?;
    through(bench)?;
    server.check_log_for_panics()?;
    println!("binding: {} cases refused, and nothing was changed by them", cases + 2);
    Ok(())
}

impl<'a> World<'a> {
    fn new(bench: &'a Bench) -> Result<Self> {
        let configuration = format!("{}{KEEPS_DIRTY}", ENTRESOL.kill);
        let server = Server::start(&bench.build, &bench.user, "binding", &["-k"], &configuration)?;
        let beside = |name: &str| server.data().with_file_name(name);
        let (flash, older_data, older_flash) = (beside("flash"), beside("older-data"), beside("older-flash"));
        output(server.client("pgbench").args(["-i", "-q", "-s", "2"]))?;
        for statement in
            ["ALTER SYSTEM SET autovacuum = off", "SELECT pg_reload_conf()", "CHECKPOINT", "CHECKPOINT"]
        {
            server.query(statement)?;
        }
        // Nobody writes meanwhile.
        let copy = |from: &Path, to: &Path| output(Command::new("cp").arg("-a").arg(from).arg(to));
        copy(server.data(), &older_data)?;
        copy(&flash, &older_flash)?;
        fs::remove_file(older_data.join("postmaster.pid"))?;
        for _ in 0..2 {
            output(server.client("pgbench").args(["-n", "-c", "4", "-t", "500"]))?;
            server.query("CHECKPOINT")?;
        }
        let sum = server.query(SUM)?;
        server.kill()?;
        Ok(World { server, flash, older_data, older_flash, sum })
    }

    /// Exchanges the cluster's folder with another one.
    fn exchange(&self, with: &Path) -> Result<()> {
        let aside = self.server.data().with_file_name("aside");
        fs::rename(self.server.data(), &aside)?;
        fs::rename(with, self.server.data())?;
        fs::rename(&aside, with)?;
        Ok(())
    }
}

/// The flash of another cluster, dirty and drained.
fn foreign(bench: &Bench) -> Result<PathBuf> {
    let configuration = format!("{}{KEEPS_DIRTY}", ENTRESOL.kill);
    let server = Server::start(&bench.build, &bench.user, "binding other", &["-k"], &configuration)?;
    let folder = server.data().with_file_name("flashes");
    fs::create_dir_all(&folder)?;
    output(server.client("pgbench").args(["-i", "-q", "-s", "2"]))?;
    let flash = server.data().with_file_name("flash");
    server.stop()?;
    fs::copy(&flash, folder.join("dirty"))?;
    server.start_again()?;
    server.query("ALTER SYSTEM SET entresol.drain_at_shutdown = on")?;
    server.query("SELECT pg_reload_conf()")?;
    server.stop()?;
    server.check_files()?;
    fs::copy(&flash, folder.join("drained"))?;
    bench.user.own(&folder)?;
    Ok(folder)
}

/// A flash that a running server uses.
fn in_use(bench: &Bench, running: &Server<'_>, flash: &Path) -> Result<()> {
    let configuration = "shared_buffers = 1MB\n";
    let second = Server::start(&bench.build, &bench.user, "binding second", &["-k"], configuration)?;
    second.stop()?;
    second.set("shared_preload_libraries", "entresol")?;
    second.set("entresol.flash", &flash.display().to_string())?;
    second.set("entresol.objects", "2048")?;
    let said = second.refuses_to_start()?;
    if !said.contains("another process (or this one) has it open") {
        bail!("binding: the flash of a running server was not refused: {said}");
    }
    running.query(SUM)?;
    // And one with a file system.
    let ext4 = second.data().with_file_name("ext4");
    fs::write(&ext4, vec![0; 24 << 20])?;
    fs::File::options().write(true).open(&ext4)?.write_all_at(&[0x53, 0xef], 1080)?;
    bench.user.own(&ext4)?;
    second.set("entresol.flash", &ext4.display().to_string())?;
    let said = second.refuses_to_start()?;
    if !said.contains("ext") {
        bail!("binding: a file system was not refused: {said}");
    }
    println!("binding: the flash of a running server, and one with a file system: refused");
    Ok(())
}

/// A flash that its own cluster does not need is emptied.
fn clean(bench: &Bench, other: &Path) -> Result<()> {
    let flash = other.join("drained");
    let configuration = format!("{}entresol.flash = '{}'\n", ENTRESOL.kill, flash.display());
    let server = Server::start(&bench.build, &bench.user, "binding clean", &["-k"], &configuration)?;
    let cached =
        server.query("CREATE EXTENSION entresol; SELECT flash_hits + staging_hits FROM entresol_stat")?;
    output(server.client("pgbench").args(["-i", "-q"]))?;
    server.stop()?;
    server.check_files()?;
    server.set("entresol.flash", &other.join("dirty").display().to_string())?;
    let said = server.refuses_to_start()?;
    let says_how = said.contains("stop it with entresol.drain_at_shutdown = on");
    if !says_how || said.contains("entresol volume detach") {
        bail!("binding: a dirty flash of another cluster: not said how it is drained: {said}");
    }
    println!("binding: a drained flash of another cluster: taken, {cached} hits before the first write");
    Ok(())
}

/// In write-through mode the cluster does not need its flash any more, and then it is a stock one.
fn to_write_through(server: &Server<'_>, sum: &str) -> Result<()> {
    server.kill()?;
    server.set("entresol.mode", "write-through")?;
    let before = server.said();
    server.start_again()?;
    if !server.said_since(before)?.contains("dirty pages were copied to disk first") {
        bail!("binding: no dirty pages went to disk: this is not tested");
    }
    expect(server, SUM, sum)?;
    server.stop()?;
    server.check_files().context("binding: after a change to write-through")?;
    server.set("shared_preload_libraries", "")?;
    server.start_again()?;
    expect(server, SUM, sum)?;
    server.stop()?;
    println!("binding: from write-back to write-through: a stock cluster");
    Ok(())
}

fn expect(server: &Server<'_>, statement: &str, expected: &str) -> Result<()> {
    let found = server.query(statement)?;
    if found != expected {
        bail!("binding: {statement}: {found}, expected {expected}");
    }
    Ok(())
}

/// A flash in write-through mode: it is warm if nothing was written without it, and never needed.
fn through(bench: &Bench) -> Result<()> {
    let configuration = format!("{}autovacuum = off\n", THROUGH.kill);
    let server = Server::start(&bench.build, &bench.user, "binding through", &["-k"], &configuration)?;
    output(server.client("pgbench").args(["-i", "-q", "-s", "2"]))?;
    output(server.client("pgbench").args(["-n", "-c", "4", "-t", "300"]))?;
    server.query("CREATE EXTENSION entresol")?;
    let sum = server.query(SUM)?;
    let is_warm = |expected: &str| -> Result<()> {
        expect(&server, "SELECT slots_valid > 500 FROM entresol_stat", expected)?;
        expect(&server, SUM, &sum)
    };
    for how in ["a shutdown", "a crash"] {
        if how == "a crash" {
            server.kill()?
        } else {
            server.stop()?
        }
        server.start_again()?;
        is_warm("t").with_context(|| format!("binding: write-through, after {how}"))?;
        let log = fs::read_to_string(server.log())?;
        let speaks = |line: &&str| line.contains("entresol:") && line.contains("dirty pages");
        if let Some(line) = log.lines().find(speaks) {
            bail!("binding: write-through has no dirty pages, and its log speaks of them: {line}");
        }
    }
    // A server without it has completed a checkpoint.
    server.stop()?;
    server.set("shared_preload_libraries", "")?;
    server.start_again()?;
    server.query("UPDATE pgbench_tellers SET filler = 'x'")?;
    server.stop()?;
    server.set("shared_preload_libraries", "entresol")?;
    let before = server.said();
    server.start_again()?;
    if !server.said_since(before)?.contains("which was emptied") {
        bail!("binding: a flash that is out of date was not emptied");
    }
    expect(&server, "SELECT count(*) FROM pgbench_tellers WHERE filler = 'x'", "20")?;
    expect(&server, SUM, &sum)?;
    // Another policy.
    server.stop()?;
    server.set("entresol.policy", "reuse")?;
    server.start_again()?;
    output(server.client("pgbench").args(["-n", "-S", "-c", "4", "-t", "3000"]))?;
    expect(&server, "SELECT flash_hits > 0 FROM entresol_stat", "t")?;
    expect(&server, SUM, &sum)?;
    // Another size.
    server.stop()?;
    server.set("entresol.size", "32MB")?;
    server.start_again()?;
    expect(&server, SUM, &sum)?;
    // No device.
    server.stop()?;
    server.set("entresol.flash", "/dev/entresol-is-not-there")?;
    let before = server.said();
    server.start_again()?;
    if !server.said_since(before)?.contains("WARNING:  the flash cache is switched off") {
        bail!("binding: no warning of a device that is not there");
    }
    expect(&server, "SELECT state FROM entresol_stat", "off")?;
    expect(&server, SUM, &sum)?;
    server.stop()?;
    server.check_files()?;
    println!(
        "binding: write-through: warm after a shutdown and a crash, emptied when out of date, never needed"
    );
    Ok(())
}
