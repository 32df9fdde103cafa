//! TAC, temperature-aware caching (Canim et al.: SSD Bufferpool Extensions for Database Systems, VLDB 2010;
//! Bhattacharjee et al.: Enhancing Recovery Using an SSD Buffer Pool Extension, DaMoN 2011, §3; FaCE §2.3):
//! on entry, write-through, the coldest page is evicted.
//!
//! ```text
//! temperature of a region of pages: its references, i.e. DRAM misses of its pages
//! on a read of p from disk:     if a slot is free, or p's region is warmer than the coldest page on flash: p enters
//! on eviction of p from DRAM:   if p is dirty: write p to disk, and over its copy on flash if there is one
//! victim:                       a page of the coldest region that has pages on flash
//! ```
//!
//! The engine keeps the slot directory and the temperatures across a crash (SBP §3, 4).
//!
//! There is a list of pages for each temperature. When a region gets warmer its pages stay in their list, so
//! a page's list is never warmer than its region. A search for the coldest page begins at the coldest list,
//! and moves pages whose region has become warmer to the list of its temperature, until the first page is in
//! the right list. Each such move is paid for by a reference to its region, so the search takes constant time
//! in the long run.
//!
//! Deviations: a region is 32 pages ("an extent or a fixed number of data pages"). Every reference counts 1.
//! Canim et al. give sequential ones a lower weight, but the store above reads at random. The papers at hand
//! do not say how temperatures cool: they are halved after as many references as 16 times the slots.
//! Temperatures are kept in a hashed table with as many places as slots, so two regions may share one.
//! Temperatures from 1,023 on are equal. Among the pages of the coldest temperature, the one that entered its
//! list first is evicted.

use super::{Decision, Lists, Memory, Offer, Policy, SlotFacts, SlotPolicy, Survives, shared};
use crate::PageId;
use crate::hash::bucket_of;
use crate::pages::Pages;
use crate::sections::{Carver, SectionPlan};
use crate::violation::{Violation, same};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Number of distinct temperatures, from 0.
const CLASSES: u32 = 1024;
/// Pages of a region: 2 to the power of this.
const REGION_SHIFT: u32 = 5;
/// References between two halvings of the temperatures, for each slot.
const COOLING: u32 = 16;

/// Bits of a table entry that hold the temperature. The bits above hold the number of the last cooling
/// applied.
const TEMPERATURE_BITS: u32 = 24;
const TEMPERATURE_MAX: u32 = (1 << TEMPERATURE_BITS) - 1;

/// Temperature-aware.
pub(crate) struct Tac;

/// Scalars of TAC.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Warmth {
    /// References since the last cooling.
    references: u32,
    /// Number of coolings.
    coolings: u32,
    /// All lists below this one are empty.
    coldest: u32,
}

const WARMTH: SectionPlan = SectionPlan::one::<Warmth>("warmth");
const TABLE: SectionPlan = SectionPlan::many::<u32>("temperatures", |sizes| sizes.slots);

/// Temperatures of regions, and the order of the lists.
pub(crate) struct Temperatures<'r> {
    warmth: &'r mut Warmth,
    /// By place, the hash of the region: as many places as slots.
    table: &'r mut [u32],
}

impl<'r> Memory<'r> for Temperatures<'r> {
    const SECTIONS: &'static [SectionPlan] = &[WARMTH, TABLE];

    #[inline(always)]
    fn attach(carver: &mut Carver<'r, '_>) -> Option<Self> {
        Some(Self { warmth: carver.take_one()?, table: carver.take(&TABLE)? })
    }
}

impl Temperatures<'_> {
    fn place_of(&self, page: PageId) -> usize {
        bucket_of(page.0 >> REGION_SHIFT, self.table.len())
    }

    /// The temperature at `place` of the table, with the halvings since its last update.
    pub(crate) fn at(&self, place: usize) -> u32 {
        let word = self.table[place];
        let halvings = (self.warmth.coolings as u8).wrapping_sub((word >> TEMPERATURE_BITS) as u8);
        (word & TEMPERATURE_MAX).checked_shr(halvings.into()).unwrap_or(0)
    }

    fn set(&mut self, place: usize, temperature: u32) {
        let as_of = (self.warmth.coolings as u8 as u32) << TEMPERATURE_BITS;
        self.table[place] = as_of | temperature.min(TEMPERATURE_MAX);
    }

    fn class_of(&self, page: PageId) -> u32 {
        self.at(self.place_of(page)).min(CLASSES - 1)
    }

    /// A page of a region is referenced. When it is time, all temperatures are halved: each place of the
    /// table when it is next read.
    fn warm(&mut self, pages: &mut Pages<'_>, page: PageId) {
        let place = self.place_of(page);
        self.set(place, self.at(place) + 1);
        self.warmth.references += 1;
        if self.warmth.references >= COOLING.saturating_mul(self.table.len() as u32) {
            self.warmth.references = 0;
            self.warmth.coolings = self.warmth.coolings.wrapping_add(1);
            self.warmth.coldest = 0;
            (1..CLASSES).for_each(|class| pages.lists.splice(class, class / 2));
        }
        self.refresh();
    }

    /// Updates every place before 256 coolings have passed, which its byte could not count.
    fn refresh(&mut self) {
        let at = self.warmth.references as usize % self.table.len();
        self.set(at, self.at(at));
    }

    /// The coldest list with pages, after pages of warmer regions were moved on, and its first idle page.
    fn coldest_page(&mut self, pages: &mut Pages<'_>) -> Option<(u32, u32)> {
        let mut coldest = self.warmth.coldest;
        while coldest < CLASSES && pages.lists.first_of(coldest).is_none() {
            coldest += 1;
        }
        self.warmth.coldest = coldest;
        for class in coldest..CLASSES {
            let node = pages.lists.head(class);
            let mut at = pages.lists.next_of(node);
            while at != node {
                let next = pages.lists.next_of(at);
                let real = self.class_of(pages.directory.entry(at).page());
                if real > class {
                    pages.lists.move_to_back(real, at);
                } else if pages.directory.is_idle(at) {
                    return Some((class, at));
                }
                at = next;
            }
        }
        None
    }

    /// Places of the table.
    pub(crate) fn places(&self) -> usize {
        self.table.len()
    }

    /// Restores the temperatures. To be called before any slot is restored.
    pub(crate) fn restore(&mut self, temperatures: impl IntoIterator<Item = u32>) {
        for (place, temperature) in temperatures.into_iter().enumerate().take(self.table.len()) {
            self.set(place, temperature);
        }
    }
}

impl Policy for Tac {
    const NAME: &str = "tac";
    type Memory<'r> = Temperatures<'r>;

    fn admit(pages: &mut Pages<'_>, _: &mut Temperatures<'_>, offer: &Offer) -> Decision {
        shared::on_entry_and_clean(pages, offer)
    }

    fn on_hit(pages: &mut Pages<'_>, memory: &mut Temperatures<'_>, entry: u32) {
        let page = pages.directory.entry(entry).page();
        memory.warm(pages, page);
    }

    fn on_leave(pages: &mut Pages<'_>, _memory: &mut Temperatures<'_>, slot: u32) {
        pages.lists.take_out(slot);
    }

    /// All lists below the coldest one are empty.
    fn check(pages: &Pages<'_>, memory: &Temperatures<'_>) -> Result<(), Violation> {
        let below = memory.warmth.coldest.min(CLASSES);
        let lists = &pages.lists;
        let first = (0..below).find(|list| lists.next_of(lists.head(*list)) != lists.head(*list));
        same(|| "pages colder than the coldest list", None, first)
    }
}

impl SlotPolicy for Tac {
    const FACTS: SlotFacts = SlotFacts {
        populates: true,
        clean_only: true,
        survives: Survives::Always,
        keeps_temperatures: true,
        lists: Lists::Fixed(CLASSES),
        ..SlotFacts::BASE
    };
    type Note = ();

    fn arrive(pages: &mut Pages<'_>, memory: &mut Temperatures<'_>, page: PageId, room: bool) -> bool {
        memory.warm(pages, page);
        if room {
            return true;
        }
        let class = memory.class_of(page);
        memory.coldest_page(pages).is_none_or(|(coldest, _)| class > coldest)
    }

    /// The page's list is that of its region's temperature.
    fn on_enter(pages: &mut Pages<'_>, memory: &mut Temperatures<'_>, slot: u32) {
        let class = memory.class_of(pages.directory.entry(slot).page());
        memory.warmth.coldest = memory.warmth.coldest.min(class);
        pages.lists.push_back(class, slot);
    }

    fn free_ahead(_pages: &Pages<'_>) -> u32 {
        0
    }

    fn victim_for(pages: &mut Pages<'_>, memory: &mut Temperatures<'_>, _page: PageId) -> Option<u32> {
        memory.coldest_page(pages).map(|(_, slot)| slot)
    }
}
