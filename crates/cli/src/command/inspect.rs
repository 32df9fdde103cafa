//! `entresol inspect DEVICE`: a flash cache, or the log of a store.

use super::storage;
use crate::failure::Failure;
use crate::output;
use anyhow::Context;
use std::path::Path;

/// Shows the contents of a flash cache, or of a log.
pub fn run(flash: &Path) -> Result<(), Failure> {
    let device = storage::open("flash cache", flash)?;
    if entresol_store::is_log(&*device).with_context(|| flash.display().to_string())? {
        let report = entresol_store::examine_log(&*device).with_context(|| flash.display().to_string())?;
        return output::print(&report.to_string());
    }
    let report = entresol_engine::inspect(&*device).with_context(|| flash.display().to_string())?;
    output::print(&report.to_string())
}
