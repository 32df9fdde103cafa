//! `cargo xtask postgres test`.

use super::build::{Build, BuildArgs, make};
use super::tools::Tools;
use super::{kill, model, suites};
use crate::paths;
use crate::programs::{User, is_root, output};
use crate::step::Steps;
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use std::fs;
use std::process::Command;

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
    /// Rounds of the suite `kill`.
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
    install_module(&bench)?;
    let all = [Suite::Model, Suite::Inactive, Suite::Regress, Suite::Isolation, Suite::Kill];
    let chosen = if arguments.only.is_empty() { &all[..] } else { &arguments.only[..] };
    for suite in chosen {
        match suite {
            Suite::Model => model::test(&bench)?,
            Suite::Inactive => suites::regress(&bench, false)?,
            Suite::Regress => suites::regress(&bench, true)?,
            Suite::Isolation => suites::isolation(&bench)?,
            Suite::Kill => kill::test(&bench, arguments.rounds)?,
            Suite::Tap => suites::tap(&bench)?,
        }
    }
    Ok(())
}

/// Builds the module hooktrace, and installs it to where only this server finds it.
fn install_module(bench: &Bench) -> Result<()> {
    let tools = Tools::for_build()?;
    let folder = bench.build.source.join("hooktrace");
    fs::create_dir_all(&folder)?;
    for file in fs::read_dir(paths::hooktrace()).context("the module's folder")? {
        let file = file?.path();
        fs::copy(&file, folder.join(file.file_name().unwrap_or_default()))?;
    }
    let config = format!("PG_CONFIG={}", bench.build.program("pg_config").display());
    let mut make = Command::new("make");
    make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL").env_remove("MFLAGS");
    make.current_dir(&folder).args([&config, "COPT=-Werror", "all", "install"]);
    output(tools.set(&mut make)).map(drop)
}
