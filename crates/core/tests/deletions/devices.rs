//! Flash and disk as a crash finds them: what was written and not synced is there, or not.

use entresol_core::{Forgotten, PageId, Position};
use std::collections::{BTreeMap, BTreeSet};

/// Versions are numbers that grow.
pub type Version = u32;

/// A page on flash, at its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Copy {
    pub page: PageId,
    pub version: Version,
    pub position: u64,
    pub dirty: bool,
}

/// The summary of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    pub first: u64,
    /// Bit `i`: the page at place `i` is named.
    pub named: u128,
    pub records: Vec<Forgotten>,
    pub front: u64,
}

/// A group's write: its pages, and its summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupWrite {
    pub copies: Vec<Copy>,
    pub summary: Option<Summary>,
}

/// Both devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    slots: u64,
    group_pages: u64,
    /// By slot.
    copies: BTreeMap<u64, Copy>,
    /// By group.
    summaries: BTreeMap<u64, Summary>,
    /// The front in the superblock.
    pub front: u64,
    /// Not synced, oldest first.
    flash_writes: Vec<GroupWrite>,
    disk: BTreeMap<PageId, Version>,
    /// Not synced, oldest first.
    disk_writes: Vec<(PageId, Version)>,
}

/// What a crash leaves of writes that were not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    pub flash: bool,
    pub disk: bool,
}

/// What is found after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub version: Version,
    pub on_flash: bool,
}

impl Devices {
    pub fn new(slots: u64, group_pages: u64) -> Self {
        Self { slots, group_pages, ..Self::default() }
    }

    pub fn write_group(&mut self, write: GroupWrite) {
        self.flash_writes.push(write);
    }

    pub fn sync_flash(&mut self) {
        for write in std::mem::take(&mut self.flash_writes) {
            write.apply(self.slots, self.group_pages, &mut self.copies, &mut self.summaries);
        }
    }

    /// The durable records in the summary of the group that begins at `first`.
    pub fn records_of(&self, first: u64) -> Vec<Forgotten> {
        let summary = self.summaries.get(&(first / self.group_pages % (self.slots / self.group_pages)));
        summary.filter(|summary| summary.first == first).map_or(Vec::new(), |summary| summary.records.clone())
    }

    /// The page in a slot, as it reads now.
    pub fn read(&self, position: u64) -> Option<Copy> {
        let mut written = self.flash_writes.iter().flat_map(|write| &write.copies);
        let newest = written.rfind(|copy| copy.position == position);
        let copy = newest.or_else(|| self.copies.get(&(position % self.slots)));
        copy.copied().filter(|copy| copy.position == position)
    }

    pub fn write_disk(&mut self, page: PageId, version: Version) {
        self.disk_writes.push((page, version));
    }

    /// What the disk has now.
    pub fn on_disk(&self, page: PageId) -> Version {
        let written = self.disk_writes.iter().rfind(|(of, _)| *of == page).map(|(_, version)| *version);
        written.or_else(|| self.disk.get(&page).copied()).unwrap_or(0)
    }

    pub fn sync_disk(&mut self) {
        self.disk.extend(std::mem::take(&mut self.disk_writes));
    }

    /// Whether a crash that keeps these writes leaves anything that one which keeps none does not, or keeps
    /// none.
    pub fn differs(&self, kept: Kept) -> bool {
        !(kept.flash && self.flash_writes.is_empty() || kept.disk && self.disk_writes.is_empty())
    }

    /// What a restart after a crash finds of each page: the newest copy on flash from the front on that no
    /// record makes stale, else the disk's.
    pub fn after_crash(&self, kept: Kept, pages: &BTreeSet<PageId>) -> BTreeMap<PageId, Found> {
        let (mut copies, mut summaries) = (self.copies.clone(), self.summaries.clone());
        if kept.flash {
            for write in self.flash_writes.clone() {
                write.apply(self.slots, self.group_pages, &mut copies, &mut summaries);
            }
        }
        let front = summaries.values().map(|summary| summary.front).fold(self.front, u64::max);
        let is_named = |copy: &&Copy| {
            let first = copy.position / self.group_pages * self.group_pages;
            let summary = summaries.get(&(first / self.group_pages % (self.slots / self.group_pages)));
            let names = |s: &Summary| s.first == first && s.named >> (copy.position - first) & 1 != 0;
            copy.position >= front && summary.is_some_and(names)
        };
        // A group before the front is not read.
        let records = summaries.values().filter(|summary| summary.first >= front).flat_map(|s| &s.records);
        let records: Vec<Forgotten> = records.copied().collect();
        let is_stale = |copy: &Copy| {
            let names = |r: &Forgotten| (r.first..=r.last).contains(&copy.page);
            records.iter().any(|record| names(record) && copy.position < record.below.0)
        };
        let find = |page: PageId| {
            let of_page = copies.values().filter(|copy| copy.page == page).filter(is_named);
            let newest = of_page.filter(|copy| !is_stale(copy)).max_by_key(|copy| copy.position);
            let on_disk = match kept.disk {
                true => self.on_disk(page),
                false => self.disk.get(&page).copied().unwrap_or(0),
            };
            match newest {
                Some(copy) => Found { version: copy.version, on_flash: true },
                None => Found { version: on_disk, on_flash: false },
            }
        };
        pages.iter().map(|page| (*page, find(*page))).collect()
    }

    /// For the superblock: a front from which on positions up to `end` overwrite nothing.
    pub fn front_needed(&self, end: u64) -> u64 {
        end.saturating_sub(self.slots)
    }

    /// The front that a durable record names.
    pub fn recorded_front(&self) -> Position {
        Position(self.summaries.values().map(|summary| summary.front).fold(self.front, u64::max))
    }
}

impl GroupWrite {
    fn apply(
        self,
        slots: u64,
        group_pages: u64,
        copies: &mut BTreeMap<u64, Copy>,
        summaries: &mut BTreeMap<u64, Summary>,
    ) {
        copies.extend(self.copies.into_iter().map(|copy| (copy.position % slots, copy)));
        let group = |summary: Summary| (summary.first / group_pages % (slots / group_pages), summary);
        summaries.extend(self.summary.map(group));
    }
}
