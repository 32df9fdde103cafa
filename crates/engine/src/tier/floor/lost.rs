//! Pages that are lost while the flash stays in use: the only copy of each was on flash, is newer than the
//! disk's, and cannot be read. (docs/DESIGN.md, "Lost pages".)
//!
//! Invariants: a page is recorded as lost, durably, before its slot is released ([`crate::disk::Missing`]). A
//! page that can be read is never given up for the sake of another one.
//!
//! Not where a log stands above: a restart may rebuild the page from the log, as long as no checkpoint has
//! passed. Such a tier stops, and its owner restarts.

use super::failures::Failures;
use super::object_log::ObjectLog;
use crate::access::{Access, CachedPages, Directory, Forgets, Rescuer};
use crate::disk::{DiskPages, Missing, PageRanges};
use crate::error::told_of;
use crate::to_disk::named;
use crate::{TierError, points};
use entresol_core::PageId;
use std::sync::Arc;

/// See the module's header.
pub(crate) struct LostPages {
    directory: Arc<Directory>,
    cached: Arc<CachedPages>,
    rescuer: Arc<Rescuer>,
    forgets: Arc<Forgets>,
    failures: Arc<Failures>,
    disk: Arc<DiskPages>,
    has_no_log_above: bool,
}

impl LostPages {
    pub(crate) fn new(
        access: &Arc<Access>,
        disk: &Arc<DiskPages>,
        objects: &ObjectLog,
        failures: &Arc<Failures>,
    ) -> Self {
        let is_raw = access.options.page_format.has_no_owner_with_a_log();
        let has_no_log_above = is_raw && !objects.has_table();
        Self {
            directory: access.directory.clone(),
            cached: access.cached.clone(),
            rescuer: access.rescuer.clone(),
            forgets: access.forgets.clone(),
            failures: failures.clone(),
            disk: disk.clone(),
            has_no_log_above,
        }
    }

    /// Records pages as lost that are damaged, as these errors say. Then their slots may be used again.
    ///
    /// # Errors
    /// The first of `faults`, if no page may be lost here, or too many are.
    pub(crate) fn lose(&self, faults: &[TierError]) -> Result<(), TierError> {
        let Some(first) = faults.first() else { return Ok(()) };

        match self.has_no_log_above && self.disk.missing.lose(Some(self.rescuer.clone()), &named(faults))? {
            true => Ok(()),
            false => Err(first.clone()),
        }
    }

    /// As [`PageCache::give_up`](crate::PageCache::give_up).
    pub(crate) fn give_up(&self, page: PageId) -> Result<(), TierError> {
        let too_many = || {
            TierError::Refused(format!(
                "page {page} cannot be read from flash, an acknowledged write of a part of it cannot be carried out, and too \
                 many pages are lost to record one more; write lost pages as a whole, or trim them"
            ))
        };
        let is_lost = |missing: &Missing| missing.has(page);
        if !self.has_no_log_above
            || self.disk.missing.lost().is_some_and(is_lost)
            || self.disk.missing.give_up(page)?
        {
            return Ok(());
        }
        let lose = || match self.disk.missing.lose(Some(self.rescuer.clone()), &[page])? {
            true => Ok(()),
            false => Err(too_many()),
        };
        points::LOST_GIVEN_UP.reach();
        let given_up = match self.directory.is_log() {
            true => self.forgets.forget_for((page, page), lose),
            // Until the slot is empty its page is damaged, and fails its readers.
            false => lose().and_then(|()| self.forgets.forget_range((page, page)).map(drop)),
        };
        given_up.inspect_err(|error| self.failures.fail(error.clone()))?;
        // The flash may have failed meanwhile.
        self.disk.missing.give_up(page).map(drop)
    }

    /// The lost pages of which the cache has no newer version.
    pub(crate) fn now(&self) -> Result<PageRanges, TierError> {
        let mut lost = PageRanges::default();
        for page in self
            .disk
            .missing
            .lost()
            .into_iter()
            .flat_map(|missing| missing.within(PageId(0), PageId(u64::MAX)))
        {
            if !self.cached.is_dirty(page)? {
                lost.insert(page);
            }
        }
        Ok(lost)
    }

    /// For the owner, at an open.
    pub(crate) fn notice(&self) -> Result<Option<String>, TierError> {
        let lost = self.now()?.list();
        let told =
            || format!("{}; requests for them fail until they are written again as a whole", told_of(&lost));
        Ok((!lost.is_empty()).then(told))
    }
}
