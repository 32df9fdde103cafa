//! The lab for programs that have a trace in memory: the options are those of the command line, with their
//! checks and sentences, so that results are the command's to the digit.

use crate::args::{AdviseArgs, Cli, Command, MrcArgs, SimulateArgs, Trace as Asked};
use crate::command::source::Source;
use crate::command::{advise, mrc, simulate};
use crate::failure::Failure;
use clap::Parser;
use entresol_lab::{replay, report};
use entresol_trace::Trace;
use std::sync::{Arc, Mutex, PoisonError};

/// Told how far a question is: the share that is done.
pub type Progress<'a> = &'a (dyn Fn(f64) + Sync);

/// What `entresol simulate --json` writes for this trace and these options.
///
/// # Errors
/// The sentence that the command would print.
pub fn simulate(trace: &Arc<Trace>, options: &[String], progress: Progress<'_>) -> Result<Vec<u8>, String> {
    let args: Box<SimulateArgs> = match parsed("simulate", trace, options)? {
        Command::Simulate(args) => args,
        _ => return Err(other("simulate")),
    };
    let asked = || -> Result<Vec<u8>, Failure> {
        let source = Source::of(&args.source, trace)?;
        let configs = simulate::configs(&args, &source)?;
        let shares = Mutex::new(vec![0.0; configs.len()]);
        let results = replay::simulate(source.workload(), &configs, &|run, share| {
            let mut shares = shares.lock().unwrap_or_else(PoisonError::into_inner);
            shares[run] = share;
            progress(shares.iter().sum::<f64>() / shares.len() as f64);
        })?;
        Ok(report::json(&results).map_err(anyhow::Error::from)?)
    };
    asked().map_err(Failure::into_sentence)
}

/// What `entresol mrc --json` writes for this trace and these options.
///
/// # Errors
/// As [`simulate()`].
pub fn mrc(trace: &Arc<Trace>, options: &[String], progress: Progress<'_>) -> Result<Vec<u8>, String> {
    let args: Box<MrcArgs> = match parsed("mrc", trace, options)? {
        Command::Mrc(args) => args,
        _ => return Err(other("mrc")),
    };
    let asked = || -> Result<Vec<u8>, Failure> {
        let source = Source::of(&args.source, trace)?;
        let curves = mrc::curves(&args, &source, progress)?;
        Ok(report::json(&curves).map_err(anyhow::Error::from)?)
    };
    asked().map_err(Failure::into_sentence)
}

/// What `entresol advise --json` writes for this trace and these options.
///
/// # Errors
/// As [`simulate()`].
pub fn advise(trace: &Arc<Trace>, options: &[String], progress: Progress<'_>) -> Result<Vec<u8>, String> {
    let args: Box<AdviseArgs> = match parsed("advise", trace, options)? {
        Command::Advise(args) => args,
        _ => return Err(other("advise")),
    };
    let asked = || -> Result<Vec<u8>, Failure> {
        let source = Source::of(&args.source, trace)?;
        let advice = advise::advice(&args, &source, progress)?;
        Ok(report::json_object(&advice).map_err(anyhow::Error::from)?)
    };
    asked().map_err(Failure::into_sentence)
}

fn other(command: &str) -> String {
    format!("the options are those of another command than {command}")
}

/// The command line with these options; the trace's name stands for its file, which is not read.
fn parsed(command: &str, trace: &Trace, options: &[String]) -> Result<Command, String> {
    let words = ["entresol", command, "--trace"].map(str::to_owned).into_iter();
    let words = words.chain([format!("./{}", trace.name)]).chain(options.iter().cloned());
    let cli = Cli::try_parse_from(words).map_err(|error| Failure::Arguments(error).into_sentence())?;
    Ok(cli.command)
}

/// Reads a trace; `options` are those of `entresol trace info`.
///
/// # Errors
/// As [`simulate()`].
pub fn read(path: &str, options: &[String]) -> Result<Trace, String> {
    let words = ["entresol", "trace", "info"].map(str::to_owned).into_iter();
    let words = words.chain(options.iter().cloned()).chain(["--".to_owned(), path.to_owned()]);
    let cli = Cli::try_parse_from(words).map_err(|error| Failure::Arguments(error).into_sentence())?;
    let Command::Trace { trace: Asked::Info(info) } = cli.command else { return Err(other("trace info")) };
    let options = info.read.options().map_err(Failure::into_sentence)?;
    entresol_trace::read(&info.file, &options).map_err(|error| error.to_string())
}
