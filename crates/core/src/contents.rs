//! What both placements work on: staging, the pages, the policy, and the record of the policy's decisions.

use crate::config::Config;
use crate::job::{Admission, SlotView};
use crate::pages::Pages;
use crate::policy::{Decision, Offer, Policy, PolicyState, ask};
use crate::slot::{DIRTY, VALID};
use crate::staging::Staging;
use crate::{Lsn, PageId, SlotId};
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
    /// What the partition was made from.
    pub config: Config,
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
        if dirty && directory.bases.are_kept() {
            directory.take_base(directory.staged_entry(frame.0), page);
        }
        directory.stage(directory.staged_entry(frame.0), page, dirty);
        Admission::Stage { frame, position }
    }

    /// What the policy makes of a page that DRAM evicts.
    #[inline(always)]
    pub(crate) fn decide(&mut self, offer: &Offer) -> Decision {
        let Contents { pages, policy, .. } = self;
        ask!(policy, P, memory => P::admit(pages, memory, offer))
    }

    /// The same version of an offered page is in the cache.
    #[inline(always)]
    pub(crate) fn is_there(&mut self, offer: &Offer) -> Admission {
        self.decisions.note(offer.page.0 << 1);
        Admission::AlreadyThere
    }

    /// Stages `page` and records that as `decision`. The caller makes sure that there is room.
    #[inline(always)]
    pub(crate) fn take_in(&mut self, page: PageId, lsn: Lsn, dirty: bool, decision: u64) -> Admission {
        self.decisions.note(decision);
        let admission = self.enter(page, lsn, dirty);
        if let Admission::Stage { frame, .. } = admission {
            let Contents { pages, policy, .. } = self;
            let entry = pages.directory.staged_entry(frame.0);
            ask!(policy, P, memory => P::on_stage(pages, memory, entry));
        }
        admission
    }

    /// A page that DRAM evicts does not enter.
    pub(crate) fn kept_out(&mut self, offer: &Offer) {
        let Contents { pages, policy, .. } = self;
        ask!(policy, P, memory => P::on_bypass(pages, memory, offer));
    }

    /// The content of `slot`, if it has this flag.
    pub(crate) fn view(&self, slot: SlotId, in_use: u32) -> Option<SlotView> {
        let directory = &self.pages.directory;
        let entry = directory.entry(slot.0);
        entry.has(in_use).then(|| SlotView {
            page: entry.page(),
            valid: entry.has(VALID),
            dirty: entry.has(DIRTY),
            proof: directory.proof(slot.0),
        })
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
