//! What both placements work on: staging, the pages, the policy, and the record of the policy's decisions.

use crate::job::Admission;
use crate::pages::Pages;
use crate::policy::PolicyState;
use crate::slot::DIRTY;
use crate::staging::Staging;
use crate::{Lsn, PageId};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Hash of all decisions, in order.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub(crate) struct Decisions(pub u64);

impl Decisions {
    pub(crate) fn note(&mut self, decision: u64) {
        let mixed = (self.0 ^ decision).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 29;
    }
}

/// The cache without its placement.
pub(crate) struct Contents<'r> {
    pub staging: Staging<'r>,
    pub pages: Pages<'r>,
    pub policy: PolicyState<'r>,
    pub decisions: &'r mut Decisions,
}

impl Contents<'_> {
    /// Gives the next position and its frame to `page`. The caller makes sure that both are available.
    #[inline]
    pub(crate) fn enter(&mut self, page: PageId, lsn: Lsn, dirty: bool) -> Admission {
        let (frame, position) = self.staging.enter(lsn);
        let directory = &mut self.pages.directory;
        directory.stage(directory.staged_entry(frame.0), page, dirty);
        Admission::Stage { frame, position }
    }

    /// The staging frames with dirty pages, in order of entry.
    pub(crate) fn staged_dirty(&self) -> impl Iterator<Item = u32> + '_ {
        let directory = &self.pages.directory;
        let frames = self.staging.positions().map(|position| self.staging.frame_of(position));
        frames.filter(|frame| {
            let dirty = directory.entry(directory.staged_entry(*frame)).has(DIRTY);
            self.staging.frame(*frame).holds_page() && dirty
        })
    }
}
