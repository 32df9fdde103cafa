//! The suite `lost-failover`: a primary and a synchronous standby, each with a flash that may be lost. The
//! flash of one or of both is destroyed under load, and the standby is promoted. Everything that was
//! acknowledged is there. Then the old primary becomes a standby without its flash.

use super::super::failover::{PATIENCE, is_synchronous, pg_rewind, rewind, rewind_complete};
use super::super::kill;
use super::super::test::Bench;
use super::{FOR_A_STANDBY, Loss, Lost, SIGNAL};
use crate::programs::output;
use anyhow::{Context, Result, bail};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// The primary is killed, and its flash destroyed.
    Primary,
    /// Then the standby is, too, before it is promoted.
    StandbyBefore,
    /// Then the standby is, too, while it is promoted.
    StandbyDuring,
    /// The primary is stopped, and its flash is destroyed: a switch-over.
    Stopped,
}

const TURNS: [Turn; 4] = [Turn::Primary, Turn::StandbyBefore, Turn::StandbyDuring, Turn::Stopped];

/// How an old primary that has lost its flash is brought back. (After a switch-over it needs nothing.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Back {
    /// pg_rewind lets it replay its log.
    Rewound,
    /// It is started, and stopped, before pg_rewind.
    Started,
    /// A single-user server replays its log before pg_rewind, as Patroni has it.
    Alone,
}

const BACKS: [Back; 3] = [Back::Rewound, Back::Started, Back::Alone];

pub(in super::super) fn test(bench: &Bench, rounds: u32) -> Result<()> {
    let more = format!("wal_log_hints = on\n{FOR_A_STANDBY}");
    let first = Lost::start(bench, "lost-failover-a", &more)?;
    let second = first.copy("lost-failover-b")?;
    let (mut primary, mut standby) = (&first, &second);
    let mut acknowledged = 0;
    for round in 0..rounds {
        let turn = TURNS[round as usize % TURNS.len()];
        let back = BACKS[round as usize % BACKS.len()];
        let about = || format!("lost-failover: round {round}, {turn:?}, {back:?}");
        let pair = Pair { bench, primary, standby, round };
        acknowledged += pair.fails_over(turn).with_context(about)?;
        kill::check(&standby.server, acknowledged).with_context(about)?;
        pair.comes_back(turn, back).with_context(about)?;
        (primary, standby) = (standby, primary);
        is_synchronous(&primary.server, &standby.server).with_context(about)?;
        pair.are_equal().with_context(about)?;
    }
    for server in [&primary.server, &standby.server] {
        server.check_log_for_panics()?;
    }
    standby.server.stop()?;
    primary.server.query("ALTER SYSTEM SET entresol.drain_at_shutdown = on")?;
    primary.server.query("SELECT pg_reload_conf()")?;
    primary.server.stop()?;
    primary.server.check_files()?;
    println!("lost-failover: {rounds} rounds, {acknowledged} acknowledged transactions, none lost");
    Ok(())
}

struct Pair<'p, 'a> {
    bench: &'a Bench,
    primary: &'p Lost<'a>,
    standby: &'p Lost<'a>,
    round: u32,
}

impl Pair<'_, '_> {
    /// Load, until the standby is the primary. How many transactions were acknowledged.
    fn fails_over(&self, turn: Turn) -> Result<u64> {
        let Pair { primary, standby, .. } = *self;
        is_synchronous(&primary.server, &standby.server)?;
        let level = if self.round.is_multiple_of(2) { "on" } else { "remote_apply" };
        primary.server.query(&format!("ALTER SYSTEM SET synchronous_commit = {level}"))?;
        primary.server.query("SELECT pg_reload_conf()")?;
        let both = || {
            primary.server.query("CHECKPOINT")?;
            standby.server.query("CHECKPOINT").map(drop)
        };
        primary.await_with(both)?;
        standby.await_with(both)?;
        let load = primary.load("60")?;
        thread::sleep(Duration::from_millis(2000 + u64::from(self.round) * 377 % 2000));
        match turn {
            Turn::Stopped => primary.server.stop()?,
            _ => primary.server.kill()?,
        }
        let acknowledged = kill::processed(load)?;
        primary.destroy(Loss::Gone)?;
        match turn {
            Turn::Primary | Turn::Stopped => {}
            Turn::StandbyBefore => self.standby_loses_its_flash()?,
            Turn::StandbyDuring => {
                standby.server.query("SELECT pg_promote(false)")?;
                thread::sleep(Duration::from_millis(u64::from(self.round) * 7 % 40));
                self.standby_loses_its_flash()?;
            }
        }
        if standby.server.query("SELECT pg_is_in_recovery()")? == "t" {
            standby.server.query(&format!("SELECT pg_promote(true, {})", PATIENCE.as_secs()))?;
        }
        // There is no standby to wait for.
        standby.server.query("ALTER SYSTEM SET synchronous_standby_names = ''")?;
        standby.server.query("SELECT pg_reload_conf()")?;
        Ok(acknowledged)
    }

    fn standby_loses_its_flash(&self) -> Result<()> {
        let standby = self.standby;
        standby.server.kill()?;
        standby.destroy(Loss::Another)?;
        standby.signal()?;
        let before = standby.server.said();
        kill::wait_until_it_runs(&standby.server, true)?;
        super::expect(&standby.server.said_since(before)?, "the flash cache is lost: redo starts at")
    }

    /// The old primary, which has no flash, is a standby of the new one.
    fn comes_back(&self, turn: Turn, back: Back) -> Result<()> {
        let (old, new) = (self.primary, &self.standby.server);
        if turn == Turn::Stopped {
            // Its log ends before the new timeline begins.
            old.signal()?;
            old.follows(new)?;
            return old.server.start_again();
        }
        self.is_not_rewound_unasked()?;
        old.signal()?;
        match back {
            Back::Rewound => {}
            Back::Started => {
                old.server.start_again()?;
                // A new cache begins where the flash was, and has dirty pages.
                let until = Instant::now() + PATIENCE;
                while old.server.query("SELECT state FROM entresol_stat")? != "serving" {
                    if Instant::now() > until {
                        bail!("no cache begins");
                    }
                    thread::sleep(Duration::from_millis(100));
                }
                old.server.query(
                    "SET synchronous_commit = local; UPDATE pgbench_tellers SET filler = 'of the old'",
                )?;
                old.server.stop()?;
            }
            Back::Alone => {
                let mut single = self.bench.user.command(self.bench.build.program("postgres"));
                single.args(["--single", "-D"]).arg(old.server.data()).arg("template1").stdin(Stdio::null());
                output(&mut single).context("a single-user server without the flash")?;
            }
        }
        if old.server.data().join(SIGNAL).exists() != (back == Back::Rewound) {
            bail!("the signal is not what was to be");
        }
        match back {
            Back::Rewound | Back::Started => rewind(self.bench, &old.server, new),
            Back::Alone => rewind_complete(self.bench, &old.server, new),
        }
    }

    /// Before its owner says that the flash is lost, pg_rewind refuses, and changes nothing.
    fn is_not_rewound_unasked(&self) -> Result<()> {
        let (old, new) = (self.primary, &self.standby.server);
        let before = old.state()?;
        match output(&mut pg_rewind(self.bench, &old.server, new)) {
            Err(why) if format!("{why:#}").contains("could not complete recovery") => {}
            said => bail!("pg_rewind did not refuse a target without its flash: {said:?}"),
        }
        old.is_as_before(&before)
    }

    /// The new standby has what the primary has.
    fn are_equal(&self) -> Result<()> {
        let sums = "SELECT sum(hashtext(a::text)::bigint) FROM pgbench_accounts a
                    UNION ALL SELECT sum(hashtext(h::text)::bigint) FROM pgbench_history h";
        let (now, old) = (&self.standby.server, &self.primary.server);
        super::super::standby::caught_up(now, old)?;
        let (there, here) = (now.query(sums)?, old.query(sums)?);
        if there != here {
            bail!("the primary has {there}, its standby {here}");
        }
        Ok(())
    }
}
