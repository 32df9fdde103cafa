//! `entresol completions` and `entresol manual`: what a package installs with the program, from the
//! definition of the command line.

use crate::args::Cli;
use crate::failure::Failure;
use crate::output;
use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;
use std::path::Path;

/// Prints the completions for `shell`.
pub fn completions(shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "entresol", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}

/// Writes a manual page for each command into `folder`, which exists.
pub fn manual(folder: &Path) -> Result<(), Failure> {
    if !folder.is_dir() {
        let shown = folder.display();
        return Err(Failure::input(format!("{shown} is no folder; make one for the manual pages first")));
    }
    let written = clap_mangen::generate_to(Cli::command(), folder);
    Ok(written.with_context(|| format!("writing manual pages to {}", folder.display()))?)
}
