//! The `entresol` command: volumes, advice and experiments from a terminal.
//!
//! It is a library so that Python may ask the lab the same questions in the same words ([`embedded`]); all
//! else of it is private.
//!
//! Exit status: 0 all well; 1 a check failed (an invariant of a flash cache is broken, or TPC-C's consistency
//! conditions do not hold); 2 bad input or a failure. With a status other than 0, one sentence on stderr
//! names the fault, its place and the remedy. If the reader of stdout has ended (`entresol | head`), the
//! command ends quietly, with status 0 if all else succeeded. Invariant: input is validated before work
//! starts, as far as possible; an output file is written whole or not at all.
#![forbid(unsafe_code)]

mod args;
mod command;
pub mod embedded;
mod failure;
mod log;
mod output;
mod progress;
#[cfg(feature = "torture")]
mod told;

use args::{Bench, Cli, Command, InspectWhat};
use clap::Parser;
use failure::Failure;
use std::process::ExitCode;
use tracing_subscriber::filter::LevelFilter;

// No counter of the torture may leak into a build that did not ask for it.
const _: () = assert!(entresol_runtime::coverage::COMPILED_IN == cfg!(feature = "torture"));

/// Starts the log. Its usual level is `warn` for a server, which has no other way to report; other commands
/// print what they have to say.
fn start_log(command: &Command) -> Result<Option<log::Log>, Failure> {
    match command {
        Command::Serve(_) => log::start(LevelFilter::WARN, true),
        _ => log::start(LevelFilter::OFF, false),
    }
}

/// Carries out the command line of this process.
pub fn main() -> ExitCode {
    let outcome = match Cli::try_parse() {
        _ if std::env::args_os().len() <= 1 => command::welcome::run(),
        // The log ends last.
        Ok(cli) => start_log(&cli.command).and_then(|_log| run(cli.command)),
        Err(error) => Err(Failure::Arguments(error)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Bench { bench: Bench::Tpcc(tpcc) } => command::tpcc::run(&tpcc),
        Command::Bench { bench: Bench::Restart(restart) } => command::restart::run(&restart),
        Command::Simulate(simulate) => command::simulate::run(&simulate),
        Command::Reproduce(reproduce) => command::reproduce::run(&reproduce),
        Command::Advise(advise) => command::advise::run(&advise),
        Command::Mrc(mrc) => command::mrc::run(&mrc),
        Command::Inspect(inspect) => match (inspect.what, inspect.flash) {
            (Some(InspectWhat::Layout { slots }), _) => command::layout::run(slots),
            (None, Some(flash)) => command::inspect::run(&flash),
            (None, None) => Err(Failure::input(
                "nothing to inspect; name a flash file or device, or say `inspect layout`",
            )),
        },
        Command::Check { flash, disk } => command::check::run(&flash, disk.as_deref()),
        Command::Detach { flash, disk, loss } => command::detach::run(&flash, &disk, &loss),
        #[cfg(feature = "torture")]
        Command::Torture(torture) => command::torture::run(&torture),
        #[cfg(not(feature = "torture"))]
        Command::Torture { .. } => Err(Failure::input(
            "torture is not part of this build; build it in with `cargo run --release --features torture -- torture`",
        )),
        Command::Trace { trace } => command::trace::run(&trace),
        Command::Volume { volume } => command::volume::run(&volume),
        Command::Serve(serve) => command::serve::run(&serve),
        Command::Doctor(doctor) => command::doctor::run(&doctor),
        Command::Devices => command::devices::run(),
        Command::Completions { shell } => command::manual::completions(shell),
        Command::Manual { folder } => command::manual::manual(&folder),
        Command::Worker(worker) => command::worker::run(*worker),
    }
}
