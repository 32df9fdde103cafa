//! What is made durable before a write would have to wait for it: the disk remembers a bounded part of what
//! is not durable, and so does the journal.
//!
//! Invariant: nothing is promised to a client by it. What it makes durable, a flush need not.

use super::{Volume, VolumeError};
use entresol_device::Device;

impl Volume {
    /// Whether half of the room for writes that are not durable is used: [`Volume::settle`] is due. Never
    /// waits.
    pub fn is_settling_due(&self) -> bool {
        self.home.is_sync_due() || self.is_journal_half_full()
    }

    fn is_journal_half_full(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| {
            let (room, used) = journal.room();
            used >= room / 2
        })
    }

    /// Makes writes durable, so that later ones find room. Requests go on meanwhile.
    ///
    /// # Errors
    /// [`VolumeError`]: a flush, or a write that finds no room, will be told, too.
    pub fn settle(&self) -> Result<(), VolumeError> {
        let held = self.cache.read();
        if self.is_journal_half_full() {
            return self.flush_to(held.as_ref());
        }
        match &*held {
            Some(cache) => Ok(cache.tier.sync_disk()?),
            None => self.direct.flush(None),
        }
    }
}
