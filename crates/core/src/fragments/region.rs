//! The flat region of a cache of fragments. All links are indices, and all sizes are fixed at the format.
//!
//! | section | entries | bytes each |
//! |---|---|---|
//! | header | 1 | `size_of::<Header>()` |
//! | descriptors | fragments on flash | 40: validity bitmap 32, logical fragment 4, state and population 4 |
//! | map | fragments of the volume | 8: where it is 4, heat and writes under way 4 |
//! | recent | recently read fragments | 4 |
//!
//! SCE has "roughly 76 bytes per cached fragment" (§3.3). Here it is 40, and 8 for each fragment of the
//! volume: with a volume of four times the flash, 72 in all.

use super::FlashCopy;
use crate::sections::Section;
use crate::{PageId, SlotId};
use thiserror::Error;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Most pages of a fragment: the bits of the validity bitmap.
pub const FRAGMENT_PAGES_MAX: u32 = 256;
/// "ENTRFRAG", little-endian, with the version of the layout in its last byte.
const MAGIC: u64 = u64::from_le_bytes(*b"ENTRFRA1");
/// Bytes of a fragment (SCE §3.1).
const USUAL_BYTES: u32 = 1 << 20;
/// Least number of fragments on flash: with fewer, fragments are made smaller.
const SLOTS_WANTED: u32 = 64;
/// Populations per thousand accesses, of fragments of 256 pages.
const USUAL_PACE: u32 = 16;

/// In the map: on disk only.
pub(crate) const UNMAPPED: u32 = u32::MAX;
/// In the map: on disk only, and among the recently read fragments.
pub(crate) const RECENT: u32 = u32::MAX - 1;
/// No fragment, no slot.
pub(crate) const NONE: u32 = u32::MAX;

/// State of a descriptor: the slot is free.
pub(crate) const FREE: u32 = 0;
/// State of a descriptor: the fragment is being read from disk and written to flash.
pub(crate) const POPULATING: u32 = 1;
/// State of a descriptor: the fragment is on flash.
pub(crate) const MAPPED: u32 = 2;

/// A fragment of the volume: the page numbers of its pages divided by the pages of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FragmentId(pub u32);

/// Sizes and knobs of a cache of fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentConfig {
    /// The object of its pages' ids ([`PageId::object`]): the volume.
    pub volume: u32,
    /// Pages of the volume.
    pub volume_pages: u32,
    /// Fragments that fit on flash.
    pub slots: u32,
    /// Pages of a fragment, 1 ..= 256. (SCE: 256 of 4 KiB, 1 MiB.)
    pub fragment_pages: u32,
    /// Populations that may be under way at once.
    pub workers: u32,
    /// Most populations begun per thousand reads and writes. This pace applies at a hit rate of 0 with all of
    /// the flash free.
    pub pace_permille: u32,
    /// Number of recently read fragments among which the hottest is chosen.
    pub recent: u32,
}

impl FragmentConfig {
    /// The usual settings for a volume of `volume_pages` pages and `slots` fragments of flash.
    pub const fn new(volume_pages: u32, slots: u32) -> Self {
        Self {
            volume: 0,
            volume_pages,
            slots,
            fragment_pages: 256,
            workers: 4,
            pace_permille: USUAL_PACE,
            recent: 256,
        }
    }

    /// The usual settings for `flash_pages` of flash and pages of `page_bytes`. Fragments are of 1 MiB,
    /// halved while fewer than 64 of them fit, so that a small cache is the model of a large one.
    pub fn sized(volume_pages: u32, flash_pages: u32, page_bytes: u32) -> Self {
        let mut pages = (USUAL_BYTES / page_bytes.max(1)).clamp(1, FRAGMENT_PAGES_MAX);
        while pages > 1 && flash_pages / pages < SLOTS_WANTED {
            pages /= 2;
        }
        Self::new(volume_pages, 0).with_fragments(pages, flash_pages)
    }

    /// The same with fragments of `fragment_pages`, as many as fit into `flash_pages`, and a pace that
    /// populates as many pages: at most about four for each access.
    pub fn with_fragments(self, fragment_pages: u32, flash_pages: u32) -> Self {
        let pages = fragment_pages.max(1);
        Self {
            fragment_pages,
            slots: flash_pages / pages,
            pace_permille: (USUAL_PACE * FRAGMENT_PAGES_MAX / pages).min(1000),
            ..self
        }
    }

    /// Fragments of the volume.
    pub const fn fragments(&self) -> u32 {
        self.volume_pages.div_ceil(self.fragment_pages)
    }

    /// Checks that a cache can be built from this configuration.
    ///
    /// # Errors
    /// The impossible setting, and the possible values.
    pub fn validate(&self) -> Result<(), FragmentConfigError> {
        let in_range = |what, found: u32, min: u32, max: u32| {
            if (min..=max).contains(&found) {
                Ok(())
            } else {
                Err(FragmentConfigError::Range { what, found, min, max })
            }
        };
        in_range("pages of a fragment", self.fragment_pages, 1, FRAGMENT_PAGES_MAX)?;
        in_range("pages of the volume", self.volume_pages, 1, u32::MAX - FRAGMENT_PAGES_MAX)?;
        let slots_max = (u32::MAX / self.fragment_pages).min(RECENT - 1);
        in_range("fragments on flash", self.slots, 1, slots_max)?;
        in_range("population workers", self.workers, 1, 1024)?;
        in_range("populations in a thousand accesses", self.pace_permille, 1, 1000)?;
        in_range("recently read fragments", self.recent, 1, 1 << 20)
    }
}

/// A configuration from which no cache can be built, or a region that does not hold one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FragmentConfigError {
    /// A number out of range.
    #[error("{found} {what} are not possible; choose {min} to {max}")]
    Range {
        /// The setting.
        what: &'static str,
        /// The value asked for.
        found: u32,
        /// Fewest possible.
        min: u32,
        /// Most possible.
        max: u32,
    },
    /// The region's size does not fit the configuration.
    #[error("the region has {found} bytes, but this configuration needs {expected}")]
    RegionSize {
        /// Bytes needed.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
    /// The region does not begin at a multiple of eight bytes.
    #[error("the region does not begin at a multiple of 8 bytes; map or allocate it so")]
    Alignment,
    /// The region was not written by this version.
    #[error(
        "the region does not hold a cache of fragments (magic {found:#x}, expected {expected:#x}); format it first"
    )]
    Magic {
        /// The magic of this version.
        expected: u64,
        /// The magic found in the region.
        found: u64,
    },
}

/// The descriptor of a fragment on flash.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Descriptor {
    /// The pages that are as on disk. While the fragment is being populated: those that will be.
    valid: [u64; 4],
    /// The logical fragment; in a free descriptor, the next free slot.
    pub fragment: u32,
    /// Bits 0–1: [`FREE`], [`POPULATING`] or [`MAPPED`]; above them: the number of its population.
    word: u32,
}

impl Descriptor {
    pub(crate) fn free(next: u32) -> Self {
        Self { valid: [0; 4], fragment: next, word: FREE }
    }

    /// Being populated by the population of this number, of which the lower 30 bits are kept.
    pub(super) fn populating(fragment: FragmentId, pages: u32, number: u64) -> Self {
        let word = (number as u32) << 2 | POPULATING;
        let mut descriptor = Self { valid: [0; 4], fragment: fragment.0, word };
        (0..pages).for_each(|offset| descriptor.set_bit(offset));
        descriptor
    }

    /// [`FREE`], [`POPULATING`] or [`MAPPED`].
    pub(crate) fn state(&self) -> u32 {
        self.word & 3
    }

    /// The population is complete.
    pub(super) fn is_mapped(&mut self) {
        self.word = self.word & !3 | MAPPED;
    }

    /// The number of its population.
    pub(super) fn population(&self) -> u32 {
        self.word >> 2
    }

    pub(super) fn has(&self, offset: u32) -> bool {
        self.valid[(offset / 64) as usize] >> (offset % 64) & 1 == 1
    }

    pub(super) fn set_bit(&mut self, offset: u32) {
        self.valid[(offset / 64) as usize] |= 1 << (offset % 64);
    }

    pub(super) fn clear_bit(&mut self, offset: u32) {
        self.valid[(offset / 64) as usize] &= !(1 << (offset % 64));
    }

    /// Whether bits from `pages` on are all clear.
    pub(super) fn fits(&self, pages: u32) -> bool {
        (pages..FRAGMENT_PAGES_MAX).all(|offset| !self.has(offset))
    }
}

/// The map entry of a fragment of the volume.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Logical {
    /// Its slot, [`UNMAPPED`] or [`RECENT`].
    pub slot: u32,
    /// Bits 0–15: heat; 16–23: number of the last cooling applied; 24–31: writes under way.
    word: u32,
}

impl Logical {
    pub(crate) fn writes(&self) -> u32 {
        self.word >> 24
    }

    pub(super) fn set_writes(&mut self, writes: u32) {
        self.word = self.word & 0x00ff_ffff | writes << 24;
    }

    /// Its heat after `coolings` (modulo 256) coolings, each of which halves it.
    pub(crate) fn heat(&self, coolings: u8) -> u32 {
        let halvings = coolings.wrapping_sub((self.word >> 16) as u8);
        (self.word & 0xffff).checked_shr(halvings.into()).unwrap_or(0)
    }

    pub(crate) fn set_heat(&mut self, heat: u32, coolings: u8) {
        self.word = self.word & 0xff00_0000 | u32::from(coolings) << 16 | heat.min(0xffff);
    }

    pub(super) fn unmap(&mut self) {
        self.slot = UNMAPPED;
    }
}

/// All scalars.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Header {
    magic: u64,
    /// Hash of all decisions, in order.
    pub decisions: u64,
    /// Populations begun.
    pub populations: u64,
    /// Populations that replaced another fragment.
    pub evictions: u64,
    pub volume: u32,
    pub volume_pages: u32,
    pub slots: u32,
    pub fragment_pages: u32,
    pub workers: u32,
    pub pace_permille: u32,
    pub recent: u32,
    /// First free slot; [`NONE`]: none.
    pub free_first: u32,
    pub mapped: u32,
    pub populating: u32,
    /// Next entry of `recent` to overwrite.
    pub recent_next: u32,
    /// Where the search for a cold fragment continues.
    pub hand: u32,
    /// Reads since the last cooling.
    pub reads: u32,
    /// Number of coolings.
    pub coolings: u32,
    /// Running hit rate, in 2^-16.
    pub hit_rate: u32,
    /// Credit for populations; one costs `crate::policy::sce::PRICE`.
    pub credit: u32,
}

/// A cache of fragments, attached to its region.
pub struct Fragments<'r> {
    pub(crate) head: &'r mut Header,
    pub(crate) descriptors: &'r mut [Descriptor],
    pub(crate) map: &'r mut [Logical],
    pub(crate) recent: &'r mut [u32],
}

/// The sections of the region of such a cache.
pub fn fragment_sections(config: &FragmentConfig) -> [Section; 4] {
    let section = |name, entries: u32, entry_bytes| Section { name, entries: entries as usize, entry_bytes };
    [
        section("header", 1, size_of::<Header>()),
        section("descriptors", config.slots, size_of::<Descriptor>()),
        section("map of the volume", config.fragments(), size_of::<Logical>()),
        section("recently read", config.recent, size_of::<u32>()),
    ]
}

/// Bytes of DRAM for each fragment on flash, and for each fragment of the volume.
pub const FRAGMENT_BYTES: (usize, usize) = (size_of::<Descriptor>(), size_of::<Logical>());
const _: () = assert!(FRAGMENT_BYTES.0 + 4 * FRAGMENT_BYTES.1 <= 76, "docs/DESIGN.md §3");

/// Bytes of the region of such a cache.
pub fn fragment_region_bytes(config: &FragmentConfig) -> usize {
    fragment_sections(config).iter().map(|s| s.entries * s.entry_bytes).sum::<usize>().next_multiple_of(8)
}

impl<'r> Fragments<'r> {
    /// Makes an empty cache in `region`, which is aligned to 8 bytes and [`fragment_region_bytes`] long.
    ///
    /// # Errors
    /// [`FragmentConfigError`] names the setting or size that does not fit.
    pub fn format(region: &'r mut [u8], config: &FragmentConfig) -> Result<Self, FragmentConfigError> {
        config.validate()?;
        let expected = fragment_region_bytes(config);
        if region.len() != expected {
            return Err(FragmentConfigError::RegionSize { expected, found: region.len() });
        }
        region.fill(0);
        let (head, _) = Header::mut_from_prefix(region).map_err(|_| FragmentConfigError::Alignment)?;
        head.magic = MAGIC;
        head.volume = config.volume;
        head.volume_pages = config.volume_pages;
        head.slots = config.slots;
        head.fragment_pages = config.fragment_pages;
        head.workers = config.workers;
        head.pace_permille = config.pace_permille;
        head.recent = config.recent;
        let cache = Self::attach(region)?;
        for (slot, descriptor) in (1..).zip(cache.descriptors.iter_mut()) {
            *descriptor = Descriptor::free(if slot < config.slots { slot } else { NONE });
        }
        cache.map.iter_mut().for_each(Logical::unmap);
        cache.recent.fill(NONE);
        Ok(cache)
    }

    /// Attaches to a cache made by [`Fragments::format`], at whatever address.
    ///
    /// # Errors
    /// [`FragmentConfigError`] if the region does not hold one.
    pub fn attach(region: &'r mut [u8]) -> Result<Self, FragmentConfigError> {
        let found = region.len();
        if !region.as_ptr().addr().is_multiple_of(8) {
            return Err(FragmentConfigError::Alignment);
        }
        let short = FragmentConfigError::RegionSize { expected: size_of::<Header>(), found };
        let (head, rest) = Header::mut_from_prefix(region).map_err(|_| short)?;
        if head.magic != MAGIC {
            return Err(FragmentConfigError::Magic { expected: MAGIC, found: head.magic });
        }
        let config = head.config();
        config.validate()?;
        let expected = fragment_region_bytes(&config);
        let wrong = FragmentConfigError::RegionSize { expected, found };
        if found != expected {
            return Err(wrong);
        }
        let (descriptors, rest) =
            <[Descriptor]>::mut_from_prefix_with_elems(rest, config.slots as usize).map_err(|_| wrong)?;
        let (map, rest) =
            <[Logical]>::mut_from_prefix_with_elems(rest, config.fragments() as usize).map_err(|_| wrong)?;
        let (recent, _) =
            <[u32]>::mut_from_prefix_with_elems(rest, config.recent as usize).map_err(|_| wrong)?;
        Ok(Self { head, descriptors, map, recent })
    }

    /// The configuration from which the cache was made.
    pub fn config(&self) -> FragmentConfig {
        self.head.config()
    }

    /// The fragment of `page`, and the page's offset in it.
    pub(crate) fn place_of(&self, page: PageId) -> (FragmentId, u32) {
        let number = page.number();
        assert!(number < self.head.volume_pages, "page {page} lies beyond the volume");
        debug_assert_eq!(page.object(), self.head.volume, "page {page} is of another volume");
        (FragmentId(number / self.head.fragment_pages), number % self.head.fragment_pages)
    }

    /// The copy of the page at `offset` of the fragment in `slot`.
    pub(super) fn copy_of(&self, slot: u32, offset: u32) -> FlashCopy {
        let population = self.descriptors[slot as usize].population();
        FlashCopy { slot: self.slot_of(slot, offset), population }
    }

    /// The slot of the page at `offset` of the fragment in `slot`.
    pub(crate) fn slot_of(&self, slot: u32, offset: u32) -> SlotId {
        SlotId(slot * self.head.fragment_pages + offset)
    }

    /// Pages of a fragment. The last one may have fewer.
    pub(crate) fn pages_of(&self, fragment: FragmentId) -> u32 {
        let first = fragment.0 * self.head.fragment_pages;
        self.head.fragment_pages.min(self.head.volume_pages - first)
    }
}

impl Header {
    fn config(&self) -> FragmentConfig {
        FragmentConfig {
            volume: self.volume,
            volume_pages: self.volume_pages,
            slots: self.slots,
            fragment_pages: self.fragment_pages,
            workers: self.workers,
            pace_permille: self.pace_permille,
            recent: self.recent,
        }
    }
}
