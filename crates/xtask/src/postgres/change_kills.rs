//! Of the suite `flash-change`: processes are killed while a change is made.

use super::cache::WORKER;
use super::change::changes;
use super::kill::{POSTMASTER, awaited_process, check, processed, wait_until_it_runs};
use super::server::Server;
use crate::programs::output;
use anyhow::{Context, Result, bail};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// In turn: a part of the process's title.
const VICTIMS: [&str; 5] = [POSTMASTER, WORKER, "postgres postgres [local]", POSTMASTER, "checkpointer"];
const CLIENTS: &str = "8";
/// Of the time that the change took before; the last step of it is near the end.
const MOMENTS: [f64; 6] = [0.95, 0.5, 1.0, 0.85, 0.98, 0.9];

/// Kills one process in each round, in the middle of the next change, which `took` so long before. `before`
/// transactions were acknowledged; returns how many were in all.
pub(super) fn test(server: &Server<'_>, rounds: u32, before: u64, took: &[Duration]) -> Result<u64> {
    let mut acknowledged = before;
    let mut unfinished = 0;
    let all = changes(server);
    for (round, victim) in (0..rounds as usize).zip(VICTIMS.iter().cycle()) {
        let change = &all[round % all.len()];
        let mut load = server.client("pgbench");
        load.args(["-n", "-c", CLIENTS, "-T", "120"]).stdout(Stdio::piped()).stderr(Stdio::null());
        let load = load.spawn().context("pgbench cannot be started")?;
        thread::sleep(Duration::from_secs(1));
        let victim_pid = awaited_process(server, victim)?;
        let moment = took[round % all.len()].mul_f64(MOMENTS[round % MOMENTS.len()]);
        let (began, said) = (Instant::now(), server.said());
        let session = change.begin(server)?;
        thread::sleep(moment.saturating_sub(began.elapsed()));
        output(Command::new("kill").args(["-9", &victim_pid]))?;
        unfinished += u32::from(!server.said_since(said)?.contains("the flash cache was changed"));
        acknowledged += processed(load)?;
        if let Some(mut session) = session {
            let _ = session.wait()?;
        }
        wait_until_it_runs(server, *victim == POSTMASTER)?;
        let was_made = change.is_there(server)?;
        check(server, acknowledged)
            .with_context(|| format!("change: round {round}, {victim} killed in {change:?}"))?;
        // It is made now, if it was not: the settings name it. An exchange is asked for again.
        if !was_made
            && change.begin(server)?.is_some_and(|mut session| session.wait().is_ok_and(|end| !end.success()))
        {
            bail!("change: round {round}: {change:?} is refused after a kill of {victim}");
        }
        change.awaited(server).with_context(|| format!("round {round}, after a kill of {victim}"))?;
    }
    if rounds > 4 && unfinished == 0 {
        bail!("change: no process was killed before its change was made: this is not tested");
    }
    println!("change: {rounds} processes killed around the end of changes, {unfinished} of them before it");
    Ok(acknowledged)
}
