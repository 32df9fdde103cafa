//! `entresol inspect FLASH`.

use crate::failure::Failure;
use std::path::Path;

/// Shows what is on a flash cache.
pub fn run(flash: &Path) -> Result<(), Failure> {
    Err(Failure::input(format!("inspect {}: not available yet in this build", flash.display())))
}
