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

use super::{CLEAN_ONLY, Directory, Facts, Keeps, Kept, Lists, Memory, Offer, Placement, Policy, Verdict};
use crate::PageId;
use crate::check::{Violation, same};
use crate::index::bucket_of;
use crate::mode::Mode;
use crate::region::Partition;
use crate::sections::{Carver, SectionPlan};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

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

/// Scalars of TAC.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Warmth {
    /// References since temperatures were halved.
    references: u32,
    /// How often temperatures were halved.
    coolings: u32,
    /// No list below this one has pages.
    coldest: u32,
}

const WARMTH: SectionPlan = SectionPlan::one::<Warmth>("warmth");
const TABLE: SectionPlan = SectionPlan::many::<u32>("temperatures", |config| config.slots);

/// Temperatures of regions, and the order of the lists.
pub(crate) struct Temperatures<'r> {
    warmth: &'r mut Warmth,
    /// By place, i.e. by the hash of the region: as many as slots.
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

    /// The temperature at `place` of the table, with the halvings since it was last touched.
    fn at(&self, place: usize) -> u32 {
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

    /// A page of a region is referenced. True if it is time to halve all temperatures.
    fn warm(&mut self, page: PageId) -> bool {
        let place = self.place_of(page);
        self.set(place, self.at(place) + 1);
        self.warmth.references += 1;
        self.warmth.references >= COOLING.saturating_mul(self.table.len() as u32)
    }

    /// Halves all temperatures: those in the table when they are looked at next.
    fn cool(&mut self) {
        self.warmth.references = 0;
        self.warmth.coolings = self.warmth.coolings.wrapping_add(1);
    }

    /// Brings every place up to date before 256 coolings have gone by, which its byte could not count.
    fn refresh(&mut self) {
        let at = self.warmth.references as usize % self.table.len();
        self.set(at, self.at(at));
    }
}

impl<'r> Partition<'r> {
    fn warmth(&self) -> &Temperatures<'r> {
        Tac::of(&self.kept)
    }

    fn warmth_mut(&mut self) -> &mut Temperatures<'r> {
        Tac::of_mut(&mut self.kept)
    }

    /// A page of a region is referenced.
    fn warm(&mut self, page: PageId) {
        if self.warmth_mut().warm(page) {
            self.warmth_mut().cool();
            for class in 1..CLASSES {
                self.splice(class, class / 2);
            }
            self.warmth_mut().warmth.coldest = 0;
        }
        self.warmth_mut().refresh();
    }

    /// The coldest list that has pages, when pages of warmer regions have been moved on; its first idle page.
    fn coldest_page(&mut self) -> Option<(u32, u32)> {
        let mut coldest = self.warmth().warmth.coldest;
        while coldest < CLASSES && self.first_of(coldest).is_none() {
            coldest += 1;
        }
        self.warmth_mut().warmth.coldest = coldest;
        for class in coldest..CLASSES {
            let node = self.list_node(class);
            let mut at = self.next_of(node);
            while at != node {
                let next = self.next_of(at);
                let real = self.warmth().class_of(self.slots[at as usize].page());
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
        let page = self.slots[slot as usize].page();
        let temperatures = self.warmth_mut();
        let class = temperatures.class_of(page);
        temperatures.warmth.coldest = temperatures.warmth.coldest.min(class);
        self.push_back(class, slot);
    }

    /// TAC: the temperatures of regions of pages, by their places in the table, to be kept on flash. Empty with other
    /// policies.
    pub fn temperatures(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        let kept = if let Kept::Tac(kept) = &self.kept { Some(kept) } else { None };
        let places = kept.map_or(0, |kept| kept.table.len());
        (0..places).map(move |place| kept.map_or(0, |kept| kept.at(place)))
    }

    /// TAC: the temperatures as they were, before any slot is restored.
    pub fn restore_temperatures(&mut self, temperatures: impl IntoIterator<Item = u32>) {
        let Kept::Tac(kept) = &mut self.kept else { return };
        let places = kept.table.len();
        for (place, temperature) in temperatures.into_iter().enumerate().take(places) {
            kept.set(place, temperature);
        }
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
    type Note = ();
    type Memory<'r> = Temperatures<'r>;

    fn admit(partition: &mut Partition<'_>, offer: &Offer) -> Verdict {
        partition.on_entry_and_clean(offer)
    }

    fn arrive(partition: &mut Partition<'_>, page: PageId) -> bool {
        partition.warm(page);
        // Pages that are staged already will take free slots.
        if partition.head.free > partition.head.staged {
            return true;
        }
        let class = partition.warmth().class_of(page);
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
        let below = partition.warmth().warmth.coldest.min(CLASSES);
        let node = |list: &u32| partition.list_node(*list);
        let first = (0..below).find(|list| partition.next_of(node(list)) != node(list));
        same(|| "pages colder than the coldest list", None, first)
    }
}
