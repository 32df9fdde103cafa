//! The invariants of a partition. Asserted after every step by tests and, in debug builds, by the engine; and by whoever
//! inherits a region from a process that died while it held the latch. So nothing in the region is taken on trust here:
//! any bytes give a verdict, never a panic or a search without end.

mod lists;
mod ring;

use crate::PageId;
use crate::policy::Placement;
use crate::region::Partition;
use crate::slot::{DIRTY, NIL, Slot, VALID};
use crate::staging::{DONE, FREE};
use thiserror::Error;

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{what}: expected {expected}, found {found}")]
pub struct Violation {
    /// Which one, and where.
    pub what: String,
    /// What should hold.
    pub expected: String,
    /// What does.
    pub found: String,
}

/// Two values that must be equal. `what` is only made into words if they are not.
pub(crate) fn same<T: PartialEq + std::fmt::Debug, W: std::fmt::Display>(
    what: impl FnOnce() -> W,
    expected: T,
    found: T,
) -> Result<(), Violation> {
    if expected == found {
        return Ok(());
    }
    let what = what().to_string();
    Err(Violation { what, expected: format!("{expected:?}"), found: format!("{found:?}") })
}

impl Partition<'_> {
    /// Verifies every invariant of the directory. Takes time proportional to the number of slots.
    ///
    /// # Errors
    /// The first invariant that is found broken.
    pub fn check(&self) -> Result<(), Violation> {
        match self.placement {
            Placement::Log => self.check_ring()?,
            Placement::Slots => self.check_staging()?,
        }
        self.check_links()?;
        self.check_index()?;
        self.check_counts()?;
        match self.placement {
            Placement::Log => self.check_groups(),
            Placement::Slots => self.check_lists(),
        }
    }

    fn slots_proper(&self) -> &[Slot] {
        &self.slots[..self.head.slots as usize]
    }

    /// The staging window: what every position in it relies on.
    fn check_staging(&self) -> Result<(), Violation> {
        let head = &*self.head;
        same(|| "staged front <= rear", true, head.staged_front <= head.rear)?;
        same(|| "staging window", true, head.rear - head.staged_front <= self.staging_pages())?;
        same(|| "staging frames in the window", head.rear - head.staged_front, head.staged as u64)?;
        let (front, group) = (head.staged_front % self.staging_pages(), head.rear % head.group_pages as u64);
        same(|| "frame of the staging front", front, head.front_frame as u64)?;
        same(|| "pages of the open group", group, head.open as u64)?;
        for position in head.staged_front..head.rear {
            let staged = &self.staged[self.frame_of(position) as usize];
            same(|| format!("position of the staging frame for {position}"), position, staged.position)?;
            same(
                || format!("state of the staging frame for {position} is known"),
                true,
                staged.state <= DONE,
            )?;
            same(|| format!("the staging frame for {position} is used"), true, staged.state != FREE)?;
        }
        let used = self.staged.iter().filter(|s| s.state != FREE).count();
        same(|| "staging frames in use", used, head.staged as usize)
    }

    /// Every chain of the index leads to entries that exist, each in the bucket of its page, and ends.
    fn check_links(&self) -> Result<(), Violation> {
        let mut linked = 0;
        for (bucket, first) in self.buckets.iter().enumerate() {
            let mut at = *first;
            while at != NIL {
                let Some(entry) = self.slots.get(at as usize) else {
                    return same(
                        || format!("an entry in the chain of bucket {bucket}"),
                        "below the last",
                        "beyond",
                    );
                };
                linked += 1;
                same(|| "chains of the index end", true, linked <= self.slots.len())?;
                let home = crate::index::bucket_of(entry.page().0, self.buckets.len());
                same(|| format!("bucket of entry {at}, page {}", entry.page()), home, bucket)?;
                at = entry.next();
            }
        }
        let in_use = |frame: &usize| {
            let frame = *frame as u32;
            !matches!(self.staged[frame as usize].state, FREE | DONE) && !self.is_padding(frame)
        };
        let staged = (0..self.staged.len()).filter(in_use).count();
        same(|| "entries in the index", self.head.valid as usize + staged, linked)
    }

    /// Valid slots and staged pages are in the index, nothing else is, and of one page the newest comes first.
    fn check_index(&self) -> Result<(), Violation> {
        for first in self.buckets.iter() {
            let mut at = *first;
            while at != NIL {
                let entry = &self.slots[at as usize];
                match at.checked_sub(self.head.slots) {
                    None => same(|| format!("valid flag of slot {at} in the index"), true, entry.has(VALID))?,
                    Some(frame) => {
                        let state = self.staged[frame as usize].state;
                        same(
                            || format!("staging frame {frame} in the index is used"),
                            false,
                            state == FREE || state == DONE,
                        )?;
                        same(
                            || format!("staging frame {frame} in the index pads"),
                            false,
                            self.is_padding(frame),
                        )?;
                    }
                }
                if let Some(older) = self.find_older(at) {
                    let page: PageId = entry.page();
                    same(
                        || format!("entry {at} newer than {older} of page {page}"),
                        true,
                        self.age(at) > self.age(older),
                    )?;
                }
                at = entry.next();
            }
        }
        Ok(())
    }

    /// Orders the versions of a page. A slot of slot placement is older than anything staged.
    fn age(&self, entry: u32) -> u64 {
        match (entry.checked_sub(self.head.slots), self.placement) {
            (Some(frame), _) => self.staged[frame as usize].position.saturating_add(1),
            (None, Placement::Log) => self.position_of(entry) + 1,
            (None, Placement::Slots) => 0,
        }
    }

    fn check_counts(&self) -> Result<(), Violation> {
        let count =
            |wanted: &dyn Fn(&Slot) -> bool| self.slots_proper().iter().filter(|s| wanted(s)).count() as u32;
        same(|| "valid slots", count(&|s| s.has(VALID)), self.head.valid)?;
        same(|| "dirty slots", count(&|s| s.has(VALID) && s.has(DIRTY)), self.head.dirty)
    }
}
