//! A cache of fragments: the state machine of SCE (Kim et al., INFLOW 2014, §3), a third kind of placement in
//! addition to log and slots. It works below a database, on the pages of one volume.
//!
//! | file | what it does |
//! |---|---|
//! | `mod` | events and answers |
//! | `region` | the flat region: map, descriptors, recently read fragments |
//! | `check` | its invariants |
//! | `crate::policy::sce` | decisions: heat, which fragment is populated or evicted, and the pace |
//!
//! ```text
//!   page ─▶ logical fragment ──map──▶ descriptor (fragment on flash, validity bitmap)
//!                │
//!                └─ heat, writes under way
//! ```
//!
//! - A look-up is one access to the map and one to a bitmap; there is no index.
//! - No page enters on the foreground path. A page that is read and not valid on flash is fetched from disk.
//!   Background workers take [`Population`]s with [`Fragments::next_population`], read the fragment from
//!   disk, write it to flash in one piece and report [`Fragments::populated`].
//! - A write is to disk. If its fragment is mapped, it is to flash too (write-through), otherwise not
//!   (write-around). While the write is under way the page is not valid on flash.
//!
//! Invariants:
//! - A valid page on flash is the same version as on disk. So a crash loses nothing: the directory is in
//!   memory only and starts empty.
//! - A fragment with writes under way is neither populated nor evicted. Otherwise a population might read a
//!   page before such a write and write it to flash after it.
//! - A page that is written while its fragment is being populated stays invalid.

mod check;
mod region;

pub use region::{
    FRAGMENT_BYTES, FRAGMENT_PAGES_MAX, FragmentConfig, FragmentConfigError, FragmentId, Fragments,
    fragment_region_bytes, fragment_sections,
};

use crate::{PageId, SlotId, Ticket};
use region::{FREE, POPULATING};
pub(crate) use region::{MAPPED, NONE, RECENT, UNMAPPED};

/// Most writes of one fragment that may be under way.
const WRITES_MAX: u32 = 255;

/// The place of a page on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashCopy {
    /// Its slot.
    pub slot: SlotId,
    /// The number of the population that wrote its fragment, modulo 2^30. It is stamped into the page and
    /// distinguishes it from pages of other populations in this place.
    pub population: u32,
}

/// The path of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritePath {
    /// To disk, and over its copy on flash; then call [`Fragments::write_done`].
    Through(FlashCopy),
    /// To disk alone; then call [`Fragments::write_done`].
    Around,
    /// Too many writes of this fragment are under way: ask again when one is done.
    Wait,
}

/// A fragment to populate: read these pages from disk, write them to adjacent slots, and report
/// [`Fragments::populated`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Population {
    /// Identifies the population in its report.
    pub ticket: Ticket,
    /// First page on the volume.
    pub first: PageId,
    /// Number of pages: a whole fragment, except the last one of the volume.
    pub pages: u32,
    /// The place of the first page. The others follow it.
    pub copy: FlashCopy,
}

/// Occupancy of a cache of fragments, and the numbers that set its pace. Counted in fragments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FragmentOccupancy {
    /// Fragments that fit on flash.
    pub slots: u32,
    /// Mapped fragments.
    pub mapped: u32,
    /// Fragments being populated.
    pub populating: u32,
    /// Populations begun so far.
    pub populations: u64,
    /// Populations that replaced another fragment.
    pub evictions: u64,
    /// Share of the recent reads that were served from flash, 0..=1.
    pub hit_rate: f64,
}

impl Fragments<'_> {
    /// `page` is read. Returns its copy if flash has the version of the disk; otherwise fetch it from disk.
    ///
    /// # Panics
    /// If the page is beyond the end of the volume.
    pub fn fetch(&mut self, page: PageId) -> Option<FlashCopy> {
        let copy = self.peek(page);
        self.on_read(self.place_of(page).0, copy.is_some());
        copy
    }

    /// The copy that [`Fragments::fetch`] would find. Nothing is noted.
    ///
    /// # Panics
    /// If the page is beyond the end of the volume.
    pub fn peek(&self, page: PageId) -> Option<FlashCopy> {
        let (fragment, offset) = self.place_of(page);
        let slot = self.map[fragment.0 as usize].slot;
        let found = self.descriptors.get(slot as usize).is_some_and(|d| d.state() == MAPPED && d.has(offset));
        found.then(|| self.copy_of(slot, offset))
    }

    /// `page` is about to be written. A write that is given a path counts as under way until
    /// [`Fragments::write_done`]. The caller makes sure that there is at most one write of a page at a time.
    ///
    /// # Panics
    /// If the page is beyond the end of the volume.
    pub fn write(&mut self, page: PageId) -> WritePath {
        let (fragment, offset) = self.place_of(page);
        let entry = &mut self.map[fragment.0 as usize];
        if entry.writes() >= WRITES_MAX {
            return WritePath::Wait;
        }
        entry.set_writes(entry.writes() + 1);
        let slot = entry.slot;
        let Some(descriptor) = self.descriptors.get_mut(slot as usize) else {
            self.on_write(page, false);
            return WritePath::Around;
        };
        let mapped = descriptor.state() == MAPPED;
        // Being populated: the version that was read from disk is too old, and the slot is being written.
        descriptor.clear_bit(offset);
        self.on_write(page, mapped);
        if mapped { WritePath::Through(self.copy_of(slot, offset)) } else { WritePath::Around }
    }

    /// The write of `page` along `path` is complete. `on_flash`: the copy on flash is whole; otherwise it
    /// stays invalid.
    ///
    /// # Panics
    /// If no write of its fragment is under way.
    pub fn write_done(&mut self, page: PageId, path: WritePath, on_flash: bool) {
        let (fragment, offset) = self.place_of(page);
        let entry = &mut self.map[fragment.0 as usize];
        assert!(entry.writes() > 0, "no write of {page} is under way");
        entry.set_writes(entry.writes() - 1);
        let slot = entry.slot;
        if let (WritePath::Through(_), true) = (path, on_flash) {
            let descriptor = &mut self.descriptors[slot as usize];
            debug_assert_eq!(descriptor.state(), MAPPED, "a fragment with writes under way stays");
            descriptor.set_bit(offset);
        }
    }

    /// Something of the mapped fragment of `slot` is about to be written. The fragment is not evicted, and so
    /// nothing else is written in its place, until [`Fragments::let_go`]. At most one holds it, and counts as
    /// one more write under way.
    ///
    /// # Panics
    /// If the fragment is not mapped, or too many writes of it are under way.
    pub fn hold(&mut self, slot: SlotId) {
        let entry = self.entry_of(slot);
        assert!(entry.writes() < WRITES_MAX, "a write was counted too many");
        entry.set_writes(entry.writes() + 1);
    }

    /// It is written.
    ///
    /// # Panics
    /// If nothing holds the fragment.
    pub fn let_go(&mut self, slot: SlotId) {
        let entry = self.entry_of(slot);
        assert!(entry.writes() > 0, "nothing holds the fragment in {slot:?}");
        entry.set_writes(entry.writes() - 1);
    }

    /// The map's entry of the fragment in a slot.
    fn entry_of(&mut self, slot: SlotId) -> &mut region::Logical {
        let descriptor = &self.descriptors[(slot.0 / self.head.fragment_pages) as usize];
        assert_eq!(descriptor.state(), region::MAPPED, "a mapped fragment is in {slot:?}");
        &mut self.map[descriptor.fragment as usize]
    }

    /// A read from flash gave another page or version: the copy is forgotten.
    pub fn discard(&mut self, page: PageId) {
        let (fragment, offset) = self.place_of(page);
        if let Some(descriptor) = self.descriptors.get_mut(self.map[fragment.0 as usize].slot as usize) {
            descriptor.clear_bit(offset);
        }
    }

    /// Nothing of the fragment of `page` on flash can be proved. It leaves the flash; while a write of it is
    /// under way, it stays without a valid page.
    pub fn discard_fragment(&mut self, page: PageId) {
        let (fragment, _) = self.place_of(page);
        let entry = &mut self.map[fragment.0 as usize];
        let slot = entry.slot;
        let Some(descriptor) = self.descriptors.get_mut(slot as usize) else { return };
        if descriptor.state() != MAPPED {
            return;
        }
        if entry.writes() > 0 {
            (0..self.head.fragment_pages).for_each(|offset| descriptor.clear_bit(offset));
        } else {
            entry.unmap();
            self.head.mapped -= 1;
            self.release(slot);
        }
    }

    /// The next population for an idle worker, if one is due.
    pub fn next_population(&mut self) -> Option<Population> {
        if self.head.populating >= self.head.workers {
            return None;
        }
        let fragment = self.candidate()?;
        let slot = self.room_for(fragment)?;
        self.begin(fragment, slot);
        self.charge();
        self.note_decision(u64::from(fragment.0) << 32 | u64::from(slot));
        let pages = self.pages_of(fragment);
        Some(Population {
            ticket: Ticket(slot),
            first: PageId::new(self.head.volume, fragment.0 * self.head.fragment_pages),
            pages,
            copy: self.copy_of(slot, 0),
        })
    }

    /// A population has ended. `ok`: the whole fragment was read and written.
    ///
    /// # Panics
    /// If the population is not under way.
    pub fn populated(&mut self, ticket: Ticket, ok: bool) {
        let descriptor = &mut self.descriptors[ticket.0 as usize];
        assert_eq!(descriptor.state(), POPULATING, "this population is under way");
        self.head.populating -= 1;
        if ok {
            descriptor.is_mapped();
            self.head.mapped += 1;
        } else {
            self.map[descriptor.fragment as usize].unmap();
            self.release(ticket.0);
        }
    }

    /// The occupancy.
    pub fn occupancy(&self) -> FragmentOccupancy {
        FragmentOccupancy {
            slots: self.head.slots,
            mapped: self.head.mapped,
            populating: self.head.populating,
            populations: self.head.populations,
            evictions: self.head.evictions,
            hit_rate: self.hit_rate(),
        }
    }

    /// Hash of every decision since the region was formatted.
    pub fn decision_hash(&self) -> u64 {
        self.head.decisions
    }

    pub(crate) fn note_decision(&mut self, decision: u64) {
        let mixed = (self.head.decisions ^ decision).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.head.decisions = mixed ^ mixed >> 29;
    }

    /// Evicts the fragment in `slot` from flash.
    pub(crate) fn evict(&mut self, slot: u32) {
        let fragment = self.descriptors[slot as usize].fragment;
        debug_assert_eq!(self.map[fragment as usize].writes(), 0, "no write of it is under way");
        self.map[fragment as usize].unmap();
        self.head.mapped -= 1;
        self.head.evictions += 1;
        self.release(slot);
    }

    fn release(&mut self, slot: u32) {
        let descriptor = &mut self.descriptors[slot as usize];
        *descriptor = region::Descriptor::free(self.head.free_first);
        self.head.free_first = slot;
        debug_assert_eq!(descriptor.state(), FREE);
    }

    /// Begins the population of `slot`, the first free one.
    fn begin(&mut self, fragment: FragmentId, slot: u32) {
        debug_assert_eq!(self.head.free_first, slot);
        self.head.free_first = self.descriptors[slot as usize].fragment;
        self.head.populating += 1;
        self.head.populations += 1;
        let (pages, number) = (self.pages_of(fragment), self.head.populations);
        self.descriptors[slot as usize] = region::Descriptor::populating(fragment, pages, number);
        self.map[fragment.0 as usize].slot = slot;
    }
}
