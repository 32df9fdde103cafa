//! Other ways in which files are of an earlier moment than their flash: a recovery to a target, and a
//! snapshot of a standby.

use super::load::Oracle;
use super::{CONFIGURATION, Frozen, copy};
use crate::postgres::server::Server;
use crate::postgres::standby::caught_up;
use crate::postgres::test::Bench;
use anyhow::{Context, Result, bail};
use std::fs;

pub(super) fn test(bench: &Bench) -> Result<()> {
    for mode in ["write-through", "write-back"] {
        to_a_target(bench, mode).with_context(|| format!("snapshot: recovery to a target, {mode}"))?;
        of_a_standby(bench, mode).with_context(|| format!("snapshot: a standby, {mode}"))?;
    }
    Ok(())
}

fn configuration(mode: &str) -> String {
    format!("{CONFIGURATION}entresol.mode = '{mode}'\nwal_level = replica\nmax_wal_senders = 4\n")
}

/// A cluster is put back to a copy that was made while it was stopped, and told to recover to a moment
/// between that and now: its flash has what came after.
fn to_a_target(bench: &Bench, mode: &str) -> Result<()> {
    let name = format!("target {mode}");
    let server = Server::start(&bench.build, &bench.user, &name, &["-k"], &configuration(mode))?;
    let oracle = Oracle::new(&server)?;
    let beside = |name: &str| server.data().with_file_name(name);
    server.stop()?;
    copy(server.data(), &beside("copy"))?;
    server.start_again()?;
    let load = oracle.load(&server, 1)?;
    load.run(500)?;
    load.end()?;
    let (target, then) = (server.query("SELECT pg_current_wal_lsn()")?, oracle.now());
    let load = oracle.load(&server, 2)?;
    load.run(1500)?;
    Frozen::new(&server)?.kill()?;
    load.end()?;
    fs::remove_file(server.data().join("postmaster.pid"))?;
    let present = beside("present");
    fs::rename(server.data(), &present)?;
    copy(&beside("copy"), server.data())?;
    let restore = format!("cp \"{}/pg_wal/%f\" \"%p\"", present.display());
    for (setting, value) in [
        ("recovery_target_lsn", &*target),
        ("restore_command", &restore),
        ("recovery_target_action", "promote"),
    ] {
        server.set(setting, value)?;
    }
    let signal = server.data().join("recovery.signal");
    fs::write(&signal, "")?;
    bench.user.own(&signal)?;
    if mode == "write-back" {
        let said = server.refuses_to_start()?;
        if !said.contains("recovery is to end at a target") {
            bail!("the log has another reason: {said}");
        }
        fs::remove_dir_all(server.data())?;
        fs::rename(&present, server.data())?;
        server.start_again()?;
        oracle.check(&server, &oracle.now())?;
    } else {
        server.start_again()?;
        // It is promoted when the target is reached.
        while server.query("SELECT pg_is_in_recovery()")? != "f" {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        oracle.check(&server, &then)?;
    }
    println!("snapshot: recovery to a target, {mode}: right");
    Ok(())
}

/// The files of a standby are put back, and its flash is not.
fn of_a_standby(bench: &Bench, mode: &str) -> Result<()> {
    let primary = Server::start(
        &bench.build,
        &bench.user,
        &format!("snapshot primary {mode}"),
        &["-k"],
        &configuration(mode),
    )?;
    let oracle = Oracle::new(&primary)?;
    let name = format!("snapshot standby {mode}");
    let standby = Server::from_backup(&bench.build, &bench.user, &name, &primary, &["-R"])?;
    let beside = |name: &str| standby.data().with_file_name(name);
    standby.set("entresol.flash", &beside("flash").display().to_string())?;
    standby.start_again()?;
    let load = oracle.load(&primary, 1)?;
    load.run(800)?;
    let frozen = Frozen::new(&standby)?;
    copy(standby.data(), &beside("snapshot"))?;
    copy(&beside("flash"), &beside("snapshot-flash"))?;
    frozen.thaw();
    load.run(1500)?;
    load.end()?;
    caught_up(&primary, &standby)?;
    Frozen::new(&standby)?.kill()?;
    fs::remove_dir_all(standby.data())?;
    copy(&beside("snapshot"), standby.data())?;
    fs::remove_file(standby.data().join("postmaster.pid"))?;
    let before = standby.said();
    if mode == "write-back" {
        let said = standby.refuses_to_start()?;
        if !said.contains("the flash is newer than the cluster's files") {
            bail!("the log has another reason: {said}");
        }
        copy(&beside("snapshot-flash"), &beside("flash"))?;
        standby.start_again()?;
    } else {
        standby.start_again()?;
        let said = standby.said_since(before)?;
        if !said.contains("emptied") {
            bail!("the flash of the future was not emptied: {said}");
        }
    }
    caught_up(&primary, &standby)?;
    standby.query("SELECT pg_promote()")?;
    oracle.check(&standby, &oracle.now())?;
    println!("snapshot: a standby, {mode}: right");
    Ok(())
}
