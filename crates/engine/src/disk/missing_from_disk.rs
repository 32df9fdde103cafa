//! The pages that a disk lacks: a flash that failed has their newest versions, or they are lost. A disk
//! without such pages costs nothing.

use super::disk_label::DiskLabel;
use super::missing::Record;
use super::{Missing, PageRanges, read_missing};
use crate::rescue::Rescue;
use crate::{TierError, events, points};
use entresol_core::PageId;
use entresol_format::label::Label;
use std::sync::{Arc, OnceLock};

/// See the module's header.
pub(crate) struct MissingFromDisk {
    /// Since the disk lacks pages.
    pages: OnceLock<Missing>,
    label: Arc<DiskLabel>,
}

impl MissingFromDisk {
    pub(super) fn new(label: &Arc<DiskLabel>) -> Self {
        Self { pages: OnceLock::new(), label: label.clone() }
    }

    /// All of them, if there are or were any.
    pub(super) fn any(&self) -> Option<&Missing> {
        self.pages.get()
    }

    /// Sets the missing pages of a failed flash, as the record in the label's area names them.
    pub(crate) fn lacks(&self, missing: Missing) {
        // Nobody uses these pages yet.
        let _ = self.pages.set(missing);
    }

    /// What the disk lacks since its flash failed. `None`: it has not.
    pub(crate) fn since_failure(&self) -> Option<&Missing> {
        self.pages.get().filter(|missing| missing.failed_epoch().is_some())
    }

    /// The pages that are lost while the flash is in use. `None`: none was since the disk was opened, or the
    /// flash has failed.
    pub(crate) fn lost(&self) -> Option<&Missing> {
        self.pages.get().filter(|missing| missing.failed_epoch().is_none())
    }

    /// Whether pages are lost, though a newer version of some may be in the cache.
    pub(crate) fn has_lost(&self) -> bool {
        self.lost().is_some_and(|missing| missing.count().0 > 0)
    }

    /// Reads which pages are lost, if this label says that some are.
    pub(crate) fn find_lost(&self, label: &Label, rescue: Option<Arc<dyn Rescue>>) -> Result<(), TierError> {
        if !label.lost {
            return Ok(());
        }
        let found = read_missing(&self.label.device(), label)?;
        let missing = Missing::restored_lost(&found, rescue);
        missing.write_again(&self.label.device())?;
        let mut turn = missing.turn();
        self.unname_lost(&missing, &mut turn)?;
        drop(turn);
        let _ = self.pages.set(missing);
        Ok(())
    }

    /// The newest versions of these pages are lost: they were on flash alone, and cannot be read there.
    /// Recorded durably. False: there are too many of them, and nothing has changed.
    pub(crate) fn lose(&self, rescue: Option<Arc<dyn Rescue>>, lost: &[PageId]) -> Result<bool, TierError> {
        let missing = self.pages.get_or_init(|| Missing::none(rescue));
        let label = self.label.read()?;
        let name = || self.label.change(|label| label.lost = true);
        let is_recorded = missing.lose(&self.label.device(), (label.cache, label.epoch), lost, name)?;
        if is_recorded {
            points::PAGES_LOST.reach();
            events::pages_lost(lost);
        }
        Ok(is_recorded)
    }

    /// What a failed flash has of `page` is older than what was acknowledged: recorded durably. False: no
    /// flash has failed.
    pub(crate) fn give_up(&self, page: PageId) -> Result<bool, TierError> {
        let Some(missing) = self.since_failure() else { return Ok(false) };
        missing.give_up(&self.label.device(), page)?;
        points::GIVEN_UP_SINCE_FAILURE.reach();
        events::pages_lost(&[page]);
        Ok(true)
    }

    /// The flash has failed: the disk lacks these pages, and those that were lost before. Says so durably;
    /// `name` changes the label.
    pub(crate) fn flash_fails(
        &self,
        rescue: Arc<dyn Rescue>,
        newer: (PageRanges, PageRanges),
        name: impl FnOnce(&mut Label),
    ) -> Result<(), TierError> {
        let missing = self.pages.get_or_init(|| Missing::none(Some(rescue)));
        let label = self.label.read()?;
        // A try before this one may have ended between the copies of the label.
        let is_named = label.failed_epoch != 0;
        let failed = (label.cache, if is_named { label.failed_epoch } else { label.epoch });
        let name = |label: &mut Label| {
            if !is_named {
                name(label);
            }
        };
        missing.flash_fails(&self.label.device(), failed, newer, || self.label.change(name))
    }

    /// If no page is lost any more, the label does not say so.
    fn unname_lost(&self, missing: &Missing, turn: &mut Record) -> Result<(), TierError> {
        missing.unname(turn, || self.label.change(|label| label.lost = false))
    }

    /// Those of `count` pages from `first` on that the disk lacks.
    pub(super) fn within(&self, first: PageId, count: u64) -> Vec<PageId> {
        let last = PageId(first.0 + count - 1);
        self.pages.get().map_or_else(Vec::new, |missing| missing.within(first, last))
    }

    /// Reads one of them, if the disk lacks any.
    pub(super) fn read(&self, page: PageId, buffer: &mut [u8]) -> Result<(), TierError> {
        let Some(missing) = self.pages.get() else { return Ok(()) };
        missing.read(page, buffer)
    }

    /// `make_dead` makes the pages from `first` to `last` dead. Those that were missing are so no more,
    /// durably.
    pub(crate) fn forget<E: From<TierError>>(
        &self,
        (first, last): (PageId, PageId),
        make_dead: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(missing) = self.pages.get() else { return make_dead() };
        // Held from before: no missing page is on its way to disk while it is made dead, and none goes after.
        let mut turn = missing.turn();
        make_dead()?;
        let dead = missing.within(first, last);
        if !dead.is_empty() {
            self.are_found(&mut turn, dead.into_iter())?;
        }
        Ok(())
    }

    /// These pages are durable on disk now, or dead.
    pub(super) fn are_found(
        &self,
        turn: &mut Record,
        pages: impl Iterator<Item = PageId> + Clone,
    ) -> Result<(), TierError> {
        let Some(missing) = self.pages.get() else { return Ok(()) };
        missing.are_found(turn, &self.label.device(), pages)?;
        self.unname_lost(missing, turn)
    }
}
