//! The suite `flash-snapshot`: the file system of a cluster is put back to a snapshot, and the flash is the
//! present one. No start serves a page of the future, and none loses what the snapshot has.
//!
//! Rows carry versions, and an oracle outside knows which were acknowledged and sent when the snapshot was
//! taken: pages of the past, or of the future, may be valid by themselves.

mod frozen;
mod load;
mod others;

use super::server::Server;
use super::test::Bench;
use crate::programs::output;
use anyhow::{Context, Result, bail};
use frozen::Frozen;
use load::{Oracle, Random, Versions};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

// Without old segments PostgreSQL itself refuses files that are older than its log by a checkpoint.
const CONFIGURATION: &str = "
shared_preload_libraries = 'entresol'
shared_buffers = 1MB
max_connections = 20
checkpoint_timeout = 1h
max_wal_size = 512MB
wal_keep_size = 1GB
entresol.flash = 'FOLDER/flash'
entresol.size = 24MB
entresol.objects = 2048
";

/// What happens between the snapshot and the roll-back, and what is rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    /// Nothing happens: the server dies at once.
    AtOnce,
    /// Load only.
    Load,
    /// Load, with so many checkpoints.
    Checkpoints(usize),
    /// Load, a stop or a crash of the server, and a start.
    Restart,
    /// As `Load`; the log is on a disk of its own, which is not rolled back.
    LogStays,
    /// As `Checkpoints`; the flash is rolled back, too.
    Together,
    /// After the roll-back the server runs without its flash, with a load, and then has the present flash.
    Branch,
}

impl Case {
    fn of_round(round: u32, random: &mut Random) -> Self {
        match round % 10 {
            0 => Self::AtOnce,
            1 | 2 => Self::Load,
            3 => Self::Checkpoints(1),
            4 => Self::Checkpoints(1 + random.below(3)),
            5 | 6 => Self::Restart,
            7 => Self::LogStays,
            8 => Self::Together,
            _ => Self::Branch,
        }
    }
}

/// How a start ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// With the pages on flash.
    Warm,
    /// With an empty cache.
    Emptied,
    /// The cluster was refused.
    Refused,
}

/// A cluster under load in one mode.
struct World<'a> {
    server: Server<'a>,
    oracle: Oracle,
    is_through: bool,
}

/// A snapshot of everything, and what the oracle knew.
struct Snapshot {
    data: PathBuf,
    flash: PathBuf,
    versions: Versions,
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        output(Command::new("rm").arg("-r").arg(to))?;
    }
    output(Command::new("cp").args(["-a", "--reflink=auto", "--sparse=always"]).arg(from).arg(to)).map(drop)
}

impl<'a> World<'a> {
    fn new(bench: &'a Bench, mode: &str) -> Result<Self> {
        let configuration = format!("{CONFIGURATION}entresol.mode = '{mode}'\n");
        let name = format!("snapshot {mode}");
        // By turns with checksums and without: hint bits are logged, or not.
        let options: &[&str] = if mode == "write-back" { &[] } else { &["-k"] };
        let server = Server::start(&bench.build, &bench.user, &name, options, &configuration)?;
        let oracle = Oracle::new(&server)?;
        Ok(Self { server, oracle, is_through: mode == "write-through" })
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.server.data().with_file_name(name)
    }

    /// Everything is as it is in this moment.
    fn snapshot(&self) -> Result<(Snapshot, Frozen)> {
        let frozen = Frozen::new(&self.server)?;
        // Of what is under way the clients may hear later, but not of more.
        let versions = self.oracle.now();
        let snapshot =
            Snapshot { data: self.beside("snapshot"), flash: self.beside("snapshot-flash"), versions };
        copy(self.server.data(), &snapshot.data)?;
        copy(&self.beside("flash"), &snapshot.flash)?;
        Ok((snapshot, frozen))
    }

    /// Puts the files back, all but the log if it `stays`.
    fn roll_back(&self, snapshot: &Snapshot, stays: bool) -> Result<()> {
        let aside = self.beside("present");
        if aside.exists() {
            fs::remove_dir_all(&aside)?;
        }
        fs::rename(self.server.data(), &aside)?;
        copy(&snapshot.data, self.server.data())?;
        fs::remove_file(self.server.data().join("postmaster.pid"))?;
        if stays {
            copy(&aside.join("pg_wal"), &self.server.data().join("pg_wal"))?;
        }
        Ok(())
    }

    fn start(&self) -> Result<Start> {
        let before = self.server.said();
        let started = self.server.start_again();
        let said = self.server.said_since(before)?;
        if let Err(error) = started {
            let is_refused = said.contains("cannot be used by this cluster");
            return if is_refused { Ok(Start::Refused) } else { Err(error) };
        }
        let pages = said.split(" pages of ").next().and_then(|before| before.rsplit(' ').next());
        Ok(if pages == Some("0") { Start::Emptied } else { Start::Warm })
    }

    /// One round. Returns how the start after the roll-back ended.
    fn round(&self, round: u32, case: Case, random: &mut Random) -> Result<Start> {
        let load = self.oracle.load(&self.server, u64::from(round))?;
        load.run(200 + random.below(1500) as u64)?;
        if random.below(2) == 0 {
            self.server.query("CHECKPOINT")?;
            load.run(100 + random.below(900) as u64)?;
        }
        let (snapshot, frozen) = self.snapshot()?;
        let mut load = Some(load);
        if case == Case::AtOnce {
            frozen.kill()?;
        } else {
            frozen.thaw();
            let running = load.take().context("there is a load")?;
            // With few of them nothing may have left the flash yet.
            let most = if random.below(3) == 0 { 40 } else { 2000 };
            running.run(1 + random.below(most) as u64)?;
            let checkpoints = match case {
                Case::Checkpoints(count) => count,
                Case::Together => random.below(3),
                Case::LogStays => random.below(2),
                _ => 0,
            };
            for _ in 0..checkpoints {
                self.server.query("CHECKPOINT")?;
                running.run(20 + random.below(800) as u64)?;
            }
            load = Some(running);
            if case == Case::Restart {
                load.take().context("there is a load")?.end()?;
                if random.below(2) == 0 {
                    self.server.stop()?
                } else {
                    self.server.kill()?
                }
                if self.start()? == Start::Refused {
                    bail!("a restart was refused");
                }
                let again = self.oracle.load(&self.server, u64::from(round) + 1000)?;
                again.run(20 + random.below(1000) as u64)?;
                load = Some(again);
            }
            Frozen::new(&self.server)?.kill()?;
        }
        load.into_iter().try_for_each(load::Load::end)?;
        let at_the_end = self.oracle.now();
        let stays = case == Case::LogStays;
        self.roll_back(&snapshot, stays)?;
        match case {
            Case::Together => copy(&snapshot.flash, &self.beside("flash"))?,
            Case::Branch => return self.branch(round, &snapshot, random),
            _ => {}
        }
        let expected = if stays { &at_the_end } else { &snapshot.versions };
        self.started(&snapshot, expected, case)
    }

    /// Starts the server after a roll-back, and checks what it has.
    fn started(&self, snapshot: &Snapshot, expected: &Versions, case: Case) -> Result<Start> {
        let start = self.start()?;
        match (start, case) {
            (Start::Refused, _) if self.is_through => bail!("a cluster that is complete was refused"),
            (Start::Refused | Start::Emptied, Case::AtOnce | Case::Together) => {
                bail!("flash and files are of one moment, and the start ended as {start:?}")
            }
            (Start::Warm, Case::Checkpoints(_) | Case::Restart) => {
                bail!("the files are older by a checkpoint, and the flash was believed")
            }
            (Start::Refused, _) => {
                // As it says: with the flash of the same moment.
                if case == Case::LogStays {
                    self.roll_back(snapshot, false)?;
                }
                copy(&snapshot.flash, &self.beside("flash"))?;
                if self.start()? != Start::Warm {
                    bail!("the flash of the same moment was not taken");
                }
                self.oracle.check(&self.server, &snapshot.versions)?;
            }
            _ => self.oracle.check(&self.server, expected)?,
        }
        self.oracle.learn(&self.server)?;
        Ok(start)
    }

    /// The rolled-back cluster runs without its flash, and then has the present one again. In write-back mode
    /// that is possible only if the snapshot was of a cluster that was drained; so it is run with an empty
    /// flash of its own, drained, and given the present flash as it was.
    fn branch(&self, round: u32, snapshot: &Snapshot, random: &mut Random) -> Result<Start> {
        let (flash, present) = (self.beside("flash"), self.beside("present-flash"));
        fs::rename(&flash, &present)?;
        copy(&snapshot.flash, &flash)?;
        if self.start()? == Start::Refused {
            bail!("the flash of the same moment was refused");
        }
        self.oracle.check(&self.server, &snapshot.versions)?;
        self.oracle.learn(&self.server)?;
        let load = self.oracle.load(&self.server, u64::from(round) + 2000)?;
        load.run(20 + random.below(2000) as u64)?;
        Frozen::new(&self.server)?.kill()?;
        load.end()?;
        let of_branch = self.oracle.now();
        fs::remove_file(self.server.data().join("postmaster.pid"))?;
        fs::rename(&flash, self.beside("branch-flash"))?;
        fs::rename(&present, &flash)?;
        let start = self.start()?;
        match start {
            Start::Warm => bail!("the flash of another branch was believed"),
            Start::Refused if self.is_through => bail!("a cluster that is complete was refused"),
            Start::Refused => {
                fs::rename(self.beside("branch-flash"), &flash)?;
                if self.start()? != Start::Warm {
                    bail!("the flash of this branch was not taken");
                }
            }
            Start::Emptied => {}
        }
        self.oracle.check(&self.server, &of_branch)?;
        self.oracle.learn(&self.server)?;
        Ok(start)
    }
}

pub(super) fn test(bench: &Bench, rounds: u32) -> Result<()> {
    for mode in ["write-through", "write-back"] {
        let world = World::new(bench, mode)?;
        let mut ends = [0; 3];
        for round in 0..rounds {
            let mut random = Random(u64::from(round) << 8 | u64::from(world.is_through));
            let case = Case::of_round(round, &mut random);
            let start = world
                .round(round, case, &mut random)
                .with_context(|| format!("snapshot: {mode}, round {round}, {case:?}"))?;
            println!("snapshot: {mode}, round {round}, {case:?}: {start:?}");
            ends[start as usize] += 1;
        }
        world.server.check_log_for_panics()?;
        world.server.stop()?;
        let [warm, emptied, refused] = ends;
        println!(
            "snapshot: {mode}: {rounds} roll-backs, no page of the future and none lost; {warm} starts warm, {emptied} with an \
             emptied cache, {refused} refused"
        );
    }
    others::test(bench)
}
