//! All that a policy sees in addition to its own memory: the directory, its lists of slots, and the batch of
//! noted fetches.

use crate::directory::{Counts, PageDirectory};
use crate::hits::Hits;
use crate::job::Fate;
use crate::lists::SlotLists;
use crate::sections::{Carver, SectionPlan};
use crate::sets::Sets;
use crate::slot::DIRTY;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Scalars of the pages.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct PagesHead {
    counts: Counts,
    cursor: u32,
    hits: Hits,
}

/// The pages on flash and in staging, in the policy's order.
pub(crate) struct Pages<'r> {
    pub directory: PageDirectory<'r>,
    pub lists: SlotLists<'r>,
    /// Fetches that the lists do not reflect yet.
    pub hits: &'r mut Hits,
    pub sets: Sets,
    /// A cleaner works while more than this many per mille of the slots are dirty.
    dirty_permille_max: u32,
    /// Slots that are kept free ahead of demand, at most.
    pub free_ahead_max: u32,
}

impl<'r> Pages<'r> {
    /// Attaches to its sections; `nodes` plans those of the lists. `None`: the region is too short.
    #[inline(always)]
    pub(crate) fn attach(
        head: &'r mut PagesHead,
        nodes: &SectionPlan,
        carver: &mut Carver<'r, '_>,
    ) -> Option<Self> {
        let PagesHead { counts, cursor, hits } = head;
        let sizes = carver.sizes();
        let directory = PageDirectory::attach(counts, carver)?;
        let lists = SlotLists::attach(cursor, nodes, carver)?;
        let dirty_permille_max = sizes.dirty_permille_max;
        let free_ahead_max = sizes.free_ahead_max();
        Some(Self { directory, lists, hits, sets: sizes.sets(), dirty_permille_max, free_ahead_max })
    }

    /// The fate of the page in `slot` when that is emptied, and it gets no second chance.
    pub(crate) fn fate_without_chance(&self, slot: u32) -> Fate {
        if self.directory.entry(slot).has(DIRTY) { Fate::Destage } else { Fate::Drop }
    }

    /// The first idle slot of `list`: the victim of LRU and FIFO.
    pub(crate) fn first_idle(&self, list: u32) -> Option<u32> {
        self.lists.first_where(list, |slot| self.directory.is_idle(slot))
    }

    /// More slots are dirty than the configuration allows.
    pub(crate) fn too_many_dirty(&self) -> bool {
        let most = self.directory.slots as u64 * self.dirty_permille_max as u64 / 1000;
        self.directory.counts.dirty as u64 > most
    }
}
