//! Pages that slots give up: those that the policy or the driver's mode keeps out, those that are dead, and
//! those that have moved to DRAM. A copy in a slot can be removed at once, unless it is busy.

use super::{SlotTable, Slots};
use crate::PageId;
use crate::contents::Contents;
use crate::job::{Admission, Forget, Taken};
use crate::policy::Offer;
use crate::slot::DIRTY;
use crate::staging::FrameState;

impl Slots<'_> {
    /// The driver keeps a changed `page` out of the cache, as its mode (write-around, read-only) demands.
    /// Every copy in the cache is stale and is forgotten. Returns [`Admission::Bypass`], or
    /// [`Admission::Full`] while a copy is being written, copied in or destaged: then ask again when that is
    /// over.
    pub fn bypass(&mut self, page: PageId) -> Admission {
        match self.table.forget(&mut self.contents, page) {
            None => Admission::Full,
            Some(stale) => {
                self.contents.decisions.note(!(page.0 << 2));
                Admission::Bypass { stale }
            }
        }
    }

    /// The policy does not want the page.
    pub(super) fn keep_out(&mut self, offer: &Offer) -> Admission {
        let admission = self.bypass(offer.page);
        if admission != Admission::Full {
            self.contents.kept_out(offer);
        }
        admission
    }

    /// `page` was read where [`Partition::fetch`](crate::Partition::fetch) found it, has the expected
    /// version, and is in DRAM now: an exclusive policy forgets its copy. A copy that is being written or
    /// destaged stays. In that case, and with other policies, nothing changes and the answer is
    /// [`Taken::Copied`].
    ///
    /// A dirty page that has [moved](Taken::Moved) is in DRAM alone: DRAM must treat it as newer than disk
    /// and newer than flash.
    pub fn taken(&mut self, page: PageId) -> Taken {
        if !self.contents.config.policy.exclusive() {
            return Taken::Copied;
        }
        let directory = &self.contents.pages.directory;
        let dirty = directory.find(page).is_some_and(|entry| directory.entry(entry).has(DIRTY));
        match self.table.forget(&mut self.contents, page) {
            Some(true) => {
                self.contents.decisions.note(!(page.0 << 2 | 1));
                Taken::Moved { dirty }
            }
            _ => Taken::Copied,
        }
    }

    /// As [`Partition::forget`](crate::Partition::forget). All or nothing: the driver repeats a request that
    /// was refused.
    pub(crate) fn forget(&mut self, first: PageId, last: PageId) -> Forget {
        let Self { contents, table } = self;
        let pages = || (first.0..=last.0).map(PageId);
        if pages().any(|page| table.is_busy(contents, page)) {
            return Forget::Full;
        }
        let (mut found, mut dirty) = (0, 0);
        for page in pages() {
            let directory = &contents.pages.directory;
            let is_dirty = directory.find(page).is_some_and(|at| directory.entry(at).has(DIRTY));
            dirty += u32::from(is_dirty);
            found += u32::from(table.forget(contents, page) == Some(true));
        }
        Forget::Done { found, dirty, in_dequeue: false }
    }
}

impl SlotTable<'_> {
    /// Whether a copy of `page` is being written, copied in or copied to disk.
    fn is_busy(&self, contents: &Contents<'_>, page: PageId) -> bool {
        let directory = &contents.pages.directory;
        let mut at = directory.find(page);
        while let Some(entry) = at {
            let idle = match directory.frame_of(entry) {
                None => directory.is_idle(entry),
                Some(frame) => contents.staging.frame(frame).is(FrameState::Ready),
            };
            if !idle {
                return true;
            }
            at = directory.find_older(entry);
        }
        false
    }

    /// Forgets every copy of `page`. `None`: a copy is [busy](Self::is_busy); ask again later.
    fn forget(&mut self, contents: &mut Contents<'_>, page: PageId) -> Option<bool> {
        if self.is_busy(contents, page) {
            return None;
        }
        if contents.pages.directory.find(page).is_none() {
            return Some(false);
        }
        while let Some(entry) = contents.pages.directory.find(page) {
            match contents.pages.directory.frame_of(entry) {
                None => self.empty(contents, entry),
                Some(frame) => self.finish_frame(contents, frame),
            }
        }
        contents.staging.retire(1);
        Some(true)
    }
}
