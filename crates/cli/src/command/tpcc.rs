//! `entresol bench tpcc`.

use super::prepare::{self, Outputs};
use super::{runner, trace};
use crate::args::TpccArgs;
use crate::failure::Failure;
use crate::output::{self, OutputFile};
use crate::progress::Bars;
use entresol_core::System;
use entresol_lab::config::{BenchConfig, Run, Warmup};
use entresol_lab::result::TpccResult;
use entresol_lab::{bench, report};
use entresol_trace::Format;
use std::path::{Path, PathBuf};

/// Runs the experiment and shows its results.
pub fn run(args: &TpccArgs) -> Result<(), Failure> {
    prepare::distinct("--system", &args.systems, |system| system.name().to_owned())?;
    prepare::distinct("--flash-percent", &args.flash_percent, f64::to_string)?;
    let runs = runs(&args.systems, &args.flash_percent);
    let config = prepare::config(&args.machine, &args.systems, args.minutes, args.checkpoint_interval)?;
    let config = BenchConfig { flash_writes_per_day: args.flash_writes_per_day, ..config };
    prepare::sizes(&config, &runs)?;
    let devices = prepare::devices(&args.machine);
    let outputs = Outputs::prepare(args.machine.json.as_deref(), args.machine.html.as_deref(), &devices)?;

    let record = args.record.as_deref().map(|path| record_of(path, &runs, &devices)).transpose()?;
    if let Some((_, file)) = &record
        && outputs.files().any(|other| other.is(file))
    {
        return Err(Failure::input("--record: is the same file as --json or --html; give different paths"));
    }

    let bars = Bars::new(&runs.iter().map(name).collect::<Vec<_>>());
    let progress = |run, stage| bars.show(run, &stage);
    let (results, trace) = match record {
        None => (runner::run_tpcc(&config, &runs, &progress)?, None),
        Some((run, out)) => {
            let (result, trace) = bench::record_tpcc(&config, run, &progress)?;
            (vec![result], Some((trace, out)))
        }
    };
    drop(bars);
    if let Some((trace, out)) = trace {
        trace::write(&trace, Format::Entresol, &out)?;
        let from_s = results[0].warmup_minutes * 60.0;
        output::print(&format!("measured from second {from_s:.0} of the trace on (--measure-from)\n"))?;
    }

    let mut extra = prepare::shown(&config);
    extra.push(("checkpoint".into(), format!("every {} s", args.checkpoint_interval.as_secs_f64())));
    extra.extend(not_warm(&config, &results));
    outputs.show(&report::tpcc_report(&results, &extra), &results)?;
    let broken: Vec<_> =
        results.iter().zip(&runs).filter(|(r, _)| !r.consistency_ok).map(|(_, run)| name(run)).collect();
    prepare::consistent(&broken)
}

/// Says which caches were measured before they were warm.
fn not_warm(config: &BenchConfig, results: &[TpccResult]) -> Option<(String, String)> {
    let limit = bench::WARMUP_MAX.as_secs_f64() / 60.0;
    let late = results.iter().filter(|r| config.warmup == Warmup::Auto && r.warmup_minutes >= limit);
    let late: Vec<String> = late.map(|r| format!("{} at {} %", r.system, r.flash_percent)).collect();
    (!late.is_empty()).then(|| {
        let why = format!("{}: measured after the limit of {limit} minutes, not warm yet", late.join(", "));
        ("warm-up was cut".to_owned(), why)
    })
}

/// Where to record to, and the one run that is recorded.
fn record_of(path: &Path, runs: &[Run], devices: &[PathBuf]) -> Result<(Run, OutputFile), Failure> {
    let [run] = runs else {
        return Err(Failure::input(format!(
            "--record records one run and {} are asked for; name one with --system and --flash-percent",
            runs.len()
        )));
    };
    Ok((*run, OutputFile::prepare("--record", path, devices)?))
}

/// Baselines once, systems with a flash cache at every size.
fn runs(systems: &[System], flash_percents: &[f64]) -> Vec<Run> {
    let of = |system: &System| match system {
        System::DiskOnly | System::FlashOnly => vec![Run { system: *system, flash_percent: 0.0 }],
        System::Cached(_) | System::Fragments => {
            flash_percents.iter().map(|percent| Run { system: *system, flash_percent: *percent }).collect()
        }
    };
    systems.iter().flat_map(of).collect()
}

fn name(run: &Run) -> String {
    match run.system {
        System::DiskOnly | System::FlashOnly => run.system.name().to_owned(),
        System::Cached(_) | System::Fragments => format!("{} {} %", run.system.name(), run.flash_percent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use entresol_lab::config::FIGURE_4;

    #[test]
    fn baselines_run_once_and_caches_at_every_size() {
        let runs = runs(&FIGURE_4, &[4.0, 8.0]);
        let names: Vec<_> = runs.iter().map(name).collect();
        let cached =
            ["lc", "face", "face-gr", "face-gsc"].map(|n| [format!("{n} 4 %"), format!("{n} 8 %")]).concat();
        assert_eq!(names, [vec!["disk-only".into(), "flash-only".into()], cached].concat());
    }
}
