//! Hunts: runs a hunter with a mutant alive, and sees that it notices; and each hunter of this kind without a
//! mutant, which must find nothing.
//!
//! Invariant: a process has at most one mutant alive, the one that `ENTRESOL_MUTANT` names when it starts.

use super::file::{Hunter, Mutant, Rig, Test};
use super::programs::Programs;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Names the mutant to a process (`crates/testkit/src/mutants/alive.rs`).
const MUTANT: &str = "ENTRESOL_MUTANT";
/// Crash states that a mutant has to survive in a rig: most are noticed within seconds, the rarest after a
/// minute or two.
const STATES: u64 = 240_000;
/// Crash states that the sound program has to survive.
const STATES_SOUND: u64 = 24_000;
/// The caches of the sound program's hunt among the others.
const SOUND_AIM: &str = "caches face,face-gr,face-gsc";
/// A process that neither finds anything nor ends is killed.
const PATIENCE: Duration = Duration::from_secs(1200);
/// The exit status of a rig that has not hunted.
const NOT_HUNTED: i32 = 2;
/// A part of what a rig says that has hunted.
const CHECKED: &str = "crash states";
/// Characters of what was found that are shown.
const SHOWN_MAX: usize = 240;

/// A run of a hunter.
pub(super) struct Hunt<'a> {
    /// The mutant that is alive; `None`: nothing must be found.
    mutant: Option<&'a Mutant>,
    hunter: &'a Hunter,
}

/// How a hunt has ended.
pub(super) struct Outcome {
    name: String,
    /// A mutant was noticed, or the sound program passed.
    pub is_right: bool,
    told: String,
}

impl Outcome {
    /// The hunt.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl<'a> Hunt<'a> {
    /// The hunts for these mutants; also `with_sound` each test once without a mutant. Or `sound_only`: all
    /// without their mutants.
    pub(super) fn list(mutants: &[&'a Mutant], with_sound: bool, sound_only: bool) -> Vec<Self> {
        let all = || mutants.iter().flat_map(|mutant| mutant.hunter.iter().map(|hunter| (*mutant, hunter)));
        if sound_only {
            return all().map(|(_, hunter)| Self { mutant: None, hunter }).collect();
        }
        let mut seen = BTreeSet::new();
        let mut sound: Vec<&'a Hunter> = Vec::new();
        for (_, hunter) in all().filter(|_| with_sound) {
            let is_new = match hunter {
                Hunter::Rig(rig) => rig.aim == SOUND_AIM && seen.insert([SOUND_AIM, "", ""]),
                Hunter::Test(Test { package, binary, test, .. }) => {
                    seen.insert([package.as_str(), binary, test])
                }
            };
            sound.extend(is_new.then_some(hunter));
        }
        let sound = sound.into_iter().map(|hunter| Self { mutant: None, hunter });
        sound.chain(all().map(|(mutant, hunter)| Self { mutant: Some(mutant), hunter })).collect()
    }

    fn name(&self) -> String {
        let mutant = self.mutant.map_or("sound", |mutant| &mutant.name);
        match self.hunter {
            Hunter::Rig(Rig { aim }) => format!("{mutant} (rig: {aim})"),
            Hunter::Test(Test { package, binary, test, .. }) => {
                format!("{mutant} ({package}, {binary}: {test})")
            }
        }
    }

    fn command(&self, programs: &Programs, seed: u64) -> Result<Command> {
        let mut command;
        match self.hunter {
            Hunter::Rig(Rig { aim }) => {
                let states = if self.mutant.is_some() { STATES } else { STATES_SOUND };
                command = Command::new(programs.rig()?);
                command.args([
                    aim,
                    &seed.to_string(),
                    &states.to_string(),
                    &(PATIENCE.as_secs() / 2).to_string(),
                ]);
            }
            Hunter::Test(test) => {
                command = Command::new(programs.test(test)?);
                // Captured output would be lost if the process ends itself.
                command
                    .args(["--exact", &test.test, "--nocapture"])
                    .current_dir(programs.tree.join(test.folder()));
                if self.mutant.is_some() {
                    command.envs(&test.environment);
                }
            }
        }
        command.env_remove(MUTANT).stdin(Stdio::null());
        if let Some(mutant) = self.mutant {
            command.env(MUTANT, &mutant.name);
        }
        Ok(command)
    }

    /// Runs it, and again if it depends on chance. `log`: its output.
    fn run(&self, programs: &Programs, seed: u64, log: &Path) -> Outcome {
        let runs_max = match self.hunter {
            Hunter::Test(test) if self.mutant.is_some() => test.runs_max,
            _ => 1,
        };
        let mut outcome = (false, "it was not run".to_owned());
        for _ in 0..runs_max {
            outcome = match self.run_once(programs, seed, log) {
                Ok((noticed, told)) => (noticed == self.mutant.is_some(), told),
                Err(error) => (false, format!("{error:#}")),
            };
            if outcome.0 {
                break;
            }
        }
        Outcome { name: self.name(), is_right: outcome.0, told: outcome.1 }
    }

    /// Whether something was noticed, and what.
    fn run_once(&self, programs: &Programs, seed: u64, log: &Path) -> Result<(bool, String)> {
        let output = File::create(log).with_context(|| format!("{} cannot be written", log.display()))?;
        let mut command = self.command(programs, seed)?;
        let child = command.stdout(output.try_clone()?).stderr(output).spawn();
        let status = wait(child.context("it cannot be run")?)?;
        let said = String::from_utf8_lossy(&fs::read(log)?).into_owned();
        let told = match self.hunter {
            Hunter::Rig(_) => {
                let found = said.lines().find(|line| line.contains(CHECKED)).or(said.lines().last());
                found.unwrap_or_default().to_owned()
            }
            Hunter::Test(_) => failure(&said),
        };
        // A mutant may abort the process, by an overflow of the stack or for want of memory: noticed, too.
        match (self.hunter, status.code()) {
            (Hunter::Rig(_), Some(NOT_HUNTED)) => bail!("{told}"),
            (Hunter::Rig(_), Some(0)) if !told.contains(CHECKED) => bail!("it has not hunted: {told:?}"),
            (_, code) => Ok((code != Some(0), told)),
        }
    }
}

fn wait(mut child: Child) -> Result<ExitStatus> {
    let began = Instant::now();
    loop {
        match child.try_wait()? {
            Some(status) => return Ok(status),
            None if began.elapsed() > PATIENCE => {
                child.kill()?;
                child.wait()?;
                bail!("it has not ended in {} minutes", PATIENCE.as_secs() / 60);
            }
            None => thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// What a test says of its failure.
fn failure(said: &str) -> String {
    let signs = ["panicked at", "no process has", "the test has not", "by itself"];
    let is_sign = |line: &&str| signs.iter().any(|sign| line.contains(sign));
    let lines = said.lines().skip_while(|line| !is_sign(line)).map(str::trim);
    lines.filter(|line| !line.is_empty()).take(2).collect::<Vec<_>>().join(" ")
}

/// Runs all hunts, several at a time, and prints each when it has ended.
pub(super) fn run(hunts: &[Hunt<'_>], programs: &Programs, seed: u64, jobs: Option<usize>) -> Vec<Outcome> {
    let jobs = jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let at = next.fetch_add(1, Relaxed);
            let Some(hunt) = hunts.get(at) else { return };
            let began = Instant::now();
            let outcome = hunt.run(programs, seed, &programs.hunts.join(format!("{}.log", at + 1)));
            let seconds = began.elapsed().as_secs_f64();
            let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
            let result = if outcome.is_right { "ok    " } else { "FAILED" };
            let told: String = outcome.told.chars().take(SHOWN_MAX).collect();
            let ended = outcomes.len() + 1;
            println!("{result} {ended:3}/{} {seconds:6.1} s  {}: {told}", hunts.len(), outcome.name);
            outcomes.push(outcome);
        }
    };
    thread::scope(|scope| (0..jobs.max(1)).for_each(|_| _ = scope.spawn(work)));
    outcomes.into_inner().unwrap_or_else(PoisonError::into_inner)
}
