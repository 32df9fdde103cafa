//! `cargo xtask postgres test`.

use super::build::{Build, BuildArgs, make};
use super::cache::{ENTRESOL, MODEL};
use super::{binding, faults, kill, model, module, sql, standby, suites};
use crate::paths;
use crate::programs::{User, is_root};
use crate::step::Steps;
use anyhow::Result;
use clap::{Args, ValueEnum};

/// A part of the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Suite {
    /// Random work on one relation against a model; each left-out step must be noticed.
    Model,
    /// PostgreSQL's regression tests without a module: the hooks are inactive.
    Inactive,
    /// PostgreSQL's regression tests over the model cache.
    Regress,
    /// PostgreSQL's isolation tests over the model cache.
    Isolation,
    /// Processes killed under load over the model cache; acknowledged transactions are counted.
    Kill,
    /// The same random work over the flash cache.
    FlashModel,
    /// PostgreSQL's regression tests over the flash cache.
    FlashRegress,
    /// PostgreSQL's isolation tests over the flash cache.
    FlashIsolation,
    /// Processes killed under load over the flash cache; acknowledged transactions are counted.
    FlashKill,
    /// A flash and a cluster that do not belong together are refused, and nothing is changed.
    FlashBinding,
    /// The extension's views, and who may read them.
    FlashSql,
    /// Damaged pages on flash: no query gets a wrong answer.
    FlashFaults,
    /// A backup under load, restored without a flash, and as a standby with its own.
    FlashStandby,
    /// PostgreSQL's recovery tests (TAP) over the model cache: about ten minutes. Only if named.
    Tap,
}

/// What `test` may be told.
#[derive(Args, Debug)]
pub struct TestArgs {
    /// Only these; may be repeated.
    #[arg(long, value_name = "SUITE")]
    only: Vec<Suite>,
    /// The user that servers run as, if the caller is root [default then: nobody].
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Rounds of the suites `kill` and `flash-kill`.
    #[arg(long, default_value_t = 10)]
    rounds: u32,
    #[command(flatten)]
    build: BuildArgs,
}

/// What every suite needs.
pub(super) struct Bench {
    pub build: Build,
    pub user: User,
    pub steps: Steps,
}

/// Runs the suites.
///
/// # Errors
///
/// The first that fails.
pub fn test(arguments: &TestArgs) -> Result<()> {
    let nobody = (arguments.user.is_none() && is_root()?).then_some("nobody");
    let user = User::named(arguments.user.as_deref().or(nobody))?;
    let build = make(&arguments.build)?;
    let steps = Steps::new(&paths::postgres().join("test.log"))?;
    let bench = Bench { build, user, steps };
    module::install_hooktrace(&bench.build)?;
    module::install_extension(&bench.build)?;
    let all = [
        Suite::Model,
        Suite::Inactive,
        Suite::Regress,
        Suite::Isolation,
        Suite::Kill,
        Suite::FlashModel,
        Suite::FlashRegress,
        Suite::FlashIsolation,
        Suite::FlashKill,
        Suite::FlashBinding,
        Suite::FlashSql,
        Suite::FlashFaults,
        Suite::FlashStandby,
    ];
    let chosen = if arguments.only.is_empty() { &all[..] } else { &arguments.only[..] };
    for suite in chosen {
        match suite {
            Suite::Model => model::test(&bench, &MODEL)?,
            Suite::FlashModel => model::test(&bench, &ENTRESOL)?,
            Suite::Inactive => suites::regress(&bench, None)?,
            Suite::Regress => suites::regress(&bench, Some(&MODEL))?,
            Suite::Isolation => suites::isolation(&bench, &MODEL)?,
            Suite::Kill => kill::test(&bench, &MODEL, arguments.rounds)?,
            Suite::FlashRegress => suites::regress(&bench, Some(&ENTRESOL))?,
            Suite::FlashIsolation => suites::isolation(&bench, &ENTRESOL)?,
            Suite::FlashKill => kill::test(&bench, &ENTRESOL, arguments.rounds)?,
            Suite::FlashBinding => binding::test(&bench)?,
            Suite::FlashSql => sql::test(&bench)?,
            Suite::FlashFaults => faults::test(&bench)?,
            Suite::FlashStandby => standby::test(&bench)?,
            Suite::Tap => suites::tap(&bench)?,
        }
    }
    Ok(())
}
