//! Invariants of the lists.

use crate::pages::Pages;
use crate::slot::{BUSY, NIL, Slot, VALID};
use crate::violation::{Violation, same};

/// Every valid slot is in one of the policy's `lists`. With sets, it is in the list of its set, and so are
/// the free slots.
pub(super) fn check(pages: &Pages<'_>, lists: u32, in_sets: bool) -> Result<(), Violation> {
    let of_pages = if in_sets { pages.sets.count() } else { lists };
    let mut listed = 0;
    for list in 0..of_pages {
        listed += circle(pages, list, |slot| slot.has(VALID))?;
    }
    if lists > 0 {
        same(|| "pages in the policy's lists", pages.directory.counts.valid, listed)?;
    }
    if in_sets {
        sets(pages)?;
    }
    let (cursor, slots) = (*pages.lists.cursor, pages.directory.of_slots());
    let stands = cursor == NIL || slots.get(cursor as usize).is_some_and(|slot| slot.has(VALID));
    same(|| "the cursor stands at a valid slot", true, stands)
}

/// Pages and free slots are in the lists of their sets.
fn sets(pages: &Pages<'_>) -> Result<(), Violation> {
    let (lists, sets) = (&pages.lists, pages.sets);
    for set in 0..sets.count() {
        circle(pages, sets.free_list(set), |slot| !slot.has(VALID | BUSY))?;
    }
    for list in 0..2 * sets.count() {
        let mut at = lists.next_of(lists.head(list));
        while let Some(slot) = lists.slot(at) {
            same(|| format!("set of slot {slot}"), list % sets.count(), sets.of_slot(slot))?;
            at = lists.next_of(slot);
        }
    }
    let slots = pages.directory.of_slots().iter().zip(0..);
    for (slot, at) in slots.filter(|(slot, _)| slot.has(VALID)) {
        let page = slot.page();
        same(|| format!("set of page {page}"), sets.of_slot(at), sets.of_page(page))?;
    }
    Ok(())
}

/// The list is a circle of slots for which `right` holds. Returns their number.
pub(super) fn circle(
    pages: &Pages<'_>,
    list: u32,
    right: impl Fn(Slot<'_>) -> bool,
) -> Result<u32, Violation> {
    let (lists, slots) = (&pages.lists, pages.directory.of_slots());
    let node = lists.head(list);
    let (mut entries, mut before, mut at) = (0, node, lists.next_of(node));
    while at != node {
        let Some(slot) = slots.get(at as usize) else {
            return same(|| format!("an entry of list {list}"), "a slot", "none").map(|()| 0);
        };
        entries += 1;
        same(|| format!("list {list} ends"), true, entries as usize <= slots.len())?;
        same(|| format!("slot {at} of list {list} is as it should be"), true, right(slot))?;
        same(|| format!("what stands before slot {at} of list {list}"), before, lists.prev_of(at))?;
        (before, at) = (at, lists.next_of(at));
    }
    same(|| format!("last of list {list}"), before, lists.prev_of(node))?;
    Ok(entries)
}
