//! `cargo xtask mutants`: plants known bugs in a copy of the tree, and sees that the tests notice each.
//!
//! A mutant is a file of `crates/testkit/mutants`: its place, the changed code, the consequence,
//! and which test must notice it (`file`). All are woven into one copy of the tree as alternatives at run
//! time (`weave`, `copy`). The copy is built once (`programs`), and every hunt is a process of its own, in
//! which one mutant is alive (`hunt`). The product itself holds no mutant.

mod copy;
mod file;
mod hunt;
mod part;
mod programs;
mod weave;

use crate::paths;
use anyhow::{Result, bail};
use clap::Args;
use copy::Copy;
use file::Mutant;
use hunt::{Hunt, Outcome};
use part::Part;
use programs::Programs;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

/// `cargo xtask mutants`.
#[derive(Args)]
pub struct MutantsArgs {
    /// Only these mutants; all, if none is named
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Only sees that every mutant still fits the sources, and that its tests exist
    #[arg(long, conflicts_with_all = ["sound", "seed", "jobs"])]
    check: bool,
    /// Only mutants that the changes since REVISION may concern: in these files, or hunted by them
    #[arg(long, value_name = "REVISION", conflicts_with_all = ["names", "check"])]
    since: Option<String>,
    /// And one in N of the others, with each commit other ones
    #[arg(long, value_name = "N", requires = "since", default_value = "0", hide_default_value = true)]
    and_one_in: usize,
    /// The hunts of these mutants without the mutants: they must find nothing
    #[arg(long)]
    sound: bool,
    /// Where the hunts of the test kit begin
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Hunts at a time; as many as there are cores, if not given
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

/// Where the mutants are.
const FOLDER: &str = "crates/testkit/mutants";

/// Checks the mutants of the repository, or hunts them.
///
/// # Errors
///
/// A mutant does not fit the sources, the copy cannot be built, or a mutant was not noticed.
pub fn mutants(arguments: &MutantsArgs) -> Result<()> {
    let repository = paths::repository();
    if arguments.check {
        let count = check(repository)?;
        println!("{count} mutants fit the sources");
        return Ok(());
    }
    let began = Instant::now();
    let all = Mutant::all(&repository.join(FOLDER))?;
    let chosen = match &arguments.since {
        Some(revision) => Part::since(repository, revision, arguments.and_one_in)?.of(&all),
        None => choose(&all, &arguments.names)?,
    };
    println!("{} of {} mutants are hunted", chosen.len(), all.len());
    let sources = weave::sources(repository, &all)?;
    let copy = Copy::update(repository, &paths::target().join("mutants"), &sources)?;
    let programs = Programs::build(&copy, &chosen)?;
    let hunts = Hunt::list(&chosen, arguments.names.is_empty(), arguments.sound);
    let outcomes = hunt::run(&hunts, &programs, arguments.seed, arguments.jobs);
    let wrong: Vec<_> = outcomes.iter().filter(|outcome| !outcome.is_right).map(Outcome::name).collect();
    let minutes = began.elapsed().as_secs_f64() / 60.0;
    println!("{} mutants, {} hunts, {minutes:.1} minutes", chosen.len(), hunts.len());
    if !wrong.is_empty() {
        bail!("{} of {} hunts ended wrongly: {}", wrong.len(), hunts.len(), wrong.join(", "));
    }
    Ok(())
}

/// Sees that each mutant below `root` fits its sources exactly once, and that its tests exist. Returns their
/// number.
///
/// # Errors
///
/// All that does not fit, with what to do.
pub fn check(root: &Path) -> Result<usize> {
    let all = Mutant::all(&root.join(FOLDER))?;
    let mut faults: Vec<String> =
        weave::sources(root, &all).err().map(|error| error.to_string()).into_iter().collect();
    faults.extend(all.iter().flat_map(|mutant| mutant.missing_tests(root)));
    if !faults.is_empty() {
        bail!("{}", faults.join("\n"));
    }
    Ok(all.len())
}

fn choose<'a>(all: &'a [Mutant], names: &[String]) -> Result<Vec<&'a Mutant>> {
    if all.is_empty() {
        bail!("{FOLDER} has no mutants");
    }
    if names.is_empty() {
        return Ok(all.iter().collect());
    }
    let known: BTreeMap<&str, &Mutant> = all.iter().map(|mutant| (mutant.name.as_str(), mutant)).collect();
    let find = |name: &String| match known.get(name.as_str()) {
        Some(mutant) => Ok(*mutant),
        None => bail!("there is no mutant {name:?}; {FOLDER} has one file for each"),
    };
    names.iter().map(find).collect()
}
