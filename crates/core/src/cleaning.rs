//! Copying dirty pages to disk before their slots are needed: jobs of a policy's cleaner, sweeps of a
//! checkpoint, and pages that their owner wants on disk now.

use crate::job::CleanPage;
use crate::partition::{Partition, Place};
use crate::placement::slots;
use crate::slot::DIRTY;
use crate::{PageId, SlotId};

/// The answer to [`Partition::clean`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleaning {
    /// The page has no dirty copy in a slot. A version of it may be staged.
    Clean,
    /// A copy is on its way to disk, or too many others are: ask again when a job is complete.
    Busy,
    /// This copy is to be written to disk. Report it with [`Partition::cleaned`], or give it up with
    /// [`Partition::clean_failed`].
    Copy(CleanPage),
}

impl Partition<'_> {
    /// Begins to copy the newest version of `page` in a slot to disk, where it stays as a clean page. Until
    /// the copy is reported, it counts as on its way to disk ([`Partition::is_in_dequeue`]). Log placement:
    /// at most [`crate::CLEANINGS_MAX`] at once, and no dequeue begins meanwhile, so that no version of the
    /// page follows it to disk out of order.
    pub fn clean(&mut self, page: PageId) -> Cleaning {
        let directory = &self.contents.pages.directory;
        let copy = directory.find_on_flash(page).filter(|slot| directory.entry(*slot).has(DIRTY));
        let Some(slot) = copy else { return Cleaning::Clean };
        let page = match &mut self.place {
            Place::Ring(ring) => ring.clean(&self.contents, slot),
            Place::Slots(_) if !directory.is_idle(slot) => None,
            Place::Slots(_) => Some(slots::start_copy(&mut self.contents.pages, slot)),
        };
        page.map_or(Cleaning::Busy, Cleaning::Copy)
    }

    /// The page of a cleaning is on disk; with log placement durably. If it is still the newest version in a
    /// slot, it is clean now.
    pub fn cleaned(&mut self, page: &CleanPage) {
        match &mut self.place {
            Place::Ring(ring) => ring.cleaned(&mut self.contents, page),
            Place::Slots(_) => slots::cleaned(&mut self.contents.pages.directory, page.slot.0),
        }
    }

    /// The page of a cleaning could not be copied. It stays dirty.
    pub fn clean_failed(&mut self, page: &CleanPage) {
        match &mut self.place {
            Place::Ring(ring) => ring.clean_ends(page),
            Place::Slots(_) => slots::clean_failed(&mut self.contents.pages.directory, page.slot.0),
        }
    }

    /// Log placement: whether a dequeue is to begin, and none does while a cleaning is under way. Slot
    /// placement: no.
    pub fn dequeue_is_due(&self) -> bool {
        match &self.place {
            Place::Ring(ring) => ring.dequeue_is_due(&self.contents),
            Place::Slots(_) => false,
        }
    }

    /// Slot placement: the next dirty slot at or after `from`, to be cleaned. `Err` names a dirty slot with
    /// work under way: ask for it again when that is done. `None`: no dirty slot is left. For the checkpoint
    /// of a policy whose directory does not survive a crash.
    pub fn sweep(&mut self, from: SlotId) -> Option<Result<CleanPage, SlotId>> {
        match slots::sweep(&self.contents.pages.directory, from.0)? {
            Ok(slot) => Some(Ok(slots::start_copy(&mut self.contents.pages, slot))),
            Err(busy) => Some(Err(SlotId(busy))),
        }
    }
}
