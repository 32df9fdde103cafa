//! The layout of a flash device.
//!
//! ```text
//!   0         64 KiB                  1 MiB boundary
//!   │ 4 super- │ log: ring of segments │ log placement: groups, each a summary, its pages, and a summary
//!   │ blocks   │ slots: directory, or  │ slot placement: slots
//!   │          │ segments (and batches)│
//! ```
//!
//! After the log's segments is the table of objects, if there is one: two copies, each of two areas for
//! snapshots and a log.
//!
//! A cache of native pages, which are identified by their headers, has no first summary of a group, and its
//! segments' entries are 12 bytes long.

use crate::batch::{PLACES_MIN, SLOTS_OF_A_PLACE};
use crate::block::BLOCK_BYTES;
use crate::page_format::PageFormat;
use crate::segment::{self, COPIES_OF_SLOTS, ENTRY_BYTES, NATIVE_ENTRY_BYTES};
use crate::slots::BLOCK_ENTRIES;
use crate::stale::STALE_BYTES;
use crate::summary;
use crate::temperatures;
use entresol_core::{Config, Directory, PageId, Placement, Position, SlotId};

/// Offset of the segment ring.
const SEGMENTS_AT: u64 = 64 << 10;
/// The slot area starts at a multiple of this.
const AREA_ALIGNMENT: u64 = 1 << 20;
const BLOCK: u64 = BLOCK_BYTES as u64;

/// Whether pages may have this size: a power of two, 4 KiB to 32 KiB.
pub const fn page_bytes_possible(page_bytes: u32) -> bool {
    page_bytes.is_power_of_two() && page_bytes >= 4 << 10 && page_bytes <= 32 << 10
}

/// Byte offset of `page` on a disk with pages of `page_bytes`. An impossible page has an offset beyond the
/// disk, which the device refuses.
pub fn disk_offset(page: PageId, page_bytes: u32) -> u64 {
    page.0.saturating_mul(page_bytes.into()).saturating_add(crate::label::LABEL_AREA_BYTES)
}

/// Byte offset of a fragment of a cache of fragments (SCE), each of which takes so many bytes on flash.
pub const fn fragment_offset(fragment: u32, fragment_bytes: u64) -> u64 {
    AREA_ALIGNMENT + fragment as u64 * fragment_bytes
}

/// Geometry of a cache on its device. All offsets and lengths in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    placement: Placement,
    /// Blocks of the slot directory.
    directory: u64,
    /// Blocks of one copy of the temperatures.
    temperatures: u64,
    /// Places for summaries of batches.
    batches: u64,
    /// Copies of a segment of slots.
    slots_copies: u64,
    slots: u32,
    group_pages: u32,
    page_bytes: u32,
    segment_entries: u32,
    /// Blocks of the table of objects.
    objects: u64,
    /// Pages do not identify themselves: their identities are in the summaries and segments.
    foreign: bool,
    area: u64,
}

impl Layout {
    /// Bytes of a page.
    pub const fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    /// The layout of a partition of which `directory` survives, with pages of `page_bytes` and segments of
    /// `segment_entries`, and with a table of objects that takes so many blocks (0: without).
    pub fn new(
        config: &Config,
        directory: Directory,
        page_format: PageFormat,
        page_bytes: u32,
        segment_entries: u32,
        objects: u64,
    ) -> Self {
        let mut layout = Self {
            placement: config.policy.placement(),
            directory: match directory {
                Directory::Slots | Directory::AtShutdown => config.slots.div_ceil(BLOCK_ENTRIES).into(),
                Directory::Log | Directory::Batches | Directory::SegmentsAtShutdown | Directory::None => 0,
            },
            temperatures: if config.policy.facts().slots().is_some_and(|slots| slots.keeps_temperatures) {
                1 + (u64::from(config.slots) * 4).div_ceil(BLOCK)
            } else {
                0
            },
            batches: match directory {
                Directory::Batches => (u64::from(config.slots) / SLOTS_OF_A_PLACE).max(PLACES_MIN),
                _ => 0,
            },
            slots_copies: match directory {
                Directory::Batches => COPIES_OF_SLOTS,
                Directory::SegmentsAtShutdown => 1,
                _ => 0,
            },
            slots: config.slots,
            group_pages: config.group_pages,
            page_bytes,
            segment_entries: match directory {
                // A small cache has one small segment.
                Directory::SegmentsAtShutdown => segment_entries.min(config.slots),
                _ => segment_entries,
            },
            objects,
            foreign: !page_format.names_itself(),
            area: 0,
        };
        let segments = layout.segment_places() * layout.segment_bytes();
        let directory = (layout.directory + temperatures::COPIES * layout.temperatures) * BLOCK;
        let directory = directory + layout.batches * BLOCK;
        layout.area = (SEGMENTS_AT + segments + directory + objects * BLOCK).next_multiple_of(AREA_ALIGNMENT);
        layout
    }

    /// The least size of the device.
    pub fn device_bytes(&self) -> u64 {
        match self.placement {
            Placement::Log => self.area + self.groups() * self.group_bytes(),
            Placement::Slots => self.area + u64::from(self.slots) * u64::from(self.page_bytes),
        }
    }

    /// Slots.
    pub const fn slots(&self) -> u32 {
        self.slots
    }

    /// Groups on flash.
    pub fn groups(&self) -> u64 {
        u64::from(self.slots / self.group_pages)
    }

    /// Copies of a group's summary.
    pub const fn summary_copies(&self) -> u64 {
        if self.foreign { summary::COPIES } else { 1 }
    }

    /// Bytes of a group before its pages.
    fn before_pages(&self) -> u64 {
        (self.summary_copies() - 1) * BLOCK
    }

    /// Length of a group: its pages and its summaries.
    pub fn group_bytes(&self) -> u64 {
        u64::from(self.group_pages) * u64::from(self.page_bytes) + self.summary_copies() * BLOCK
    }

    /// Offset of the area of groups, or of slots.
    pub const fn area_offset(&self) -> u64 {
        self.area
    }

    /// Offset of `group`, counted from the first ever: of its first summary.
    pub fn group_offset(&self, group: u64) -> u64 {
        self.area + group % self.groups() * self.group_bytes()
    }

    /// Offset of the pages of `group`, counted from the first ever.
    pub fn pages_offset(&self, group: u64) -> u64 {
        self.group_offset(group) + self.before_pages()
    }

    /// Offset of a copy of the summary of `group`, counted from the first ever. The last copy is after the
    /// pages, the one before it is before them.
    pub fn summary_offset(&self, group: u64, copy: u64) -> u64 {
        let after = self.group_offset(group) + self.group_bytes() - BLOCK;
        if copy + 1 == self.summary_copies() { after } else { self.group_offset(group) }
    }

    /// Offset of the page in `slot`.
    pub fn slot_offset(&self, slot: SlotId) -> u64 {
        let page_bytes = u64::from(self.page_bytes);
        match self.placement {
            Placement::Log => {
                let (group, at) = (slot.0 / self.group_pages, slot.0 % self.group_pages);
                self.pages_offset(group.into()) + u64::from(at) * page_bytes
            }
            Placement::Slots => self.area + u64::from(slot.0) * page_bytes,
        }
    }

    /// The slot of `position` (log placement).
    pub fn slot(&self, position: Position) -> SlotId {
        SlotId((position.0 % u64::from(self.slots)) as u32)
    }

    /// Places in the ring of directory segments: the number of segments that may overlap the slots, and one
    /// for the segment being written.
    pub fn segment_places(&self) -> u64 {
        match self.placement {
            Placement::Log => u64::from(self.slots.div_ceil(self.segment_entries)) + 2,
            Placement::Slots => self.segments_of_slots() * self.slots_copies,
        }
    }

    /// Directory segments of slots that survive.
    pub fn segments_of_slots(&self) -> u64 {
        if self.slots_copies == 0 { 0 } else { u64::from(self.slots.div_ceil(self.segment_entries)) }
    }

    /// Entries of a segment.
    pub const fn segment_entries(&self) -> u32 {
        self.segment_entries
    }

    /// Offset of a copy of a segment of slots.
    pub fn slots_segment_offset(&self, segment: u64, copy: u64) -> u64 {
        SEGMENTS_AT + (segment * self.slots_copies + copy) * self.segment_bytes()
    }

    /// Places in the ring of summaries of batches; 0 if slots do not survive.
    pub const fn batch_places(&self) -> u64 {
        self.batches
    }

    /// Offset of the summary of batch `number`, counted from the first ever.
    pub fn batch_offset(&self, number: u64) -> u64 {
        let segments = self.segment_places() * self.segment_bytes();
        SEGMENTS_AT + segments + number % self.batches.max(1) * BLOCK
    }

    /// Bytes of a segment's entry.
    pub const fn segment_entry_bytes(&self) -> usize {
        if self.foreign { ENTRY_BYTES } else { NATIVE_ENTRY_BYTES }
    }

    /// Records of forgotten pages for which a segment has room.
    pub const fn segment_stale_max(&self) -> usize {
        if self.foreign && self.slots_copies == 0 { segment::stale_max(self.segment_entries) } else { 0 }
    }

    /// Length of a segment, in whole blocks: its header, its entries and its records of forgotten pages.
    pub fn segment_bytes(&self) -> u64 {
        let entries = u64::from(self.segment_entries) * self.segment_entry_bytes() as u64;
        let stale = self.segment_stale_max() as u64 * STALE_BYTES as u64;
        BLOCK + (entries + stale).next_multiple_of(BLOCK)
    }

    /// Blocks of the table of objects; 0 if there is none.
    pub const fn objects_blocks(&self) -> u64 {
        self.objects
    }

    /// Offset of the table of objects (log placement).
    pub fn objects_offset(&self) -> u64 {
        SEGMENTS_AT + self.segment_places() * self.segment_bytes()
    }

    /// Blocks of the slot directory; 0 if there is none.
    pub fn directory_blocks(&self) -> u64 {
        self.directory
    }

    /// Offset of a block of the slot directory.
    pub fn directory_offset(&self, block: u64) -> u64 {
        SEGMENTS_AT + block * BLOCK
    }

    /// Length of a copy of the temperatures, its header included; 0 if there are none.
    pub fn temperatures_bytes(&self) -> u64 {
        self.temperatures * BLOCK
    }

    /// Offset of the `nth` copy of the temperatures, counted from the first ever.
    pub fn temperatures_offset(&self, nth: u64) -> u64 {
        let before = self.segment_places() * self.segment_bytes() + self.directory * BLOCK;
        SEGMENTS_AT + before + nth % temperatures::COPIES * self.temperatures * BLOCK
    }

    /// Offset of `segment`, counted from the first ever.
    pub fn segment_offset(&self, segment: u64) -> u64 {
        SEGMENTS_AT + segment % self.segment_places().max(1) * self.segment_bytes()
    }
}
