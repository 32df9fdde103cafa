//! `entresol torture`.

use crate::args::TortureArgs;
use crate::failure::Failure;
use crate::output::{self, OutputFile};
use crate::told::Told;
use entresol_core::PolicyKind;
use entresol_testkit::raw::{Kind, RawTorture};
use entresol_testkit::torture::{DEVICES, Tally, Target, TortureOptions, TortureReport, torture};
use serde::Serialize;
use std::collections::BTreeMap;

/// States looked at unless something else is asked for.
const STATES: u64 = 100_000;

/// Tortures, prints the findings, and writes them to a file if asked to.
pub fn run(args: &TortureArgs) -> Result<(), Failure> {
    if args.raw || args.door.is_some() {
        return torture_raw(args, args.door.as_ref().map(|_| Kind::Door));
    }
    let targets = targets(&args.systems)?;
    if args.flash_dies && !Target::of_surviving_stores().iter().any(|target| targets.contains(target)) {
        return Err(Failure::input(
            "--flash-dies: none of these systems has dirty pages in a log on flash; give face, face-gr, face-gsc or reuse",
        ));
    }
    let file = args.json.as_deref().map(|path| OutputFile::prepare("--json", path, &[])).transpose()?;
    let states = match (args.states, args.seconds) {
        (None, None) => Some(STATES),
        (states, _) => states,
    };
    let defaults = TortureOptions::new(args.seed, STATES);
    let options = TortureOptions {
        states,
        time: args.seconds,
        only: args.run,
        flash_dies: args.flash_dies,
        violations_max: args.violations,
        threads: args.threads.unwrap_or(defaults.threads),
        targets,
        ..defaults
    };
    let counted = Told::new("torture", "crash states", options.states);
    let report = torture(&options, &|states| counted.show(states));
    drop(counted);
    if let Some(file) = file {
        let json = serde_json::to_string_pretty(&Json::of(&report)).map_err(anyhow::Error::from)?;
        file.write(format!("{json}\n").as_bytes())?;
    }
    output::print(&format!("{report}\n"))?;
    match report.violations.first() {
        None => Ok(()),
        Some(first) => Err(Failure::Check(format!(
            "{} violations, the first on {}: {}; replay it with `{}`",
            report.violations.len(),
            first.system,
            first.message,
            first.replay()
        ))),
    }
}

fn torture_raw(args: &TortureArgs, kind: Option<Kind>) -> Result<(), Failure> {
    let states = match (args.states, args.seconds) {
        (None, None) => STATES,
        (states, _) => states.unwrap_or(u64::MAX),
    };
    let threads = args.threads.unwrap_or(TortureOptions::new(args.seed, STATES).threads);
    let policy = |name: &String| {
        let unknown =
            || Failure::input(format!("--system: {name:?} is no policy; give one such as face-gsc, or all"));
        PolicyKind::from_name(name).ok_or_else(unknown)
    };
    let names = args.systems.iter().filter(|name| *name != "all");
    let policies = names.map(policy).collect::<Result<Vec<_>, _>>()?;
    let counted = Told::new("torture", "crash states", (states < u64::MAX).then_some(states));
    let torture = RawTorture { kind, policies, seed: args.seed, states, time: args.seconds, threads };
    let report = torture.run(&|states| counted.show(states));
    drop(counted);
    output::print(&format!("{report}\n"))?;
    report.violation.map_or(Ok(()), |what| Err(Failure::Check(what)))
}

fn targets(names: &[String]) -> Result<Vec<Target>, Failure> {
    let mut targets = Vec::new();
    for name in names {
        let found = Target::named(name);
        if found.is_empty() {
            let known: Vec<_> = Target::all().iter().map(Target::to_string).collect();
            return Err(Failure::input(format!(
                "--system: no system is called {name:?}; known are all, a policy, or one of {}",
                known.join(", ")
            )));
        }
        targets.extend(found);
    }
    targets.sort_unstable();
    targets.dedup();
    Ok(targets)
}

/// The report in the file.
#[derive(Serialize)]
struct Json<'a> {
    seed: u64,
    states: u64,
    violations: usize,
    states_by_fault: BTreeMap<&'static str, u64>,
    states_by_device: BTreeMap<&'static str, BTreeMap<&'static str, u64>>,
    states_by_system: BTreeMap<&'a str, u64>,
    systems: BTreeMap<&'a str, BTreeMap<&'static str, u64>>,
    runs: u64,
    lives: u64,
    restarts: u64,
    recovered_pages: u64,
    faults_struck: u64,
    faults_detected: u64,
    states_slow_device: u64,
    states_time_jump: u64,
    seconds: f64,
    threads: usize,
    states_per_second: f64,
    reached: &'a [&'static str],
    unreached: &'a [&'static str],
    points: &'a BTreeMap<&'static str, u64>,
    violations_found: Vec<JsonViolation<'a>>,
}

/// One of its violations.
#[derive(Serialize)]
struct JsonViolation<'a> {
    run: u64,
    system: &'a str,
    fault: &'static str,
    message: &'a str,
    replay: String,
    script: &'a str,
}

fn by_fault(tally: &Tally) -> BTreeMap<&'static str, u64> {
    tally.states_by_fault.iter().map(|(kind, states)| (kind.name(), *states)).collect()
}

fn by_device(tally: &Tally) -> BTreeMap<&'static str, BTreeMap<&'static str, u64>> {
    let of_devices = |states: [u64; 3]| DEVICES.into_iter().zip(states).collect();
    tally.by_device().into_iter().map(|(kind, states)| (kind.name(), of_devices(states))).collect()
}

impl<'a> Json<'a> {
    fn of(report: &'a TortureReport) -> Self {
        let tally = &report.tally;
        let violation = |one: &'a entresol_testkit::torture::Violation| JsonViolation {
            run: one.run,
            system: &one.system,
            fault: one.kind.name(),
            message: &one.message,
            replay: one.replay(),
            script: &one.script,
        };
        let each = || report.systems.iter().map(|(system, tally)| (system.as_str(), tally));
        Self {
            seed: report.seed,
            states: tally.states(),
            violations: report.violations.len(),
            states_by_fault: by_fault(tally),
            states_by_device: by_device(tally),
            states_by_system: each().map(|(system, tally)| (system, tally.states())).collect(),
            systems: each().map(|(system, tally)| (system, by_fault(tally))).collect(),
            runs: report.runs,
            lives: tally.lives,
            restarts: tally.restarts,
            recovered_pages: tally.recovered_pages,
            faults_struck: tally.faults_struck,
            faults_detected: tally.faults_detected,
            states_slow_device: tally.states_slow,
            states_time_jump: tally.states_jumped,
            seconds: report.seconds,
            threads: report.threads,
            states_per_second: report.states_per_second(),
            reached: &report.reached,
            unreached: &report.unreached,
            points: &report.points,
            violations_found: report.violations.iter().map(violation).collect(),
        }
    }
}
