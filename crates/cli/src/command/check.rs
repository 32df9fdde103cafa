//! `entresol check FLASH [DISK]`.

use super::storage;
use crate::failure::Failure;
use crate::output;
use anyhow::Context;
use std::path::Path;

/// Verifies every invariant of a flash cache, with the disk also that the two agree.
pub fn run(flash: &Path, disk: Option<&Path>) -> Result<(), Failure> {
    let device = storage::open("flash cache", flash)?;
    let disk = disk.map(|path| storage::open("disk", path)).transpose()?;
    let report = entresol_engine::check(&*device, disk).with_context(|| flash.display().to_string())?;
    output::print(&report.to_string())?;
    match report.faults.as_slice() {
        [] => Ok(()),
        [only] => Err(Failure::Check(format!("{}: an invariant is broken: {only}", flash.display()))),
        [first, others @ ..] => Err(Failure::Check(format!(
            "{}: {} invariants are broken, the first: {first}",
            flash.display(),
            others.len() + 1
        ))),
    }
}
