//! Where everything lies on a flash device.
//!
//! ```text
//!   0         64 KiB                  1 MiB boundary
//!   │ 4 super- │ log: ring of segments │ log placement: groups, each its pages and one summary block
//!   │ blocks   │ slots: directory      │ slot placement: slots
//! ```

use crate::block::BLOCK_BYTES;
use crate::segment::ENTRY_BYTES;
use crate::slots::BLOCK_ENTRIES;
use crate::temperatures;
use entresol_core::{Config, Directory, PageId, Placement, Position, SlotId};

/// Where the segment ring starts.
const SEGMENTS_AT: u64 = 64 << 10;
/// The slot area starts at a multiple of this.
const AREA_ALIGNMENT: u64 = 1 << 20;
const BLOCK: u64 = BLOCK_BYTES as u64;

/// Whether pages may have this size: a power of two, 4 KiB to 32 KiB.
pub const fn page_bytes_possible(page_bytes: u32) -> bool {
    page_bytes.is_power_of_two() && page_bytes >= 4 << 10 && page_bytes <= 32 << 10
}

/// Byte offset of `page` on a disk with pages of `page_bytes`. Absurd pages come out at absurd offsets, which
/// the device refuses.
pub fn disk_offset(page: PageId, page_bytes: u32) -> u64 {
    page.0.saturating_mul(page_bytes.into()).saturating_add(crate::label::LABEL_AREA_BYTES)
}

/// Byte offset of a page of a cache of fragments (SCE), which has nothing else on its device.
pub const fn fragment_page_offset(slot: SlotId, page_bytes: u32) -> u64 {
    AREA_ALIGNMENT + slot.0 as u64 * page_bytes as u64
}

/// Geometry of a cache on its device. All offsets and lengths in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    placement: Placement,
    /// Blocks of the slot directory.
    directory: u64,
    /// Blocks of one copy of the temperatures.
    temperatures: u64,
    slots: u32,
    group_pages: u32,
    page_bytes: u32,
    segment_entries: u32,
    area: u64,
}

impl Layout {
    /// Bytes of a page.
    pub const fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    /// The layout of a partition with pages of `page_bytes` and segments of `segment_entries`.
    pub fn new(config: &Config, page_bytes: u32, segment_entries: u32) -> Self {
        let mut layout = Self {
            placement: config.policy.placement(),
            directory: match config.policy.directory() {
                Directory::Slots | Directory::AtShutdown => config.slots.div_ceil(BLOCK_ENTRIES).into(),
                Directory::Log | Directory::None => 0,
            },
            temperatures: if config.policy.facts().keeps_temperatures {
                1 + (u64::from(config.slots) * 4).div_ceil(BLOCK)
            } else {
                0
            },
            slots: config.slots,
            group_pages: config.group_pages,
            page_bytes,
            segment_entries,
            area: 0,
        };
        let segments = layout.segment_places() * layout.segment_bytes();
        let directory = (layout.directory + temperatures::COPIES * layout.temperatures) * BLOCK;
        layout.area = (SEGMENTS_AT + segments + directory).next_multiple_of(AREA_ALIGNMENT);
        layout
    }

    /// How large the device must be.
    pub fn device_bytes(&self) -> u64 {
        match self.placement {
            Placement::Log => self.area + self.groups() * self.group_bytes(),
            Placement::Slots => self.area + u64::from(self.slots) * u64::from(self.page_bytes),
        }
    }

    /// Groups on flash.
    pub fn groups(&self) -> u64 {
        u64::from(self.slots / self.group_pages)
    }

    /// Length of a group: its pages and its summary.
    pub fn group_bytes(&self) -> u64 {
        u64::from(self.group_pages) * u64::from(self.page_bytes) + BLOCK
    }

    /// Offset of the pages of `group`, counted from the first ever.
    pub fn group_offset(&self, group: u64) -> u64 {
        self.area + group % self.groups() * self.group_bytes()
    }

    /// Offset of the summary of `group`, counted from the first ever.
    pub fn summary_offset(&self, group: u64) -> u64 {
        self.group_offset(group) + self.group_bytes() - BLOCK
    }

    /// Offset of the page in `slot`.
    pub fn slot_offset(&self, slot: SlotId) -> u64 {
        let page_bytes = u64::from(self.page_bytes);
        match self.placement {
            Placement::Log => {
                let (group, at) = (slot.0 / self.group_pages, slot.0 % self.group_pages);
                self.area + u64::from(group) * self.group_bytes() + u64::from(at) * page_bytes
            }
            Placement::Slots => self.area + u64::from(slot.0) * page_bytes,
        }
    }

    /// The slot of `position` (log placement).
    pub fn slot(&self, position: Position) -> SlotId {
        SlotId((position.0 % u64::from(self.slots)) as u32)
    }

    /// Places in the ring of directory segments: as many segments as may overlap the slots, and one being
    /// written.
    pub fn segment_places(&self) -> u64 {
        match self.placement {
            Placement::Log => u64::from(self.slots.div_ceil(self.segment_entries)) + 2,
            Placement::Slots => 0,
        }
    }

    /// Length of the entries of a segment, in whole blocks.
    pub fn segment_entries_bytes(&self) -> u64 {
        (u64::from(self.segment_entries) * ENTRY_BYTES as u64).next_multiple_of(BLOCK)
    }

    /// Length of a segment: its header and its entries.
    pub fn segment_bytes(&self) -> u64 {
        BLOCK + self.segment_entries_bytes()
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
        SEGMENTS_AT + (self.directory + nth % temperatures::COPIES * self.temperatures) * BLOCK
    }

    /// Offset of `segment`, counted from the first ever.
    pub fn segment_offset(&self, segment: u64) -> u64 {
        SEGMENTS_AT + segment % self.segment_places().max(1) * self.segment_bytes()
    }
}
