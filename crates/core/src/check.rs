//! The invariants of a partition. Asserted after every step by tests and, in debug builds, by the engine.

use crate::config::Placement;
use crate::region::Partition;
use crate::slot::{DIRTY, HELD, NIL, VALID};
use crate::staging::FREE;
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

fn same<T: PartialEq + std::fmt::Display>(what: &str, expected: T, found: T) -> Result<(), Violation> {
    if expected == found {
        return Ok(());
    }
    Err(Violation { what: what.to_owned(), expected: expected.to_string(), found: found.to_string() })
}

impl Partition<'_> {
    /// Verifies every invariant of the directory. Takes time proportional to the number of slots.
    pub fn check(&self) -> Result<(), Violation> {
        self.check_index()?;
        self.check_counts()?;
        self.check_positions()?;
        self.check_groups()?;
        if self.policy().placement() == Placement::Slots {
            self.check_lists()?;
        }
        Ok(())
    }

    /// Every valid slot and every staged page is found from the index, once; nothing else is in it; staged versions
    /// stand before the one on flash, newest first.
    fn check_index(&self) -> Result<(), Violation> {
        let mut linked = 0u64;
        for (bucket, first) in self.buckets.iter().enumerate() {
            let mut at = *first;
            while at != NIL {
                linked += 1;
                if linked > self.slots.len() as u64 {
                    return same("index: chains end", "an end".to_owned(), "a circle".to_owned());
                }
                let entry = &self.slots[at as usize];
                let home = crate::index::bucket_of(entry.page().0, self.buckets.len());
                same(&format!("bucket of entry {at}, page {}", entry.page()), home, bucket)?;
                if at < self.head.slots {
                    same(&format!("valid flag of slot {at} in the index"), true, entry.has(VALID))?;
                }
                if let Some(older) = self.find_older(at) {
                    let age = |e: u32| match e.checked_sub(self.head.slots) {
                        Some(frame) => self.staged[frame as usize].position + 1,
                        None if self.policy.placement() == Placement::Log => self.position_of(e) + 1,
                        None => 0,
                    };
                    same(&format!("entry {at} newer than {older} of one page"), true, age(at) > age(older))?;
                }
                at = entry.next();
            }
        }
        let staged = self.staged.iter().enumerate();
        let staged = staged.filter(|(f, s)| {
            s.state != FREE && s.state != crate::staging::DONE && !self.is_padding(*f as u32)
        });
        same("entries in the index", self.head.valid as u64 + staged.count() as u64, linked)
    }

    fn check_counts(&self) -> Result<(), Violation> {
        let slots = &self.slots[..self.head.slots as usize];
        let count =
            |wanted: &dyn Fn(&crate::slot::Slot) -> bool| slots.iter().filter(|s| wanted(s)).count() as u32;
        same("valid slots", count(&|s| s.has(VALID)), self.head.valid)?;
        same("dirty slots", count(&|s| s.has(VALID) && s.has(DIRTY)), self.head.dirty)?;
        if self.policy().placement() == Placement::Log {
            same("superseded slots", count(&|s| s.has(HELD) && !s.has(VALID)), self.head.superseded)?;
        }
        let used = self.staged.iter().filter(|s| s.state != FREE).count() as u32;
        same("staging frames in use", used, self.head.staged)
    }

    fn check_positions(&self) -> Result<(), Violation> {
        let head = &*self.head;
        same("staging window", true, head.rear - head.staged_front <= self.staging_pages())?;
        same(
            "frame of the staging front",
            head.staged_front % self.staging_pages(),
            head.front_frame as u64,
        )?;
        same("staging frames in the window", head.rear - head.staged_front, head.staged as u64)?;
        for position in head.staged_front..head.rear {
            let staged = &self.staged[self.frame_of(position) as usize];
            same(&format!("position of the staging frame for {position}"), position, staged.position)?;
        }
        if self.policy().placement() == Placement::Slots {
            return Ok(());
        }
        let group = head.group_pages as u64;
        same("released is whole groups", 0, head.released % group)?;
        same("slot of the released position", head.released % head.slots as u64, head.released_slot as u64)?;
        same("pages of the open group", head.rear % group, head.open as u64)?;
        same("released <= scan", true, head.released <= head.scan)?;
        same("scan <= staged front", true, head.scan <= head.staged_front)?;
        same("staged front <= rear", true, head.staged_front <= head.rear)?;
        same("ring not overrun", true, head.rear <= head.released + head.slots as u64)?;
        for position in head.rear..head.released + head.slots as u64 {
            let slot = self.slot_of(position);
            same(
                &format!("slot {slot} beyond the rear is empty"),
                false,
                self.slots[slot as usize].has(HELD),
            )?;
        }
        Ok(())
    }

    fn check_groups(&self) -> Result<(), Violation> {
        if self.policy().placement() == Placement::Slots {
            return Ok(());
        }
        let mut pending = [0u32; crate::placement::UNITS];
        for staged in self.staged.iter().filter(|s| s.state != FREE && s.unit != 0) {
            if let Some(unit) = pending.get_mut(staged.unit as usize - 1) {
                *unit += 1;
            }
        }
        for (at, unit) in self.head.units.iter().enumerate() {
            let expected = if unit.state == 0 { 0 } else { pending[at] };
            same(&format!("pages that unit {at} waits for"), expected, unit.pending)?;
        }
        for (at, group) in self.groups.iter().enumerate() {
            let order = group.written <= group.issued && group.issued <= group.ready;
            same(&format!("staging group {at}: written <= issued <= ready"), true, order)?;
        }
        Ok(())
    }

    fn check_lists(&self) -> Result<(), Violation> {
        let (mut free, mut at) = (0, self.head.free_first);
        while at != NIL && free <= self.head.slots {
            free += 1;
            at = self.slots[at as usize].next();
        }
        same("free slots", self.head.free, free)?;
        same("pages in the LRU-2 lists", self.head.valid, self.count_lists())
    }
}
