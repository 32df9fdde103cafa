//! Standbys that lose their flash, and a primary that loses its flash and becomes a standby.

use super::super::kill;
use super::super::server::Server;
use super::super::standby::caught_up;
use super::super::test::Bench;
use super::refused::{consistent_at, lsn_of};
use super::{Loss, Lost, PATIENCE, await_promise};
use crate::programs::output;
use anyhow::{Context, Result, bail};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// By this file a server is a standby.
const STANDBY: &str = "standby.signal";

impl<'a> Lost<'a> {
    /// A standby of it with a flash of its own, started.
    pub(super) fn copy(&self, name: &str) -> Result<Lost<'a>> {
        let Bench { build, user, .. } = self.bench;
        let server = Server::from_backup(build, user, name, &self.server, &["-R"])?;
        let standby = Lost { bench: self.bench, server, script: self.script.clone() };
        standby.own_flash()?;
        standby.server.start_again()?;
        Ok(standby)
    }

    /// A copy of another cluster's files names that one's flash.
    pub(super) fn own_flash(&self) -> Result<()> {
        self.server.set("entresol.flash", &self.flash().display().to_string())
    }

    /// From the next start on it is a standby of `primary`.
    pub(super) fn follows(&self, primary: &Server<'_>) -> Result<()> {
        let file = self.server.data().join(STANDBY);
        fs::write(&file, "")?;
        self.server.own(&file)?;
        let primary = format!("host={} port={} user=postgres", primary.socket().display(), primary.port());
        self.server.set("primary_conninfo", &primary)
    }

    /// What pg_controldata says under this name.
    fn control(&self, name: &str) -> Result<String> {
        let mut control = self.bench.user.command(self.bench.build.program("pg_controldata"));
        let said = output(control.arg(self.server.data()))?;
        let value = said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        Ok(value.with_context(|| format!("pg_controldata has no {name}"))?.trim().to_owned())
    }

    /// Waits until the server, whose log had this length before, needs no flash.
    pub(super) fn is_complete_after(&self, before: usize, meanwhile: impl Fn() -> Result<()>) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        while !self.server.said_since(before)?.contains("complete without the flash cache") {
            meanwhile()?;
            if Instant::now() > until {
                bail!("the files are not complete: {}", self.server.said_since(before)?);
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// A standby with a flash of its own loses it, is promoted, and loses it again.
    pub(super) fn standby(&self) -> Result<()> {
        let standby = self.copy("lost-standby")?;
        let both = |statement: &str| {
            self.server.query(statement)?;
            standby.server.query(statement)
        };
        let mut count = 0;
        for loss in [Loss::Gone, Loss::Another] {
            count += kill::processed(self.load("3")?)?;
            standby.await_with(|| both("CHECKPOINT").map(drop))?;
            let load = self.load("3")?;
            thread::sleep(Duration::from_secs(1));
            standby.server.kill()?;
            standby.destroy(loss)?;
            count += kill::processed(load)?;
            let before = standby.server.said();
            standby.signal()?;
            kill::wait_until_it_runs(&standby.server, true)?;
            standby.is_complete_after(before, || both("CHECKPOINT").map(drop))?;
            caught_up(&self.server, &standby.server)?;
            kill::check(&standby.server, count).context("lost: a standby without its flash")?;
        }
        standby.await_with(|| both("CHECKPOINT").map(drop))?;
        self.server.kill()?;
        standby.server.query("SELECT pg_promote()")?;
        standby.await_promise().context("lost: after the promotion")?;
        count += kill::processed(standby.load("3")?)?;
        standby.server.kill()?;
        standby.destroy(Loss::Gone)?;
        standby.start_after_loss(false).context("lost: after the promotion")?;
        kill::check(&standby.server, count).context("lost: after the promotion")?;
        standby.server.check_log_for_panics()?;
        standby.server.stop()?;
        println!(
            "lost: a standby lost its flash twice, was promoted, and lost it again: {count} transactions there"
        );
        Ok(())
    }

    /// As [`Lost::await_promise`], with something to be done meanwhile.
    pub(super) fn await_with(&self, meanwhile: impl Fn() -> Result<()>) -> Result<()> {
        await_promise(&self.server, meanwhile)
    }

    /// It is switched over to a standby, loses its flash meanwhile, and becomes a standby: without pg_rewind,
    /// since the standby has all of its log. Then it is promoted, and the other one, which has gone another
    /// way, is refused as its standby.
    pub(super) fn switched_over(&self) -> Result<()> {
        let new = self.copy("lost-new")?;
        self.await_promise()?;
        let load = self.load("30")?;
        thread::sleep(Duration::from_secs(3));
        self.server.stop()?;
        let mut count = kill::processed(load)?;
        let newest = lsn_of(&self.control("Latest checkpoint location")?)?;
        new.server.query("SELECT pg_promote()")?;
        kill::check(&new.server, count).context("lost: switched over")?;
        self.destroy(Loss::Gone)?;
        self.signal()?;
        self.follows(&new.server)?;
        let before = self.server.said();
        // When the files are consistent, nothing more is replayed for an hour.
        self.server.start_with("-c recovery_min_apply_delay=1h").context("lost: the old primary")?;
        let at = consistent_at(&self.server.said_since(before)?)?;
        if at <= newest {
            bail!("the files were taken for consistent at {at:X}, and have changes up to {newest:X}");
        }
        kill::check(&self.server, count).context("lost: the old primary, when it is consistent")?;
        self.server.stop()?;
        count += kill::processed(new.load("3")?)?;
        self.server.start_again()?;
        self.is_complete_after(before, || {
            new.server.query("CHECKPOINT")?;
            self.server.query("CHECKPOINT").map(drop)
        })?;
        caught_up(&new.server, &self.server)?;
        kill::check(&self.server, count).context("lost: the old primary as a standby")?;
        println!(
            "lost: a primary was stopped, lost its flash, and became a standby: {count} transactions there"
        );
        self.went_another_way(&new, count)
    }

    /// The standby is promoted, and its `primary` still runs.
    fn went_another_way(&self, primary: &Self, count: u64) -> Result<()> {
        primary.await_with(|| primary.server.query("CHECKPOINT").map(drop))?;
        caught_up(&primary.server, &self.server)?;
        self.server.query("SELECT pg_promote()")?;
        primary.server.query("UPDATE pgbench_tellers SET filler = 'another way'")?;
        primary.server.query("CHECKPOINT")?;
        primary.server.kill()?;
        let history = self.server.data().join("pg_wal/00000003.history");
        let text = fs::read_to_string(&history)?;
        let fork = text.lines().last().and_then(|line| line.split('\t').nth(1)).context("a history")?;
        if primary.horizon_redo()? >= lsn_of(fork)? {
            bail!("lost: the horizon is not before {fork}: this is not tested");
        }
        let archive = primary.server.data().with_file_name("archive");
        fs::create_dir_all(&archive)?;
        fs::copy(&history, archive.join("00000003.history"))?;
        primary.server.own(&archive)?;
        let kept = primary.flash().with_extension("kept");
        fs::rename(primary.flash(), &kept)?;
        primary.signal()?;
        let configuration = fs::read(primary.server.data().join("postgresql.conf"))?;
        primary.follows(&self.server)?;
        let before = primary.state()?;
        let restore = format!("-c \"restore_command=cp {}/%f %p\"", archive.display());
        let said = primary.server.refuses_to_start_with(&restore)?;
        super::expect(&said, "is not a child of this server's history")?;
        primary.is_as_before(&before)?;
        // It still has its flash.
        for file in [STANDBY, super::SIGNAL] {
            fs::remove_file(primary.server.data().join(file))?;
        }
        fs::write(primary.server.data().join("postgresql.conf"), configuration)?;
        fs::rename(&kept, primary.flash())?;
        primary.server.start_again().context("lost: with its flash, after another timeline was refused")?;
        kill::check(&primary.server, count)?;
        primary.server.stop()?;
        self.server.stop()?;
        println!("lost: a standby of another timeline was refused");
        Ok(())
    }
}
