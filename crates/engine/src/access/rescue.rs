//! Pages of a flash that has failed. The tasks that write have ended: nothing moves in the directory, no slot
//! and no frame is used again.

use super::Access;
use crate::rescue::Rescue;
use entresol_core::{Lookup, PageId};
use entresol_runtime::yield_now;

impl Rescue for Access {
    fn rescue(&self, page: PageId, buffer: &mut [u8]) -> Result<(), String> {
        loop {
            let found = self.with(|partition| {
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
                    let read = self.flash.read(self.layout.slot_offset(slot), buffer);
                    read.map_err(|error| error.to_string())?;
                    let proved = self.prove(buffer, page, slot, generation, proof);
                    proved.map_err(|fault| format!("flash slot {}: {fault}", slot.0))?;
                    self.options.page_format.unseal(buffer, page);
                    return Ok(());
                }
                Lookup::Flash { .. } | Lookup::Absent => {
                    return Err("it is not found there".to_owned());
                }
            }
        }
    }
}
