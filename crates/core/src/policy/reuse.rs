//! Reuse: how often pages were used again decides which of them enter, stay and leave. A policy of this
//! project, with two placements: `reuse` in the ring, `reuse-slots` in place.
//!
//! ```text
//! class of p:                   how long it took until p was used again, on average; or new. Clean and dirty apart
//! chance of p:                  probability that a page of its class, unused for as long as p, is used in time
//! value of p:                   greatest rate of uses that such a page promises
//! ring:                         a new page's class has the warmth of its region of 32 pages, too; and a
//!                               part of `uses` follows the region's rate, as q / (1 + q). The part is learned, by
//!                               least squares, from pages that are watched for a turn
//! w:                            1, and for a dirty page the share of those that come back from DRAM changed: then
//!                               its use saves a write, too
//! uses of p:                    its chance; if p was used before, slots: no less than its rate r of uses times the slots,
//!                               ring: no less than r / (1 + r)
//!
//! on fetch of p:                count a use for its class at its age; p's class takes the age up. On flash and as a ghost
//! on eviction of p from DRAM:   p's age is counted from now
//!                               if p is on flash: if p.fdirty: p enters (over its older version, or at the rear);
//!                                 slots, if the owner's budget of writes is used up: p goes to disk, and leaves
//!                               else if w × uses (slots: twice the chance) is less than the owner asks for, or
//!                                    the flash is full, and
//!                                 ring:  w × uses < the greater of stays_from and the margin
//!                                 slots: uses < threshold / 2, or w × value < 3/2 of the margin:
//!                                   p goes to disk if it is dirty, and becomes a ghost
//!                               else p enters
//! victim:                       slots: the page of least w × value of 32 that are drawn. If it is dirty, its dirty
//!                               neighbours on disk are copied there, too, up to 63 on either side, as
//!                               long as they are worth no more than it, or less than pages that enter
//!                               ring:  the front group; pages with w × uses >= stays_from are enqueued
//!                                      again, at most seven eighths of a group, of the greatest w × uses,
//!                                      which are none for new pages in the first epoch
//! slots, at each victim, and    margin takes a sixteenth of the least w × value drawn
//!   at one in 8 pages kept out:
//! ring, after each group:       margin takes a sixteenth of the greatest w × uses of those that leave;
//!                               stays_from grows by a 32nd if more than `share` of 64 stayed, else shrinks by
//!                               one, between the threshold and 1
//! ring, for each group's pages   the same with the next group of the ring, as if it were at the front
//!   kept out without a dequeue:
//! each slots / 8 misses:        threshold grows by a tenth if the work since then took flash longer than disk,
//!                               shrinks by a 20th if flash took less than 8/10 of the disk's time; from 1/10
//!                               (at first, and while costs are unknown) to 6/10
//! ring, group at the front:     pages that leave go to disk while those that stay are enqueued. If a write costs
//!                               less than a 32nd of a read from disk, they go before: till then these take one slot
//!                               each
//! each turn of the ring:        share shrinks if groups were written or dequeued for more of the disk's time than
//!                               15/16 (by 1) or 17/16 (by 4); it grows if less than 13/16 (by 1) or 11/16 (by 4), and
//!                               by costs flash took no more of the disk's time than 9/16; from 8 to 56; at first 32, or 44
//!                               if a write costs less than a 32nd of a read from disk;
//!                               52 while costs are unknown. Times are of two turns. If neither was at work for half of
//!                               them, or that is unknown, the same by costs
//! a page leaves:                it becomes a ghost
//! a ghost is forgotten:         count a loss for its class at its age: it was watched up to now
//! each 64 misses:               8 pages on flash and 8 ghosts are met: each counts as watched for its class at its age;
//!                               such counts fade within a turn
//! ```
//!
//! An age is counted from the eviction, since DRAM has served the uses before it.
//!
//! "In time" is as many misses as there are slots. A ring that keeps the share s of each group writes
//! 1 / (1 - s) pages for each one that enters, so `stays_from` limits that share. The margin keeps out pages
//! that would displace better ones: the front of the ring gives no choice of victims. In slots it is a mean,
//! and not the victim at hand, so that neighbours of one stream are decided alike: a stream of which some
//! pages are on flash costs a disk as many positionings as it has gaps. Pages that were rejected are watched
//! as ghosts, so nothing has to be tried out to learn from it.
//!
//! Its ideas are those of LRU-2 (a ghost's history: O'Neil et al., SIGMOD 1993), LRFU (recency and frequency
//! as one fading mean: Lee et al., 2001), S3-FIFO (quick demotion of new pages: Yang et al., SOSP 2023), and
//! survival statistics (losses are censored observations: Kaplan, Meier, 1958; hit density: LHD, Beckmann et
//! al., NSDI 2018).
//!
//! A write to flash costs time of flash only. While the disk limits, each use that it brings is a gain; while
//! flash limits, it must earn its time.
//!
//! Notes and counts do not survive a restart. Pages that a restart finds are taken for new ones.

mod evidence;
mod forecast;
mod hand;
mod hazard;
mod look;
mod note;
mod rewrites;
mod run;
mod share;
mod threshold;
mod time;
mod warmth;
mod work;

use super::{Decision, LogFacts, LogPolicy, Offer, Policy, SecondChances, SlotFacts, SlotPolicy};
use crate::PageId;
use crate::costs::{Costs, Load};
use crate::hash::bucket_of;
use crate::job::Fate;
use crate::pages::Pages;
use crate::slot::{DIRTY, VALID};
use crate::violation::Violation;
use evidence::Evidence;
use std::ops::Range;

/// Of so many pages of a dequeued group, at least one leaves.
const LEAVES_ONE_OF: u32 = 8;
/// Runs of slots among which a victim is chosen, and the length of a run: neighbours share cache lines.
const RUNS: u64 = 4;
const RUN_SLOTS: u32 = 8;
/// Runs that are drawn if no slot of the first ones is idle.
const RUNS_MAX: u64 = 32;
/// While pages are kept out no victims are needed, so some are drawn only to see what they are worth: one for
/// so many pages.
const KEPT_OUT: u32 = 8;

/// In the ring.
pub(crate) struct Reuse;
/// In place.
pub(crate) struct ReuseSlots;

/// A page that is in the cache enters if it has changed. `None`: it is not in the cache.
#[inline(always)]
fn known<const RING: bool>(
    pages: &Pages<'_>,
    memory: &mut Evidence<'_, RING>,
    offer: &Offer,
) -> Option<Decision> {
    let entry = pages.directory.find(offer.page)?;
    memory.given_up(pages, entry, offer.fdirty);
    Some(Decision::enter_if(offer.fdirty))
}

impl Policy for Reuse {
    const NAME: &str = "reuse";
    const LEARNS_FROM_MISSES: bool = true;
    const WEIGHS_COSTS: bool = true;
    type Memory<'r> = Evidence<'r, true>;

    fn admit(pages: &mut Pages<'_>, memory: &mut Evidence<'_, true>, offer: &Offer) -> Decision {
        if let Some(decision) = known(pages, memory, offer) {
            return decision;
        }
        let uses = memory.weight_of(offer);
        if uses < memory.threshold().of_owner || (memory.has_dequeued() && uses < memory.enters_from()) {
            Decision::Bypass
        } else {
            Decision::Enter
        }
    }

    fn set_costs(memory: &mut Evidence<'_, true>, costs: &Costs) {
        memory.set_costs(costs, costs.flash_write_in_row_ns, costs.flash_read_in_row_ns);
    }

    fn observe(memory: &mut Evidence<'_, true>, load: Load) {
        memory.observe(load);
    }

    fn on_bypass(pages: &mut Pages<'_>, memory: &mut Evidence<'_, true>, offer: &Offer) {
        memory.keep_out(offer);
        memory.look(pages, Self::chances_max);
    }

    fn on_stage(pages: &mut Pages<'_>, memory: &mut Evidence<'_, true>, entry: u32) {
        memory.staged(pages, entry);
    }

    fn on_carry(memory: &mut Evidence<'_, true>, from: u32, to: u32) {
        memory.carry(from, to);
    }

    fn on_miss(pages: &mut Pages<'_>, memory: &mut Evidence<'_, true>, page: PageId) {
        memory.miss(pages, page);
    }

    #[inline(always)]
    fn on_hit(pages: &mut Pages<'_>, memory: &mut Evidence<'_, true>, entry: u32) {
        memory.hit(pages, entry);
    }

    fn on_leave(pages: &mut Pages<'_>, memory: &mut Evidence<'_, true>, slot: u32) {
        memory.leave(pages, slot);
    }

    fn check(_pages: &Pages<'_>, memory: &Evidence<'_, true>) -> Result<(), Violation> {
        memory.check()
    }
}

impl LogPolicy for Reuse {
    const FACTS: LogFacts = LogFacts {
        second_chances: Some(SecondChances { spare_groups: 1, pulls: false }),
        keeps_out: true,
        ..LogFacts::BASE
    };

    fn on_dequeue(pages: &Pages<'_>, memory: &mut Evidence<'_, true>, slots: Range<u32>) {
        let most = Self::chances_max(slots.len() as u32);
        memory.dequeue(pages, slots, most);
    }

    fn fate(pages: &Pages<'_>, memory: &Evidence<'_, true>, slot: u32) -> Fate {
        if memory.weight(pages, slot) >= memory.stays_from() {
            Fate::SecondChance
        } else {
            pages.fate_without_chance(slot)
        }
    }

    fn worth(pages: &Pages<'_>, memory: &Evidence<'_, true>, slot: u32) -> u32 {
        memory.weight(pages, slot)
    }

    fn leaves_first(memory: &Evidence<'_, true>) -> bool {
        memory.writes_are_cheap()
    }

    fn chances_max(group_pages: u32) -> u32 {
        group_pages - (group_pages / LEAVES_ONE_OF).max(1)
    }
}

/// The idle slot of least value among those of the `nth` draw, with its value, which counts for the margin.
fn draw(pages: &Pages<'_>, memory: &mut Evidence<'_, false>, nth: u32) -> Option<(u32, u32)> {
    let slots = pages.directory.slots;
    let mut least: Option<(u32, u32)> = None;
    for run in 0..RUNS_MAX {
        if run >= RUNS && least.is_some() {
            break;
        }
        let draw = (u64::from(nth) << 5 | run).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mut slot = bucket_of(draw ^ draw >> 31, slots as usize) as u32;
        for _ in 0..RUN_SLOTS {
            if pages.directory.is_idle(slot) && pages.directory.entry(slot).has(VALID) {
                let value = memory.value(pages, slot);
                if least.is_none_or(|(lowest, _)| value < lowest) {
                    least = Some((value, slot));
                }
            }
            slot = if slot + 1 == slots { 0 } else { slot + 1 };
        }
    }
    if let Some((value, _)) = least {
        memory.victim_is_worth(value);
    }
    least
}

impl Policy for ReuseSlots {
    const NAME: &str = "reuse-slots";
    const LEARNS_FROM_MISSES: bool = true;
    const WEIGHS_COSTS: bool = true;
    type Memory<'r> = Evidence<'r, false>;

    fn admit(pages: &mut Pages<'_>, memory: &mut Evidence<'_, false>, offer: &Offer) -> Decision {
        if let Some(decision) = known(pages, memory, offer) {
            // What is only staged costs no write: the newer version is written in its place.
            let is_spared = offer.fdirty
                && memory.threshold().is_out_of_reach()
                && pages.directory.find_on_flash(offer.page).is_some();
            return if is_spared { Decision::Bypass } else { decision };
        }
        let offered = memory.kind_of(offer);
        if memory.is_too_dear(offered) {
            return Decision::Bypass;
        }
        if pages.directory.counts.valid + Self::free_ahead(pages) < pages.directory.slots {
            return Decision::Enter;
        }
        if memory.is_unlikely(offered) || memory.is_worth_little(memory.value_of(offered)) {
            Decision::Bypass
        } else {
            Decision::Enter
        }
    }

    fn set_costs(memory: &mut Evidence<'_, false>, costs: &Costs) {
        memory.set_costs(costs, costs.flash_write_ns, costs.flash_read_ns);
    }

    fn on_bypass(pages: &mut Pages<'_>, memory: &mut Evidence<'_, false>, offer: &Offer) {
        memory.keep_out(offer);
        let nth = memory.next_draw();
        if nth.is_multiple_of(KEPT_OUT) {
            draw(pages, memory, nth);
        }
    }

    fn on_stage(pages: &mut Pages<'_>, memory: &mut Evidence<'_, false>, entry: u32) {
        memory.staged(pages, entry);
    }

    fn on_carry(memory: &mut Evidence<'_, false>, from: u32, to: u32) {
        memory.carry(from, to);
    }

    fn on_miss(pages: &mut Pages<'_>, memory: &mut Evidence<'_, false>, page: PageId) {
        memory.miss(pages, page);
    }

    #[inline(always)]
    fn on_hit(pages: &mut Pages<'_>, memory: &mut Evidence<'_, false>, entry: u32) {
        memory.hit(pages, entry);
    }

    fn on_leave(pages: &mut Pages<'_>, memory: &mut Evidence<'_, false>, slot: u32) {
        memory.leave(pages, slot);
    }

    fn check(_pages: &Pages<'_>, memory: &Evidence<'_, false>) -> Result<(), Violation> {
        memory.check()
    }
}

impl SlotPolicy for ReuseSlots {
    const FACTS: SlotFacts = SlotFacts::BASE;
    type Note = ();

    fn victim(pages: &mut Pages<'_>, memory: &mut Evidence<'_, false>) -> Option<u32> {
        let nth = memory.next_draw();
        let (value, slot) = draw(pages, memory, nth)?;
        let entry = pages.directory.entry(slot);
        if entry.has(DIRTY) {
            memory.run().begin(entry.page(), value);
        }
        Some(slot)
    }

    /// Pages adjacent to a dirty victim on disk, as long as they are dirty, idle, and worth no more than it,
    /// or less than pages that enter.
    fn clean(pages: &mut Pages<'_>, memory: &mut Evidence<'_, false>) -> Option<u32> {
        let directory = &pages.directory;
        while let Some(page) = memory.run().next() {
            let slot = directory.find(page).filter(|entry| *entry < directory.slots);
            let most = memory.run().value;
            let leaves_soon = |value| value <= most || memory.is_worth_little(value);
            let follows = |slot: &u32| {
                directory.entry(*slot).has(DIRTY)
                    && directory.is_idle(*slot)
                    && leaves_soon(memory.value(pages, *slot))
            };
            let found = slot.filter(follows);
            memory.run().found(found.is_some());
            if found.is_some() {
                return found;
            }
        }
        None
    }
}
