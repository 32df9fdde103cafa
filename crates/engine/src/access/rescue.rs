//! Pages of a flash that has failed. The tasks that write have ended: nothing moves in the directory, no slot
//! and no frame is used again.

use super::Base;
use super::directory::Directory;
use super::flash_pages::{FlashPages, SlotFault};
use super::staging::Staging;
use crate::rescue::Rescue;
use entresol_core::{Lookup, PageId};
use entresol_runtime::yield_now;
use std::sync::Arc;

/// Reads pages of a cache whose flash has failed.
pub(crate) struct Rescuer {
    directory: Arc<Directory>,
    staging: Arc<Staging>,
    flash_pages: Arc<FlashPages>,
}

impl Rescuer {
    pub(super) fn new(base: &Base) -> Self {
        Self {
            directory: base.directory.clone(),
            staging: base.staging.clone(),
            flash_pages: base.flash_pages.clone(),
        }
    }
}

impl Rescue for Rescuer {
    fn rescue(&self, page: PageId, buffer: &mut [u8]) -> Result<(), String> {
        loop {
            let found = self.directory.with(|partition| {
                let found = partition.peek(page);
                let slot = if let Lookup::Flash { slot, .. } = found { Some(slot) } else { None };
                (found, slot.map_or(0, |slot| partition.proof(slot)))
            });
            let (found, proof) = found.map_err(|gone| gone.to_string())?;
            match found {
                Lookup::Staged { frame, position, .. } => {
                    let copied = self.staging.copy_out(frame, page, position, buffer);
                    if copied.map_err(|gone| gone.to_string())? {
                        return Ok(());
                    }
                    // Its owner is still copying it in.
                    yield_now();
                }
                Lookup::Flash { slot, generation, dirty: true } => {
                    let read = self.flash_pages.read(buffer, page, slot, generation, proof);
                    return read.map_err(|fault| match fault {
                        SlotFault::Unreadable(error) => error.to_string(),
                        SlotFault::Unproved(fault) => format!("flash slot {}: {fault}", slot.0),
                    });
                }
                Lookup::Flash { .. } | Lookup::Absent => {
                    return Err("it is not found there".to_owned());
                }
            }
        }
    }
}
