//! `entresol bench restart`.

use super::prepare::{self, Outputs};
use super::runner;
use crate::args::RestartArgs;
use crate::failure::Failure;
use crate::progress::Bars;
use entresol_core::System;
use entresol_lab::config::{Redo, Restart, Run};
use entresol_lab::report;
use std::time::Duration;

/// Runs the experiment and shows its results.
pub fn run(args: &RestartArgs) -> Result<(), Failure> {
    prepare::distinct("--system", &args.systems, |system| system.name().to_owned())?;
    let seconds = |interval: &Duration| interval.as_secs_f64().to_string();
    prepare::distinct("--checkpoint-interval", &args.checkpoint_interval, seconds)?;
    prepare::distinct("--redo", &args.redo, |redo| redo.name().to_owned())?;
    let runs = runs(args);
    // Each run has an interval of its own; the configuration's is not used.
    let config = prepare::config(&args.machine, &args.systems, args.minutes, args.checkpoint_interval[0])?;
    prepare::sizes(&config, &runs.iter().map(|restart| restart.run).collect::<Vec<_>>())?;
    let devices = prepare::devices(&args.machine);
    let outputs = Outputs::prepare(args.machine.json.as_deref(), args.machine.html.as_deref(), &devices)?;

    let bars = Bars::new(&runs.iter().map(name).collect::<Vec<_>>());
    let results = runner::run_restart(&config, &runs, &|run, stage| bars.show(run, &stage))?;
    drop(bars);

    let mut extra = prepare::shown(&config);
    extra
        .push(("watched after the restart".into(), format!("{} minutes", args.minutes.as_secs_f64() / 60.0)));
    outputs.show(&report::restart_report(&results, &extra), &results)?;
    let broken: Vec<_> = results
        .iter()
        .zip(&runs)
        .filter(|(r, _)| !r.consistency_ok)
        .map(|(_, restart)| name(restart))
        .collect();
    prepare::consistent(&broken)
}

fn runs(args: &RestartArgs) -> Vec<Restart> {
    let run = |system: &System| Run {
        system: *system,
        flash_percent: if system.has_cache() { args.flash_percent } else { 0.0 },
    };
    let mut runs = Vec::new();
    for redo in &args.redo {
        for system in &args.systems {
            let every = |interval: &Duration| Restart { run: run(system), interval: *interval, redo: *redo };
            runs.extend(args.checkpoint_interval.iter().map(every));
        }
    }
    runs
}

fn name(Restart { run, interval, redo }: &Restart) -> String {
    let log = if *redo == Redo::Usual { String::new() } else { format!(", log {}", redo.name()) };
    format!("{} every {} s{log}", run.system.name(), interval.as_secs_f64())
}
