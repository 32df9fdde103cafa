//! The pages that are being written: writers of the same page take turns.
//!
//! Invariant: of two ranges that overlap, the earlier request is granted first. So no writer starves. A
//! writer holds one range at a time, so no two writers wait for each other.

use entresol_runtime::sync::{Rank, TinyMutex};
use entresol_runtime::{Task, current, park};
use std::ops::Range;

/// Ranges of pages that are held or waited for, at most one for each writer.
pub(super) struct Ranges(TinyMutex<State>);

struct State {
    next: u64,
    /// In the order of arrival.
    entries: Vec<Entry>,
}

struct Entry {
    ticket: u64,
    pages: Range<u64>,
    /// The task that waits; `None`: it holds the range.
    waiting: Option<Task>,
}

/// A range that is held, until dropped.
pub(super) struct Held<'a>(&'a Ranges, u64);

impl Ranges {
    pub fn new() -> Self {
        Self(TinyMutex::new(Rank::BlockRanges, State { next: 0, entries: Vec::new() }))
    }

    /// Holds these pages, if no other writer holds or awaits one of them. Never waits.
    pub fn try_hold(&self, pages: Range<u64>) -> Option<Held<'_>> {
        let mut state = self.0.lock();
        if state.entries.iter().any(|entry| overlap(&entry.pages, &pages)) {
            return None;
        }
        let ticket = state.next;
        state.next += 1;
        state.entries.push(Entry { ticket, pages, waiting: None });
        Some(Held(self, ticket))
    }

    /// Waits until no page of `pages` is held by another writer.
    pub fn hold(&self, pages: Range<u64>) -> Held<'_> {
        entresol_runtime::may_preempt();
        let held = {
            let mut state = self.0.lock();
            let ticket = state.next;
            state.next += 1;
            state.entries.push(Entry { ticket, pages: pages.clone(), waiting: Some(current()) });
            Held(self, ticket)
        };
        loop {
            if self.0.lock().take(held.1, &pages) {
                return held;
            }
            park();
        }
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

impl State {
    /// Takes the range if no earlier one overlaps it. Returns whether it is held.
    fn take(&mut self, ticket: u64, pages: &Range<u64>) -> bool {
        for entry in &mut self.entries {
            if entry.ticket == ticket {
                entry.waiting = None;
                return true;
            }
            if overlap(&entry.pages, pages) {
                return false;
            }
        }
        unreachable!("a range stays until it is dropped")
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.entries.retain(|entry| entry.ticket != self.1);
        state.entries.iter().filter_map(|entry| entry.waiting.as_ref()).for_each(Task::unpark);
    }
}
