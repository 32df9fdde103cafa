//! Invariants of log placement: the ring, its dequeues and its staging groups.

use crate::Position;
use crate::directory::PageDirectory;
use crate::placement::Ring;
use crate::placement::ring::{CLEANINGS_MAX, DEQUEUES, DequeueState, Group, HOLDS_MAX};
use crate::slot::{HELD, VALID};
use crate::staging::{Frame, FrameState, Staging};
use crate::violation::{Violation, same};

/// The positions from which all others are counted. After this, positions of the window have slots.
pub(super) fn positions(ring: &Ring<'_>, staging: &Staging<'_>) -> Result<(), Violation> {
    let (head, window) = (&*ring.head, &*staging.window);
    let (group, slots) = (ring.group_pages as u64, ring.slots as u64);
    let ordered = head.released <= head.scan && head.scan <= window.front && window.front <= window.rear;
    same(|| "released <= scan <= staged front <= rear", true, ordered)?;
    same(|| "rear is in range", true, window.rear <= Position::MAX.0 + slots)?;
    same(|| "ring not overrun", true, window.rear - head.released <= slots)?;
    same(|| "slot of the released position", head.released % slots, head.released_slot as u64)?;
    for (what, position) in [("released", head.released), ("scan", head.scan), ("staged front", window.front)]
    {
        same(|| format!("{what} is at the beginning of a group"), 0, position % group)?;
    }
    Ok(())
}

/// The records of forgotten pages that wait, and the front that is durable.
pub(super) fn records(ring: &Ring<'_>, staging: &Staging<'_>) -> Result<(), Violation> {
    let head = &*ring.head;
    let fault = head.deletions.fault(staging.window.rear);
    same(|| "records that wait", None, fault)?;
    same(|| "the durable front is released", true, head.front_durable <= head.released)?;
    same(|| "positions to be flushed were given out", true, head.flush_to <= staging.window.rear)
}

/// The pages that are being copied to disk out of turn.
pub(super) fn cleanings(ring: &Ring<'_>, staging: &Staging<'_>) -> Result<(), Violation> {
    let head = &*ring.head;
    same(|| "pages held", true, head.holds <= HOLDS_MAX as u64)?;
    same(|| "cleanings under way", true, head.cleaning <= CLEANINGS_MAX as u64)?;
    let under_way = ring.cleanings();
    for (at, position) in under_way.iter().enumerate() {
        let on_flash = head.scan..staging.window.rear;
        let what = || {
            format!("position {position} of cleaning {at} is one of {on_flash:?}, on flash and not dequeued")
        };
        same(what, true, on_flash.contains(position))?;
        same(
            || format!("cleaning {at} is the only one of its position"),
            false,
            under_way[..at].contains(position),
        )?;
    }
    Ok(())
}

/// The dequeues under way, and the pages that they await.
pub(super) fn dequeues(ring: &Ring<'_>, staging: &Staging<'_>) -> Result<(), Violation> {
    let head = &*ring.head;
    let (first, next) = (head.first_dequeue, head.next_dequeue);
    same(|| "dequeues under way", true, first <= next && next - first <= DEQUEUES as u64)?;
    let span = (next - first) * ring.group_pages as u64;
    same(|| "positions being dequeued", head.scan - head.released, span)?;
    let pending = awaited(ring, staging)?;
    let mut counts = [0; 2];
    for (at, dequeue) in head.dequeues.iter().enumerate() {
        let nth = (at as u64 + DEQUEUES as u64 - first % DEQUEUES as u64) % DEQUEUES as u64;
        let used = nth < next - first;
        let state = dequeue.state();
        let known = state.is_some_and(|state| used != (state == DequeueState::Free));
        same(|| format!("state of dequeue {at} is right"), true, known)?;
        if used {
            let begins = head.released + nth * ring.group_pages as u64;
            same(|| format!("first position of dequeue {at}"), begins, dequeue.first)?;
            same(|| format!("pages that dequeue {at} waits for"), pending[at], dequeue.pending)?;
            counts[0] += u16::from(dequeue.waits());
            counts[1] += u16::from(state == Some(DequeueState::Staying));
            let is_safe = nth > 0 || !dequeue.waits() || ring.has_a_group(staging);
            same(|| format!("room for second chances of the oldest dequeue {at}"), true, is_safe)?;
        }
    }
    same(|| "dequeues whose second chances wait, and get positions", counts, [head.waiting, head.staying])
}

/// Staged pages that each dequeue awaits.
fn awaited(ring: &Ring<'_>, staging: &Staging<'_>) -> Result<[u32; DEQUEUES], Violation> {
    let mut pending = [0u32; DEQUEUES];
    for (frame, awaited_by) in staging.frames.iter().zip(ring.awaited_by.iter()) {
        let Some(dequeue) = awaited_by.checked_sub(1) else { continue };
        let holds_page = !frame.is(FrameState::Free) && !frame.is_pad();
        same(|| "an awaited staging frame holds a page", true, holds_page)?;
        match pending.get_mut(dequeue as usize) {
            Some(pages) => *pages += 1,
            None => same(|| "dequeue that a staged page belongs to", "a known one", "another")?,
        }
    }
    Ok(pending)
}

/// No slot beyond the rear holds a page, and none before its page is written.
pub(super) fn slots(
    ring: &Ring<'_>,
    staging: &Staging<'_>,
    directory: &PageDirectory<'_>,
) -> Result<(), Violation> {
    let window = (ring.head.released, ring.head.released_slot);
    same(|| "the window of the index", Some(window), directory.index.window())?;
    let slots = directory.of_slots();
    let superseded = slots.iter().filter(|slot| slot.has(HELD) && !slot.has(VALID)).count();
    same(|| "superseded slots", superseded, ring.head.superseded as usize)?;
    let stray = slots.iter().position(|slot| slot.has(VALID) && !slot.has(HELD));
    same(|| "a slot that is valid, but holds nothing", None, stray)?;
    let held = |position: u64| directory.entry(ring.slot_of(position)).has(HELD);
    for position in staging.window.rear..ring.head.released + ring.slots as u64 {
        same(|| format!("the slot of {position}, beyond the rear, holds a page"), false, held(position))?;
    }
    for position in staging.positions() {
        let early = held(position) && !staging.at(position).is(FrameState::Done);
        same(|| format!("the slot of {position} holds a page before it is written"), false, early)?;
    }
    Ok(())
}

/// The counters of staging groups agree with their frames.
pub(super) fn groups(ring: &Ring<'_>, staging: &Staging<'_>) -> Result<(), Violation> {
    let frames = staging.frames.chunks(ring.group_pages as usize);
    for (at, (group, frames)) in ring.groups.iter().zip(frames).enumerate() {
        // The counters of a written group are reset, though its frames may wait for those of older positions.
        let over = frames.iter().all(|frame| frame.is(FrameState::Done));
        let Group { flushed, flushing, confirmed, .. } = *group;
        let counted =
            if over { Group::default() } else { Group { flushed, flushing, confirmed, ..count(frames) } };
        same(
            || format!("flushed places of staging group {at}"),
            true,
            flushed <= group.written && flushing <= group.issued,
        )?;
        same(|| format!("counters of staging group {at}"), counted, *group)?;
    }
    Ok(())
}

fn count(frames: &[Frame]) -> Group {
    let reached = |from| frames.iter().filter(|frame| frame.state() >= Some(from)).count() as u32;
    let writing = frames.iter().any(|frame| frame.is(FrameState::Writing));
    Group {
        ready: reached(FrameState::Ready),
        issued: reached(FrameState::Writing),
        written: reached(FrameState::Written),
        writing: u32::from(writing),
        ..Group::default()
    }
}
