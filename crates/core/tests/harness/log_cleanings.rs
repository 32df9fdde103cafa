//! The naive model of what is on its way to disk in log placement: dequeues, and pages that are copied out of
//! turn.

use super::log_model::LogModel;
use entresol_core::{CleanPage, Cleaning, Generation, PageId, Position, SlotId};

impl LogModel {
    /// Whether a dequeue or a cleaning under way has a copy of one of the pages.
    pub(super) fn is_in_dequeue(&self, (first, last): (PageId, PageId)) -> bool {
        if self.cleaning.iter().any(|at| (first..=last).contains(&self.versions[at].page)) {
            return true;
        }
        let of = |from: &u64| self.versions.range(*from..from + self.group());
        let versions = self.dequeuing.difference(&self.left).flat_map(of).filter(|(_, v)| v.published);
        versions.into_iter().any(|(_, v)| (first..=last).contains(&v.page))
    }

    pub(super) fn clean_begins(&mut self, page: PageId, got: &Cleaning) {
        let newest = self.newest_published(page).filter(|position| self.versions[position].dirty);
        let Some(position) = newest else { return assert_eq!(*got, Cleaning::Clean) };
        let of_dequeues = |from: &u64| self.versions.range(*from..from + self.group());
        let mut dequeued = self.dequeuing.difference(&self.left).flat_map(of_dequeues);
        let is_followed = dequeued.any(|(_, v)| v.published && v.page == page);
        if position < self.scan
            || is_followed
            || self.cleaning.iter().any(|at| self.versions[at].page == page)
        {
            return assert_eq!(*got, Cleaning::Busy);
        }
        if position < self.scan + self.group() && *got == Cleaning::Busy {
            // The next group may have its turn first.
            return;
        }
        let slot = SlotId((position % u64::from(self.config.slots)) as u32);
        let generation = Generation::Exact(Position(position));
        assert_eq!(*got, Cleaning::Copy(CleanPage { page, slot, generation }));
        self.cleaning.insert(position);
    }

    pub(super) fn clean_ends(&mut self, page: &CleanPage) {
        let Generation::Exact(Position(position)) = page.generation else { panic!("{page:?}") };
        assert!(self.cleaning.remove(&position));
        self.versions.get_mut(&position).expect("it is not released meanwhile").dirty = false;
    }
}
