//! `cargo xtask postgres try`: a minor version that was never tried with the patches.

use super::build::Build;
use super::source;
use super::test::{run_gate, user_of_servers};
use super::version::{Source, Version};
use crate::paths;
use crate::programs::sha256;
use anyhow::{Result, bail};
use clap::Args;
use std::path::PathBuf;

/// What `try` may be told.
#[derive(Args, Clone, Debug)]
pub struct TryArgs {
    /// The minor version, as 18.7.
    version: Version,
    /// Its source as Debian has it. Compare its SHA-256 with Debian's index before: nothing else does.
    #[arg(long, value_name = "FILE")]
    source: PathBuf,
    /// The user that servers run as, if the caller is root [default: the user `nobody`].
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Rounds of the suites that have rounds.
    #[arg(long, default_value_t = 10)]
    rounds: u32,
    /// Compile PostgreSQL's assertions in: slower, and finds more.
    #[arg(long)]
    assertions: bool,
}

/// Patches and builds the version, runs the gate's suites over it, and adds it to those that were tried.
///
/// # Errors
///
/// A patch does not apply, or a suite fails. Nothing was added.
pub fn try_version(arguments: &TryArgs) -> Result<()> {
    let TryArgs { version, source: file, .. } = arguments;
    let user = user_of_servers(arguments.user.as_deref())?;
    if !file.is_file() {
        bail!("{} is no file", file.display());
    }
    let source = Source { version: *version, sha256: sha256(file)? };
    source::check_version(&source, file)?;
    let build = Build::of_new(source.clone(), arguments.assertions, file)?;
    run_gate(build, user, arguments.rounds)?;
    source.was_tried()?;
    let sums = paths::patches(version.major).join("SHA256SUMS");
    println!("PostgreSQL {version}: every suite has passed; {} has its checksum", sums.display());
    Ok(())
}
