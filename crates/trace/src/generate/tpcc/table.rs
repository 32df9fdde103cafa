//! A heap as PostgreSQL keeps it: rows stay where they were inserted; an update puts the new version on the
//! same page if it has room (a HOT update: no index changes), else at the end of the file.
//!
//! Loaded pages are full. The first update on one moves its row away, and the room of the old version serves
//! all later updates.

use super::relation::Relation;
use super::transactions::Steps;
use std::collections::{HashMap, HashSet};

/// A table.
#[derive(Debug)]
pub(super) struct Table {
    relation: Relation,
    per_page: f64,
    loaded_pages: u32,
    /// Rows that are no longer where they were loaded, and rows inserted since.
    moved: HashMap<u64, u32>,
    /// Loaded pages with room for another version.
    roomy: HashSet<u32>,
    /// The page at the end, and how many rows it has.
    tail: u32,
    tail_rows: u32,
}

impl Table {
    /// A table of `rows` rows.
    pub fn new(relation: Relation, rows: u64) -> Self {
        let per_page = relation.per_page();
        let loaded_pages = (rows as f64 / per_page).ceil() as u32;
        Self {
            relation,
            per_page,
            loaded_pages,
            moved: HashMap::new(),
            roomy: HashSet::new(),
            tail: loaded_pages,
            tail_rows: 0,
        }
    }

    /// The page of a row.
    pub fn page(&self, row: u64) -> u32 {
        let loaded = || ((row as f64 / self.per_page) as u32).min(self.loaded_pages - 1);
        self.moved.get(&row).copied().unwrap_or_else(loaded)
    }

    /// Reads a row; returns its page.
    pub fn read(&self, steps: &mut Steps<'_>, row: u64) -> u32 {
        let page = self.page(row);
        steps.fix(self.relation, page);
        page
    }

    /// Reads and locks a row (`FOR UPDATE`).
    pub fn lock(&self, steps: &mut Steps<'_>, row: u64) {
        let page = self.read(steps, row);
        steps.fix(self.relation, page);
        steps.dirty(self.relation, page);
    }

    /// Finds a row again and updates it; returns whether it moved, so that indexes need a new entry.
    pub fn update(&mut self, steps: &mut Steps<'_>, row: u64) -> bool {
        let page = self.read(steps, row);
        self.put_version(steps, row, page)
    }

    /// Writes a new version of a row of which this page has just been read.
    fn put_version(&mut self, steps: &mut Steps<'_>, row: u64, page: u32) -> bool {
        steps.fix(self.relation, page);
        steps.fix(self.relation, page);
        steps.dirty(self.relation, page);
        let room = page >= self.loaded_pages || !self.roomy.insert(page);
        if room {
            return false;
        }
        self.append(steps, row);
        true
    }

    /// Inserts a row at the end.
    pub fn insert(&mut self, steps: &mut Steps<'_>, row: u64) {
        self.append(steps, row);
    }

    fn append(&mut self, steps: &mut Steps<'_>, row: u64) {
        if f64::from(self.tail_rows) >= self.per_page {
            self.tail += 1;
            self.tail_rows = 0;
        }
        self.tail_rows += 1;
        steps.fix(self.relation, self.tail);
        steps.dirty(self.relation, self.tail);
        self.moved.insert(row, self.tail);
    }
}
