//! Pages that are forgotten: by the core, and by the directory on flash, if there is one.

use super::upkeep::Upkeep;
use crate::TierError;
use crate::access::{Directory, Forgets, PageOrder, Signals};
use crate::disk::DiskPages;
use crate::tier::floor::Floor;
use crate::tier::floor::disk_trouble::DiskTrouble;
use entresol_core::{Admission, PageId, Walk};
use std::sync::Arc;

/// See the module's header.
pub(crate) struct Deletions {
    directory: Arc<Directory>,
    forgets: Arc<Forgets>,
    signals: Arc<Signals>,
    order: PageOrder,
    disk: Arc<DiskPages>,
    trouble: Arc<DiskTrouble>,
    upkeep: Option<Arc<Upkeep>>,
}

impl Deletions {
    pub(crate) fn new(floor: &Floor, upkeep: &Option<Arc<Upkeep>>) -> Self {
        Self {
            directory: floor.access.directory.clone(),
            forgets: floor.access.forgets.clone(),
            signals: floor.access.signals.clone(),
            order: floor.access.order.clone(),
            disk: floor.disk.clone(),
            trouble: floor.trouble.clone(),
            upkeep: upkeep.clone(),
        }
    }

    /// Makes the core forget every copy of `page`, and the directory on flash, if there is one.
    pub(crate) fn forget(&self, page: PageId) -> Result<(), TierError> {
        loop {
            let seen = self.signals.progress.epoch();
            if !self.signals.check_running()? {
                return Ok(());
            }
            let (slot, admission) = self.directory.with(|partition| {
                self.order.changes(page);
                let slots = partition.slots_mut().expect("the pages are in slots");
                (slots.slot_holding(page), slots.bypass(page))
            })?;
            if admission == Admission::Full {
                self.signals.background.notify_one();
                self.signals.await_progress(seen)?;
                continue;
            }
            // Slots and frames may have become free.
            self.signals.job_is_done();
            return self.upkeep.as_ref().map_or(Ok(()), |upkeep| upkeep.forgets(page, slot));
        }
    }

    /// See [`Forgets::forget_range`](crate::access::Forgets::forget_range); the directory on flash forgets,
    /// too, if there is one, and the list of pages that the disk lacks.
    pub(crate) fn forget_range(&self, first: PageId, last: PageId) -> Result<u64, TierError> {
        if first <= last && self.upkeep.is_some() {
            let entries = self.directory.with(|partition| partition.entries())?;
            let mut pages: Vec<PageId> = Vec::with_capacity(entries as usize);
            if last.0 - first.0 < entries.into() {
                pages.extend((first.0..=last.0).map(PageId));
            } else {
                self.directory.with(|partition| {
                    let take = |page| pages.extend((first..=last).contains(&page).then_some(page));
                    partition.walk(&mut Walk::default(), u32::MAX, take)
                })?;
            }
            pages.into_iter().try_for_each(|page| self.forget(page))?;
        }
        let found = self.forgets.forget_range((first, last))?;
        self.trouble.forget((first, last));
        self.disk.missing.forget((first, last), || Ok::<(), TierError>(()))?;
        Ok(found)
    }
}
