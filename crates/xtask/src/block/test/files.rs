//! Files on a volume whose server is killed, by `benches/block_files.py`: writers that note outside of the
//! volume what was begun and what was synced, and a comparison with the notes.

use crate::block::rig::Running;
use crate::paths;
use crate::programs::output;
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;

fn program() -> Command {
    let mut python = Command::new("python3");
    python.arg(paths::repository().join("benches/block_files.py"));
    python
}

/// Four writers, until they are killed.
pub(super) fn write(folder: &Path, notes: &Path, seed: &str) -> Result<Running> {
    Running::start(program().arg("write").arg(folder).arg(notes).arg(seed))
}

/// How many synced files there are; each is whole.
pub(super) fn check(folder: &Path, notes: &Path) -> Result<u64> {
    let said = output(program().arg("check").arg(folder).arg(notes))
        .context("files that were synced are not whole")?;
    said.lines().last().unwrap_or_default().parse().context("a number of files")
}
