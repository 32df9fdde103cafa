//! Pages that are lost while the flash goes on: the only copy of each was on flash, is newer than the disk's,
//! and cannot be read. (docs/DESIGN.md, "Lost pages".)
//!
//! Invariants: a page is recorded as lost, durably, before its slot is released ([`crate::disk::Missing`]). A
//! page that can be read is never given up for the sake of another one.
//!
//! Not where a log stands above: a restart may rebuild the page from the log, as long as no checkpoint has
//! passed. Such a tier stops, and its owner restarts.

use super::FlashTier;
use super::back::Back;
use crate::api::{MissingPages, Pages};
use crate::disk::PageRanges;
use crate::error::told_of;
use crate::to_disk::named;
use crate::{TierError, events};
use entresol_core::{PageId, mutant};
use entresol_format::missing::PageRange;

impl Back {
    /// Records pages as lost that are damaged, as these errors say. Then their slots may be used again.
    ///
    /// # Errors
    /// The first of `faults`, if no page may be lost here, or too many are.
    pub(super) fn lose(&self, faults: &[TierError]) -> Result<(), TierError> {
        let Some(first) = faults.first() else { return Ok(()) };
        let has_no_log_above = self.through.is_some() && self.objects.is_none();
        match has_no_log_above && self.disk.lose(Some(self.front.clone()), &named(faults))? {
            true => Ok(()),
            false => Err(first.clone()),
        }
    }

    /// The lost pages of which the cache has no newer version.
    fn lost_pages(&self) -> Result<PageRanges, TierError> {
        let mut lost = PageRanges::default();
        for page in
            self.disk.lost().into_iter().flat_map(|missing| missing.within(PageId(0), PageId(u64::MAX)))
        {
            if !self.front.is_dirty(page)? {
                lost.insert(page);
            }
        }
        Ok(lost)
    }

    /// For the owner, at an open.
    pub(super) fn tell_of_lost(&self) -> Result<Option<String>, TierError> {
        let lost = self.lost_pages()?.list();
        let told =
            || format!("{}; requests for them fail until they are written again as a whole", told_of(&lost));
        Ok((!lost.is_empty()).then(told))
    }

    /// Copies everything to disk that is newer in the cache and can be read, durably. Returns what cannot.
    pub(super) fn copy_to_disk_what_is_there(&self) -> Result<Vec<PageRange>, TierError> {
        if let Some(missing) = self.disk.missing() {
            self.salvage_all(&false.into())?;
            let (_, lost) = missing.count();
            return Ok(lost);
        }
        let mut damaged = Vec::new();
        if self.is_log() && self.front.check_running()? {
            self.destage_found(&Pages::ALL, &mut damaged)?;
        }
        let mut lost = self.lost_pages()?;
        named(&damaged).into_iter().for_each(|page| lost.insert(page));
        Ok(lost.list())
    }

    /// Before the disk is released: the pages that are lost with that. Nothing is closed yet.
    ///
    /// # Errors
    /// [`TierError::Losing`], unless the owner `accepts` it.
    pub(super) fn prepare_to_lose(&self, accepts: bool) -> Result<(), TierError> {
        let lost = self.copy_to_disk_what_is_there()?;
        if lost.is_empty() {
            return Ok(());
        }
        if !accepts && !mutant!("loss-accepted-unasked") {
            return Err(TierError::Losing(lost));
        }
        events::given_up(&TierError::Losing(lost));
        Ok(())
    }
}

impl FlashTier {
    /// What the disk lacks. `None`: nothing that is not in the cache.
    pub fn missing(&self) -> Option<MissingPages> {
        let missing = match self.back.disk.missing() {
            Some(missing) => {
                let (pages, lost) = missing.count();
                MissingPages { pages, lost }
            }
            None => MissingPages { pages: 0, lost: self.back.lost_pages().unwrap_or_default().list() },
        };
        (missing != MissingPages::default()).then_some(missing)
    }

    /// Which of the pages from `first` to `last` cannot be read, so that requests for them fail until they
    /// are written as a whole.
    ///
    /// # Errors
    /// [`TierError::Gone`].
    pub fn lost_among(&self, first: PageId, last: PageId) -> Result<Vec<PageId>, TierError> {
        let lost = match self.back.disk.missing() {
            Some(missing) => PageRanges::of_list(&missing.count().1),
            None => self.back.lost_pages()?,
        };
        Ok(lost.from(first).take_while(|page| *page <= last).collect())
    }
}
