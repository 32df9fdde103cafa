//! The suite `flash-standby`: a base backup under load, restored without a flash, and as a standby with its
//! own flash, which is killed, and promoted when the primary is killed.

use super::cache::{ENTRESOL, WORKER};
use super::kill;
use super::server::Server;
use super::test::Bench;
use crate::programs::output;
use anyhow::{Context, Result, bail};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

pub(super) fn test(bench: &Bench) -> Result<()> {
    // WAL is kept for a standby that is killed while it streams.
    let wal = "wal_level = replica\nmax_wal_size = 64MB\nwal_keep_size = 4GB\n";
    let configuration = format!("{}{wal}", ENTRESOL.kill);
    let primary = Server::start(&bench.build, &bench.user, "primary", &["-k"], &configuration)?;
    output(primary.client("pgbench").args(["-i", "-q", "-s", "5"]))?;
    primary.query("CREATE EXTENSION amcheck; CREATE EXTENSION entresol")?;
    let mut load = primary.client("pgbench");
    load.args(["-n", "-c", "4", "-T", "12"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut load = load.spawn().context("pgbench cannot be started")?;
    thread::sleep(Duration::from_secs(2));

    let restored = Server::from_backup(&bench.build, &bench.user, "restored", &primary, &[])?;
    let standby = Server::from_backup(&bench.build, &bench.user, "standby", &primary, &["-R"])?;
    for server in [&restored, &standby] {
        let mut verify = bench.user.command(bench.build.program("pg_verifybackup"));
        output(verify.arg("-q").arg(server.data()))
            .context("standby: the backup is not what its manifest says")?;
    }
    // Without a flash, as a stock server would have it.
    restored.set("shared_preload_libraries", "")?;
    restored.start_again()?;
    wait_until_primary(&restored)?;
    kill::check(&restored, 1).context("standby: the backup, restored without a flash")?;
    restored.stop()?;
    restored.check_files()?;
    println!(
        "standby: a backup under load, restored without a flash: sums and indexes agree, checksums right"
    );

    standby.set("entresol.flash", &standby.data().with_file_name("flash").display().to_string())?;
    standby.start_again()?;
    // Its worker, and its startup process, during the replay.
    for victim in [WORKER, "startup recovering"] {
        thread::sleep(Duration::from_secs(1));
        let pid = kill::awaited_process(&standby, victim).context("standby")?;
        output(Command::new("kill").args(["-9", &pid]))?;
        kill::wait_until_it_runs(&standby, true)?;
    }
    load.wait()?;
    caught_up(&primary, &standby)?;
    drains_without_a_restartpoint(bench, &primary, &standby)?;
    let count: u64 = primary.query("SELECT count(*) FROM pgbench_history")?.parse()?;
    kill::check(&standby, count).context("standby: after the replay")?;
    let stat = standby.query("SELECT flash_hits > 0, destaged > 0, checkpoints > 0 FROM entresol_stat")?;
    primary.kill()?;
    standby.query("SELECT pg_promote()")?;
    output(standby.client("pgbench").args(["-n", "-c", "4", "-t", "500"]))?;
    kill::check(&standby, count + 2000).context("standby: after the promotion")?;
    standby.kill()?;
    standby.start_again()?;
    kill::check(&standby, count + 2000).context("standby: killed after the promotion")?;
    standby.check_log_for_panics()?;
    standby.stop()?;
    standby.check_files()?;
    println!(
        "standby: with its own flash ({stat}), killed twice, promoted, killed again: {count} transactions there"
    );
    Ok(())
}

/// A standby that has no newer checkpoint to make a restartpoint of is drained at its shutdown all the same:
/// then it is a stock one.
fn drains_without_a_restartpoint(bench: &Bench, primary: &Server<'_>, standby: &Server<'_>) -> Result<()> {
    let redo = || -> Result<String> {
        let mut control = bench.user.command(bench.build.program("pg_controldata"));
        let said = output(control.arg(standby.data()))?;
        let line = said.lines().find(|line| line.contains("checkpoint's REDO location"));
        Ok(line.context("standby: pg_controldata names no REDO location")?.to_owned())
    };
    // No checkpoint of the primary's own.
    for setting in ["checkpoint_timeout = '1h'", "max_wal_size = '4GB'"] {
        primary.query(&format!("ALTER SYSTEM SET {setting}"))?;
    }
    primary.query("SELECT pg_reload_conf()")?;
    primary.query("CHECKPOINT")?;
    caught_up(primary, standby)?;
    standby.query("CHECKPOINT")?;
    let before = redo()?;
    primary.query("UPDATE pgbench_tellers SET filler = 'changed'")?;
    primary.query("UPDATE pgbench_accounts SET filler = 'changed' WHERE aid % 50 = 0")?;
    caught_up(primary, standby)?;
    if standby.query("SELECT slots_dirty > 0 FROM entresol_stat")? != "t" {
        bail!("standby: nothing is dirty: this is not tested");
    }
    standby.stop()?;
    if redo()? != before {
        bail!("standby: a restartpoint was made at the shutdown: this is not tested");
    }
    standby.check_files().context("standby: drained without a restartpoint")?;
    standby.set("shared_preload_libraries", "")?;
    standby.start_again().context("standby: drained without a restartpoint")?;
    caught_up(primary, standby)?;
    let changed = "SELECT (SELECT count(*) FROM pgbench_tellers WHERE filler LIKE 'changed%'),
                          (SELECT count(*) FROM pgbench_accounts WHERE filler LIKE 'changed%')";
    let (there, here) = (primary.query(changed)?, standby.query(changed)?);
    if there != here {
        bail!(
            "standby: the primary has {there} changed rows, a drained standby without its cache has {here}"
        );
    }
    standby.stop()?;
    standby.set("shared_preload_libraries", "entresol")?;
    standby.start_again()?;
    caught_up(primary, standby)?;
    println!("standby: drained without a restartpoint: a stock standby");
    Ok(())
}

pub(super) fn wait_until_primary(server: &Server<'_>) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(60);
    while server.query("SELECT pg_is_in_recovery()").is_ok_and(|said| said == "t") {
        if Instant::now() > until {
            bail!("standby: the restored backup does not come out of recovery");
        }
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Waits until the standby has replayed everything.
pub(super) fn caught_up(primary: &Server<'_>, standby: &Server<'_>) -> Result<()> {
    let lsn = primary.query("SELECT pg_current_wal_flush_lsn()")?;
    let until = Instant::now() + Duration::from_secs(60);
    while standby.query(&format!("SELECT pg_last_wal_replay_lsn() >= '{lsn}'"))? != "t" {
        if Instant::now() > until {
            bail!("standby: it has not replayed WAL up to {lsn}");
        }
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}
