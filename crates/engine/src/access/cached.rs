//! Which pages are in the cache, and which of them are newer than disk. Of many pages, the latch is released
//! after every [`PLACES_AT_ONCE`] places.

use super::Base;
use super::dead::{is_dead, is_retired, living};
use super::directory::Directory;
use crate::TierError;
use arrayvec::ArrayVec;
use entresol_core::{Generation, Lookup, PageId, Partition, Position, Walk};
use entresol_objects::Objects;
use entresol_shm::Gone;
use std::sync::Arc;

/// Places, or entries of the directory, that are looked at under one hold of the latch.
const PLACES_AT_ONCE: u32 = 512;

/// Pages in the cache, and what was asked of them.
type Living = ArrayVec<(PageId, bool), { PLACES_AT_ONCE as usize }>;

/// What is asked of pages in the cache.
#[derive(Clone, Copy)]
enum Asked {
    /// Whether they are newer than disk.
    Dirty,
    /// Whether they were fetched since they entered.
    Referenced,
}

/// Whether `page` is newer than disk; `None`: it is not in the cache.
fn found_alive(
    partition: &Partition<'_>,
    objects: Option<&mut Objects<'_>>,
    page: PageId,
) -> Option<(PageId, bool)> {
    let found = partition.peek(page);
    match found {
        Lookup::Staged { dirty, .. } | Lookup::Flash { dirty, .. } => {
            let is_dead = objects.is_some_and(|objects| is_dead(partition, objects, page, &found));
            (!is_dead).then_some((page, dirty))
        }
        Lookup::Absent => None,
    }
}

/// Questions about the pages in the cache.
pub(crate) struct CachedPages {
    directory: Arc<Directory>,
}

impl CachedPages {
    pub(super) fn new(base: &Base) -> Self {
        Self { directory: base.directory.clone() }
    }

    /// Whether the disk may lack the newest version of `page`: its copy in the cache is dirty, or entered at
    /// or after `sure`, if that is given.
    pub(crate) fn may_be_newer(&self, page: PageId, sure: Option<Position>) -> Result<bool, Gone> {
        let found = self.directory.with_objects(|partition, objects| {
            living(partition, objects, page, |partition| partition.peek(page))
        })?;
        let is_unsure = |position| sure.is_some_and(|sure| position >= sure);
        Ok(match found {
            Lookup::Absent => false,
            Lookup::Staged { dirty, position, .. } => dirty || is_unsure(position),
            Lookup::Flash { dirty, generation: Generation::Exact(position), .. } => {
                dirty || is_unsure(position)
            }
            Lookup::Flash { dirty, .. } => dirty,
        })
    }

    /// Whether the cache has `page`.
    pub(crate) fn has(&self, page: PageId) -> Result<bool, Gone> {
        self.directory.with_objects(|partition, objects| {
            living(partition, objects, page, |partition| partition.peek(page)) != Lookup::Absent
        })
    }

    /// Whether `page` is newer in the cache than on disk.
    pub(crate) fn is_dirty(&self, page: PageId) -> Result<bool, Gone> {
        self.directory.with_objects(|partition, objects| {
            match living(partition, objects, page, |partition| partition.peek(page)) {
                Lookup::Staged { dirty, .. } | Lookup::Flash { dirty, .. } => dirty,
                Lookup::Absent => false,
            }
        })
    }

    /// The position of `page`'s copy on flash, if that is newer than the disk's. It counts as used, as if it
    /// had been fetched.
    pub(crate) fn dirty_position(&self, page: PageId) -> Result<Option<Position>, Gone> {
        self.directory.with_objects(|partition, objects| {
            match living(partition, objects, page, |partition| partition.fetch(page)) {
                Lookup::Flash { dirty, generation: Generation::Exact(position), .. } if dirty => {
                    Some(position)
                }
                Lookup::Flash { .. } | Lookup::Staged { .. } | Lookup::Absent => None,
            }
        })
    }

    /// See [`crate::PageCache::cached_among`].
    pub(crate) fn among(&self, (first, last): (PageId, PageId)) -> Result<Vec<(PageId, bool)>, TierError> {
        let mut found = Vec::new();
        if last < first {
            return Ok(found);
        }
        let entries = self.directory.with(|partition| partition.entries())?;
        if last.0 - first.0 >= entries.into() {
            self.survey_range((first, last), Asked::Dirty, |page, dirty| found.push((page, dirty)))?;
            // A page may be met twice: it may be newer than disk if it was once.
            found.sort_unstable_by_key(|(page, dirty)| (*page, !dirty));
            found.dedup_by_key(|(page, _)| *page);
            return Ok(found);
        }
        for from in (first.0..=last.0).step_by(PLACES_AT_ONCE as usize) {
            let some = from..=last.0.min(from.saturating_add(u64::from(PLACES_AT_ONCE) - 1));
            let living: Living = self.directory.with_objects(|partition, mut objects| {
                let living = |page| found_alive(partition, objects.as_deref_mut(), page);
                some.map(PageId).filter_map(living).collect()
            })?;
            found.extend(living);
        }
        Ok(found)
    }

    /// See [`crate::SharedFront::survey`].
    pub(crate) fn survey(&self, count: impl FnMut(PageId, bool)) -> Result<(), TierError> {
        self.survey_range((PageId(0), PageId(u64::MAX)), Asked::Dirty, count)
    }

    /// See [`crate::SharedFront::survey_use`].
    pub(crate) fn survey_use(&self, meet: impl FnMut(PageId, bool)) -> Result<(), TierError> {
        self.survey_range((PageId(0), PageId(u64::MAX)), Asked::Referenced, meet)
    }

    /// As [`CachedPages::survey`], the pages from `first` to `last`.
    fn survey_range(
        &self,
        pages: (PageId, PageId),
        asked: Asked,
        mut count: impl FnMut(PageId, bool),
    ) -> Result<(), TierError> {
        let mut walk = Walk::default();
        loop {
            let mut some = Living::new();
            let goes_on = self.directory.with_objects(|partition, mut objects| {
                partition.walk(&mut walk, PLACES_AT_ONCE, |page| {
                    let is_wanted = (pages.0..=pages.1).contains(&page);
                    let found = is_wanted.then(|| found_alive(partition, objects.as_deref_mut(), page));
                    some.extend(found.flatten().map(|(page, dirty)| match asked {
                        Asked::Dirty => (page, dirty),
                        Asked::Referenced => (page, partition.is_referenced(page)),
                    }));
                })
            })?;
            some.into_iter().for_each(|(page, dirty)| count(page, dirty));
            if !goes_on {
                return Ok(());
            }
        }
    }

    /// Calls `meet` with each cached page of the range ([`Partition::walk`]), without the latch.
    pub(super) fn walk(
        &self,
        (first, last): (PageId, PageId),
        meet: impl FnMut(PageId) -> Result<(), TierError>,
    ) -> Result<(), TierError> {
        self.walk_those(|page, _| (first..=last).contains(&page), meet)
    }

    /// As [`CachedPages::walk`], each cached page of an object that was retired.
    pub(super) fn walk_retired(
        &self,
        meet: impl FnMut(PageId) -> Result<(), TierError>,
    ) -> Result<(), TierError> {
        self.walk_those(|page, objects| objects.is_some_and(|objects| is_retired(objects, page)), meet)
    }

    fn walk_those(
        &self,
        is_wanted: impl Fn(PageId, Option<&Objects<'_>>) -> bool,
        mut meet: impl FnMut(PageId) -> Result<(), TierError>,
    ) -> Result<(), TierError> {
        let (mut walk, mut some) = (Walk::default(), Vec::with_capacity(PLACES_AT_ONCE as usize));
        loop {
            let goes_on = self.directory.with_objects(|partition, objects| {
                let objects = objects.as_deref();
                let take = |page| some.extend(is_wanted(page, objects).then_some(page));
                partition.walk(&mut walk, PLACES_AT_ONCE, take)
            })?;
            some.drain(..).try_for_each(&mut meet)?;
            if !goes_on {
                return Ok(());
            }
        }
    }
}
