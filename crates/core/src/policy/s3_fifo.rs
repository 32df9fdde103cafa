//! S3-FIFO (Yang et al.: FIFO Queues are All You Need for Cache Eviction, SOSP 2023, §4, algorithm 1): a
//! small FIFO in front of a main one, and a ghost of pages that left the small one. For comparison.
//!
//! ```text
//! on eviction of p from DRAM:   if p has changed or is not on flash: p enters (or goes over its older version)
//! a page enters:                if it is in the ghost: at the rear of the main queue, else of the small one; freq := 0
//! on fetch of p from flash:     p.freq := min(p.freq + 1, 3)
//! victim:                       if the small queue has a tenth of the slots: its front; a page with freq > 1 moves to
//!                               the rear of the main queue, with freq := 0; others are the victim, and enter the ghost
//!                               else the front of the main queue; a page with freq > 0 returns to the rear, freq - 1
//! ```
//!
//! It stands below a buffer pool, so a page enters on exit, as with [`super::lc`]: otherwise all pages would
//! enter that DRAM keeps anyway. The write of a newer version is not a reference, since it belongs to the
//! fetch before it.
//!
//! Deviations: the ghost has as many entries as there are slots (the paper: as the main queue has), in sets
//! of eight ([`super::ghost`]), not in one queue. Busy pages are passed over. Victims are emptied ahead of
//! demand, see [`super::lru`].
//!
//! Invariants: list [`SMALL`] has `small` slots, and list [`MAIN`] all others with a page. A slot's note
//! says in which of them it is. A search ends: each page that it passes has been fetched since it was last
//! passed, or leaves the small queue.

use super::ghost::{Ghosts, words_for};
use super::{Decision, Lists, Memory, Offer, Policy, SlotFacts, SlotPolicy};
use crate::pages::Pages;
use crate::sections::{Carver, SectionPlan};
use crate::violation::{Violation, same};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The small queue.
const SMALL: u32 = 0;
/// The main queue.
const MAIN: u32 = 1;
/// The small queue has one slot in this many.
const SMALL_PART: u32 = 10;
/// Greatest count of fetches.
const FREQ_MAX: u32 = 3;
/// Fetches that a page of the small queue needs to enter the main queue.
const PROMOTED_FROM: u32 = 2;

/// Two FIFO queues and a ghost.
pub(crate) struct S3Fifo;

/// The note on a slot: its queue, and fetches since its page entered or was last passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct InQueue {
    queue: u16,
    freq: u16,
}

/// Scalars of the queues.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Queues {
    /// Pages in the small queue.
    small: u32,
}

const QUEUES: SectionPlan = SectionPlan::one::<Queues>("queues");
const GHOSTS: SectionPlan = SectionPlan::many::<u16>("ghosts", |sizes| words_for(sizes.slots));

/// The pages of the small queue, counted, and the remembered ones.
pub(crate) struct SmallAndGhosts<'r> {
    queues: &'r mut Queues,
    ghosts: Ghosts<'r, u16>,
}

impl<'r> Memory<'r> for SmallAndGhosts<'r> {
    const SECTIONS: &'static [SectionPlan] = &[QUEUES, GHOSTS];

    #[inline(always)]
    fn attach(carver: &mut Carver<'r, '_>) -> Option<Self> {
        Some(Self { queues: carver.take_one()?, ghosts: Ghosts::attach(&GHOSTS, carver)? })
    }
}

impl SmallAndGhosts<'_> {
    /// The front of the small queue, after pages that were fetched often have moved to the main one.
    fn victim_in_small(&mut self, pages: &mut Pages<'_>) -> Option<u32> {
        let node = pages.lists.head(SMALL);
        let mut at = pages.lists.next_of(node);
        while at != node {
            let next = pages.lists.next_of(at);
            if pages.directory.is_idle(at) {
                if pages.lists.note::<InQueue>(at).freq < PROMOTED_FROM as u16 {
                    return Some(at);
                }
                pages.lists.set_note(at, InQueue { queue: MAIN as u16, freq: 0 });
                pages.lists.move_to_back(MAIN, at);
                self.queues.small -= 1;
            }
            at = next;
        }
        None
    }
}

/// The front of the main queue, after pages that were fetched have returned to its rear.
fn victim_in_main(pages: &mut Pages<'_>) -> Option<u32> {
    let node = pages.lists.head(MAIN);
    let mut at = pages.lists.next_of(node);
    while at != node {
        let InQueue { queue, freq } = pages.lists.note(at);
        if !pages.directory.is_idle(at) {
            at = pages.lists.next_of(at);
            continue;
        }
        if freq == 0 {
            return Some(at);
        }
        pages.lists.set_note(at, InQueue { queue, freq: freq - 1 });
        let next = pages.lists.next_of(at);
        pages.lists.move_to_back(MAIN, at);
        if next != node {
            at = next;
        }
    }
    None
}

impl Policy for S3Fifo {
    const NAME: &str = "s3-fifo";
    type Memory<'r> = SmallAndGhosts<'r>;

    fn admit(pages: &mut Pages<'_>, _: &mut SmallAndGhosts<'_>, offer: &Offer) -> Decision {
        Decision::enter_if(offer.fdirty || pages.directory.find(offer.page).is_none())
    }

    fn on_hit(pages: &mut Pages<'_>, _memory: &mut SmallAndGhosts<'_>, entry: u32) {
        // Pages in staging are in no queue yet.
        if entry < pages.directory.slots {
            let note: InQueue = pages.lists.note(entry);
            if note.freq < FREQ_MAX as u16 {
                pages.lists.set_note(entry, InQueue { freq: note.freq + 1, ..note });
            }
        }
    }

    fn on_leave(pages: &mut Pages<'_>, memory: &mut SmallAndGhosts<'_>, slot: u32) {
        pages.lists.take_out(slot);
        if pages.lists.note::<InQueue>(slot).queue == SMALL as u16 {
            memory.queues.small -= 1;
            let place = memory.ghosts.place_of(pages.directory.entry(slot).page());
            memory.ghosts.remember(place, |_| 0);
        }
    }

    fn check(pages: &Pages<'_>, memory: &SmallAndGhosts<'_>) -> Result<(), Violation> {
        let slots = pages.directory.of_slots().len();
        for (queue, name) in [(SMALL, "small"), (MAIN, "main")] {
            let (mut at, mut count) = (pages.lists.next_of(pages.lists.head(queue)), 0);
            // The lists were checked: each is a circle of slots.
            while let Some(slot) = pages.lists.slot(at).filter(|_| count <= slots) {
                let note: InQueue = pages.lists.note(slot);
                same(|| format!("queue of slot {slot}, {name}"), queue as u16, note.queue)?;
                same(|| format!("count of slot {slot} is small"), true, note.freq <= FREQ_MAX as u16)?;
                count += 1;
                at = pages.lists.next_of(slot);
            }
            if queue == SMALL {
                same(|| "pages of the small queue", count as u32, memory.queues.small)?;
            }
        }
        memory.ghosts.check()
    }
}

impl SlotPolicy for S3Fifo {
    const FACTS: SlotFacts = SlotFacts { lists: Lists::Fixed(2), ..SlotFacts::BASE };
    type Note = InQueue;

    fn on_enter(pages: &mut Pages<'_>, memory: &mut SmallAndGhosts<'_>, slot: u32) {
        let place = memory.ghosts.place_of(pages.directory.entry(slot).page());
        let queue = if memory.ghosts.take(place).is_some() { MAIN } else { SMALL };
        memory.queues.small += u32::from(queue == SMALL);
        pages.lists.set_note(slot, InQueue { queue: queue as u16, freq: 0 });
        pages.lists.push_back(queue, slot);
    }

    fn victim(pages: &mut Pages<'_>, memory: &mut SmallAndGhosts<'_>) -> Option<u32> {
        let small_is_full = memory.queues.small >= pages.directory.slots / SMALL_PART;
        let in_small = if small_is_full { memory.victim_in_small(pages) } else { None };
        in_small.or_else(|| victim_in_main(pages)).or_else(|| memory.victim_in_small(pages))
    }
}
