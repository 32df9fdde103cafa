//! `entresol check FLASH [DISK]`.

use super::storage;
use crate::failure::Failure;
use crate::output;
use crate::progress::Counted;
use anyhow::Context;
use entresol_engine::CheckReport;
use std::path::Path;

/// Verifies every invariant of a flash cache, with the disk also that the two agree.
pub fn run(flash: &Path, disk: Option<&Path>) -> Result<(), Failure> {
    let device = storage::open("flash cache", flash)?;
    let disk = disk.map(|path| storage::open("disk", path)).transpose()?;
    if let Some(disk) = &disk {
        storage::refuse_volume("check", flash, &*device, &**disk)?;
    }
    let bar = Counted::new("checking", "groups or slots");
    let report = entresol_engine::check_watched(&*device, disk, &mut |done, all| bar.show(done, all));
    drop(bar);
    let report = report.with_context(|| flash.display().to_string())?;
    tell(&report, flash)
}

/// Shows a report of the cache at `path`.
pub fn tell(report: &CheckReport, path: &Path) -> Result<(), Failure> {
    output::print(&report.to_string())?;
    match report.faults.as_slice() {
        [] => Ok(()),
        [only] => Err(Failure::Check(format!("{}: an invariant is broken: {only}", path.display()))),
        [first, others @ ..] => Err(Failure::Check(format!(
            "{}: {} invariants are broken, the first: {first}",
            path.display(),
            others.len() + 1
        ))),
    }
}
