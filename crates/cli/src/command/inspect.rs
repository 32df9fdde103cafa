//! `entresol inspect FLASH`.

use super::storage;
use crate::failure::Failure;
use crate::output;
use anyhow::Context;
use std::path::Path;

/// Shows the contents of a flash cache.
pub fn run(flash: &Path) -> Result<(), Failure> {
    let device = storage::open("flash cache", flash)?;
    let report = entresol_engine::inspect(&*device).with_context(|| flash.display().to_string())?;
    output::print(&report.to_string())
}
