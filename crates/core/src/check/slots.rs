//! Invariants of slot placement: free, new and valid slots.

use super::lists::circle;
use crate::pages::Pages;
use crate::placement::SlotTable;
use crate::placement::slots::Batches;
use crate::slot::{BUSY, NIL, VALID};
use crate::violation::{Violation, same};

pub(super) fn check(slots: &SlotTable<'_>, pages: &Pages<'_>) -> Result<(), Violation> {
    let free = if slots.in_sets { in_sets(pages)? } else { in_chain(slots, pages)? };
    same(|| "free slots", slots.head.free, free)?;
    let of_slots = pages.directory.of_slots();
    let new = of_slots.iter().filter(|slot| slot.has(BUSY) && !slot.has(VALID)).count() as u64;
    let all = u64::from(free) + new + u64::from(pages.directory.counts.valid);
    same(|| "free, new and valid slots", of_slots.len() as u64, all)?;
    slots.batches.as_deref().map_or(Ok(()), |batches| leaving(batches, pages))
}

/// Slots that leave are busy, hold no page, and are in one chain each.
fn leaving(batches: &Batches, pages: &Pages<'_>) -> Result<(), Violation> {
    let of_slots = pages.directory.of_slots();
    let mut all = 0;
    for (first, count) in batches.chains() {
        let mut at = first;
        for _ in 0..count {
            let Some(slot) = of_slots.get(at as usize) else {
                return same(|| "a slot that leaves", "below the last", "beyond");
            };
            all += 1;
            same(|| "the chains of leaving slots end", true, all <= of_slots.len())?;
            same(|| format!("leaving slot {at} is busy"), true, slot.has(BUSY))?;
            same(|| format!("leaving slot {at} holds a page"), false, slot.has(VALID))?;
            at = slot.next();
        }
    }
    Ok(())
}

/// Free slots in the lists of all sets.
fn in_sets(pages: &Pages<'_>) -> Result<u32, Violation> {
    let mut free = 0;
    for set in 0..pages.sets.count() {
        free += circle(pages, pages.sets.free_list(set), |slot| !slot.has(VALID | BUSY))?;
    }
    Ok(free)
}

/// Free slots in the one chain of free slots.
fn in_chain(slots: &SlotTable<'_>, pages: &Pages<'_>) -> Result<u32, Violation> {
    let of_slots = pages.directory.of_slots();
    let (mut free, mut at) = (0, slots.head.first_free);
    while at != NIL {
        let Some(slot) = of_slots.get(at as usize) else {
            return same(|| "a free slot", "below the last", "beyond").map(|()| 0);
        };
        free += 1;
        same(|| "the list of free slots ends", true, free as usize <= of_slots.len())?;
        same(|| format!("free slot {at} is in use"), false, slot.has(VALID | BUSY))?;
        at = slot.next();
    }
    Ok(free)
}
