//! TAC, temperature-aware caching (Canim et al.: SSD Bufferpool Extensions for Database Systems, VLDB 2010; Bhattacharjee et
//! al.: Enhancing Recovery Using an SSD Buffer Pool Extension, DaMoN 2011, §3; FaCE §2.3): on entry, write-through, the
//! coldest page goes.
//!
//! ```text
//! temperature of a region of pages: its references, i.e. DRAM misses of its pages
//! on a read of p from disk:     if a slot is free, or p's region is warmer than the coldest page on flash: p enters
//! on eviction of p from DRAM:   if p is dirty: write p to disk, and over its copy on flash if there is one
//! victim:                       a page of the coldest region that has pages on flash
//! ```
//!
//! How the slot directory and the temperatures survive a crash is the engine's business (SBP §3, 4).
//!
//! Pages stand in a list for each temperature. When a region gets warmer its pages stay where they are, so a page's list
//! is never warmer than its region. A search for the coldest page begins at the coldest list and moves pages whose region
//! has become warmer on to their list, until the first one is where it belongs. Each such move pays for a reference of
//! its region, so the search takes constant time in the long run.
//!
//! Deviations: a region is 32 pages ("an extent or a fixed number of data pages"). Every reference counts 1; Canim et al.
//! weigh sequential ones less, and here the store above reads at random. The papers at hand do not say how temperatures
//! cool: they are halved when as many references have gone by as 16 times the slots. Temperatures are kept in a table of
//! as many places as slots, hashed, so two regions may share one; from 1,023 on all are equal. Of the pages of the coldest
//! temperature the one that came to its list first goes.

use super::{CLEAN_ONLY, Directory, Facts, Lists, Offer, Placement, Policy, Verdict};
use crate::PageId;
use crate::check::{Violation, same};
use crate::index::bucket_of;
use crate::mode::Mode;
use crate::region::Partition;

/// Temperatures that are told apart: 0 to one less.
const CLASSES: u32 = 1024;
/// Pages of a region: 2 to the power of this.
const REGION_SHIFT: u32 = 5;
/// References in which temperatures are halved, for each slot.
const COOLING: u32 = 16;

/// Bits of a place in the table that hold the temperature; above it the cooling it is as of.
const TEMPERATURE_BITS: u32 = 24;
const TEMPERATURE_MAX: u32 = (1 << TEMPERATURE_BITS) - 1;

/// Temperature-aware.
pub(crate) struct Tac;

impl Partition<'_> {
    fn region_of(&self, page: PageId) -> usize {
        bucket_of(page.0 >> REGION_SHIFT, self.table.len())
    }

    /// The temperature at `place` of the table, with the halvings since it was last touched.
    pub(crate) fn temperature_at(&self, place: usize) -> u32 {
        let word = self.table[place];
        let halvings = (self.head.coolings as u8).wrapping_sub((word >> TEMPERATURE_BITS) as u8);
        (word & TEMPERATURE_MAX).checked_shr(halvings.into()).unwrap_or(0)
    }

    pub(crate) fn set_temperature(&mut self, place: usize, temperature: u32) {
        let as_of = (self.head.coolings as u8 as u32) << TEMPERATURE_BITS;
        self.table[place] = as_of | temperature.min(TEMPERATURE_MAX);
    }

    fn class_of(&self, page: PageId) -> u32 {
        self.temperature_at(self.region_of(page)).min(CLASSES - 1)
    }

    /// A page of a region is referenced.
    fn warm(&mut self, page: PageId) {
        let place = self.region_of(page);
        let warmer = self.temperature_at(place) + 1;
        self.set_temperature(place, warmer);
        self.head.references += 1;
        if self.head.references >= COOLING.saturating_mul(self.head.slots) {
            self.cool();
        }
        // Brings every place up to date before 256 coolings have gone by, which its byte could not count.
        let at = (self.head.references as usize) % self.table.len();
        self.set_temperature(at, self.temperature_at(at));
    }

    /// Halves all temperatures: those in the table when they are looked at next.
    fn cool(&mut self) {
        self.head.references = 0;
        self.head.coolings = self.head.coolings.wrapping_add(1);
        for class in 1..CLASSES {
            self.splice(class, class / 2);
        }
        self.head.coldest = 0;
    }

    /// The coldest list that has pages, when pages of warmer regions have been moved on; its first idle page.
    fn coldest_page(&mut self) -> Option<(u32, u32)> {
        while self.head.coldest < CLASSES && self.first_of(self.head.coldest).is_none() {
            self.head.coldest += 1;
        }
        for class in self.head.coldest..CLASSES {
            let node = self.list_node(class);
            let mut at = self.next_of(node);
            while at != node {
                let next = self.next_of(at);
                let real = self.class_of(self.slots[at as usize].page());
                if real > class {
                    self.move_to_back(real, at);
                } else if self.is_idle(at) {
                    return Some((class, at));
                }
                at = next;
            }
        }
        None
    }

    /// Puts a page into the list of its region's temperature.
    fn enlist(&mut self, slot: u32) {
        let class = self.class_of(self.slots[slot as usize].page());
        self.head.coldest = self.head.coldest.min(class);
        self.push_back(class, slot);
    }
}

impl Policy for Tac {
    const FACTS: Facts = Facts {
        name: "tac",
        placement: Placement::Slots,
        by_group: false,
        second_chances: false,
        populates: true,
        exclusive: false,
        refuses: &[(Mode::WriteBack, CLEAN_ONLY)],
        directory: Directory::Slots,
        keeps_temperatures: true,
        lists: Lists::Fixed(CLASSES),
        cleans_above_permille: None,
        remembers: false,
    };

    fn admit(partition: &mut Partition<'_>, offer: &Offer) -> Verdict {
        partition.on_entry_and_clean(offer)
    }

    fn arrive(partition: &mut Partition<'_>, page: PageId) -> bool {
        partition.warm(page);
        // Pages that are staged already will take free slots.
        if partition.head.free > partition.head.staged {
            return true;
        }
        let class = partition.class_of(page);
        partition.coldest_page().is_none_or(|(coldest, _)| class > coldest)
    }

    fn on_hit(partition: &mut Partition<'_>, entry: u32) {
        partition.warm(partition.slots[entry as usize].page());
    }

    fn on_enter(partition: &mut Partition<'_>, slot: u32) {
        partition.enlist(slot);
    }

    fn on_leave(partition: &mut Partition<'_>, slot: u32) {
        partition.take_out(slot);
    }

    fn free_ahead(_partition: &Partition<'_>) -> u32 {
        0
    }

    fn victim_for(partition: &mut Partition<'_>, _page: PageId) -> Option<u32> {
        partition.coldest_page().map(|(_, slot)| slot)
    }

    /// No list below the coldest one has pages.
    fn check(partition: &Partition<'_>) -> Result<(), Violation> {
        let below = partition.head.coldest.min(CLASSES);
        let node = |list: &u32| partition.list_node(*list);
        let first = (0..below).find(|list| partition.next_of(node(list)) != node(list));
        same(|| "pages colder than the coldest list", None, first)
    }
}
