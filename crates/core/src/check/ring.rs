//! Invariants of log placement: the ring, its dequeues and its staging groups.

use super::{Violation, same};
use crate::Position;
use crate::placement::UNITS;
use crate::placement::log::{UNIT_DONE, UNIT_FREE, UNIT_OPEN};
use crate::region::{Group, Partition};
use crate::slot::{HELD, VALID};
use crate::staging::{DONE, FREE, PADDING, READY, WRITING, WRITTEN};

impl Partition<'_> {
    /// The positions that everything else is counted from. After this, positions of the window have slots and frames.
    pub(super) fn check_ring(&self) -> Result<(), Violation> {
        let head = &*self.head;
        let (group, slots) = (head.group_pages as u64, head.slots as u64);
        let ordered =
            head.released <= head.scan && head.scan <= head.staged_front && head.staged_front <= head.rear;
        same(|| "released <= scan <= staged front <= rear", true, ordered)?;
        same(|| "rear is in range", true, head.rear <= Position::MAX.0 + slots)?;
        same(|| "ring not overrun", true, head.rear - head.released <= slots)?;
        same(|| "slot of the released position", head.released % slots, head.released_slot as u64)?;
        for (what, position) in
            [("released", head.released), ("scan", head.scan), ("staged front", head.staged_front)]
        {
            same(|| format!("{what} is at the beginning of a group"), 0, position % group)?;
        }
        self.check_staging()?;
        self.check_units()
    }

    fn check_units(&self) -> Result<(), Violation> {
        let head = &*self.head;
        let (first, next) = (head.unit_first, head.unit_next);
        same(|| "dequeues under way", true, first <= next && next - first <= UNITS as u64)?;
        let span = (next - first) * head.group_pages as u64;
        same(|| "positions being dequeued", head.scan - head.released, span)?;
        let mut pending = [0u32; UNITS];
        for staged in self.staged.iter().filter(|s| s.state != FREE && s.unit != 0 && s.unit != PADDING) {
            match pending.get_mut(staged.unit as usize - 1) {
                Some(pages) => *pages += 1,
                None => return same(|| "dequeue that a staged page belongs to", "a known one", "another"),
            }
        }
        let mut undecided = 0;
        for (at, unit) in head.units.iter().enumerate() {
            let nth = (at as u64 + UNITS as u64 - first % UNITS as u64) % UNITS as u64;
            let used = nth < next - first;
            let known = if used {
                unit.state == UNIT_OPEN || unit.state == UNIT_DONE
            } else {
                unit.state == UNIT_FREE
            };
            same(|| format!("state of dequeue {at} is right"), true, known)?;
            if used {
                let begins = head.released + nth * head.group_pages as u64;
                same(|| format!("first position of dequeue {at}"), begins, unit.first)?;
                same(|| format!("pages that dequeue {at} waits for"), pending[at], unit.pending)?;
                undecided += u32::from(unit.state == UNIT_OPEN);
            }
        }
        same(|| "undecided dequeues", undecided, head.undecided)
    }

    /// Slots hold pages where they should, and the counters of staging groups are those of their frames.
    pub(super) fn check_groups(&self) -> Result<(), Violation> {
        let head = &*self.head;
        let superseded = self.slots_proper().iter().filter(|s| s.has(HELD) && !s.has(VALID)).count();
        same(|| "superseded slots", superseded, head.superseded as usize)?;
        let stray = self.slots_proper().iter().position(|s| s.has(VALID) && !s.has(HELD));
        same(|| "a slot that is valid, but holds nothing", None, stray)?;
        for position in head.rear..head.released + head.slots as u64 {
            let slot = self.slot_of(position);
            same(
                || format!("slot {slot} beyond the rear holds a page"),
                false,
                self.slots[slot as usize].has(HELD),
            )?;
        }
        for position in head.staged_front..head.rear {
            let (slot, frame) = (self.slot_of(position), self.frame_of(position));
            let early = self.slots[slot as usize].has(HELD) && self.staged[frame as usize].state != DONE;
            same(|| format!("slot {slot} holds a page before it is written"), false, early)?;
        }
        let group_pages = head.group_pages as usize;
        for (at, (group, frames)) in self.groups.iter().zip(self.staged.chunks(group_pages)).enumerate() {
            let count = |from: u32| frames.iter().filter(|s| s.state >= from).count() as u32;
            let writing = frames.iter().any(|s| s.state == WRITING);
            let counted = Group {
                ready: count(READY),
                issued: count(WRITING),
                written: count(WRITTEN),
                writing: u32::from(writing),
            };
            // The counters of a group that is written begin anew, though its frames may wait for those before.
            let over = frames.iter().all(|s| s.state == DONE);
            let counted = if over { Group { ready: 0, issued: 0, written: 0, writing: 0 } } else { counted };
            same(|| format!("counters of staging group {at}"), counted, *group)?;
        }
        Ok(())
    }
}
