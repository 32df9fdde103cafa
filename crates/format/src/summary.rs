//! The summary of a group: what lies in it. One block, right behind the group's pages, so that pages and
//! summary are one sequential write (docs/FORMAT.md has the tables).
//!
//! Entry `i` of group `g` describes position `g × group pages + i`.

use crate::block::{self, BLOCK_BYTES, BlockFault, BlockHeader, Uuid};
use entresol_core::{GROUP_PAGES_MAX, Lsn, PageId, Position, mutant};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Magic of a summary.
pub const MAGIC: [u8; 8] = *b"ENTRGRUP";

const PRESENT: u32 = 1;
const DIRTY: u32 = 2;

/// The fixed part as it lies there.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawSummary {
    pub(crate) header: BlockHeader,
    pub(crate) cache: Uuid,
    pub(crate) epoch: U64,
    pub(crate) durable: U64,
    pub(crate) front: U64,
    pub(crate) entries: U32,
    pub(crate) invalidations: U32,
}

/// An entry as it lies there.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawEntry {
    pub(crate) page: U64,
    pub(crate) lsn: U64,
    pub(crate) checksum: U32,
    pub(crate) flags: U32,
}

const FIXED: usize = size_of::<RawSummary>();
const ENTRY: usize = size_of::<RawEntry>();
const _: () = assert!(FIXED == 80 && ENTRY == 24 && FIXED + ENTRY * GROUP_PAGES_MAX <= BLOCK_BYTES);

/// Most invalidations that the summary of a group of `group_pages` pages has room for.
pub const fn invalidations_max(group_pages: u32) -> usize {
    (BLOCK_BYTES - FIXED - ENTRY * group_pages as usize) / 8
}

/// The fixed part of a summary, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Number of the group, counted from the first ever.
    pub group: u64,
    /// The cache it belongs to.
    pub cache: Uuid,
    /// The epoch it was written in.
    pub epoch: u64,
    /// All positions below were durable when this was written.
    pub durable: Position,
    /// All positions below were dequeued for good when this was written.
    pub front: Position,
}

/// A page of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Which page.
    pub page: PageId,
    /// LSN of its newest change.
    pub lsn: Lsn,
    /// Its checksum, as in its header.
    pub checksum: u32,
    /// Newer than disk.
    pub dirty: bool,
}

/// Writes a summary into `block`, [`BLOCK_BYTES`] long. `entries` yields one for each position of the group,
/// `None` where it was closed early.
///
/// # Panics
/// If there are more entries than [`GROUP_PAGES_MAX`], or more invalidations than [`invalidations_max`].
pub fn encode(
    block: &mut [u8],
    head: &Head,
    entries: impl ExactSizeIterator<Item = Option<Entry>>,
    invalidations: &[PageId],
) {
    assert!(entries.len() <= GROUP_PAGES_MAX, "a group has at most {GROUP_PAGES_MAX} pages");
    let raw = RawSummary {
        header: BlockHeader::default(),
        cache: head.cache,
        epoch: U64::new(head.epoch),
        durable: U64::new(head.durable.0),
        front: U64::new(head.front.0),
        entries: U32::new(entries.len() as u32),
        invalidations: U32::new(invalidations.len() as u32),
    };
    block.fill(0);
    block[..FIXED].copy_from_slice(raw.as_bytes());
    let mut at = FIXED;
    for entry in entries {
        if let Some(entry) = entry {
            let raw = RawEntry {
                page: U64::new(entry.page.0),
                lsn: U64::new(entry.lsn.0),
                checksum: U32::new(entry.checksum),
                flags: U32::new(
                    PRESENT | if entry.dirty && !mutant!("summary-loses-dirty") { DIRTY } else { 0 },
                ),
            };
            block[at..at + ENTRY].copy_from_slice(raw.as_bytes());
        }
        at += ENTRY;
    }
    for page in invalidations {
        block[at..at + 8].copy_from_slice(&page.0.to_le_bytes());
        at += 8;
    }
    block::seal(block, MAGIC, head.group);
}

/// A summary that was proved whole, undamaged and possible.
#[derive(Clone, Copy, Debug)]
pub struct Summary<'a> {
    /// The fixed part.
    pub head: Head,
    entries: &'a [RawEntry],
    invalidations: &'a [U64],
}

impl<'a> Summary<'a> {
    /// Reads a summary of a group of `group_pages` pages.
    pub fn decode(block: &'a [u8], group_pages: u32) -> Result<Self, BlockFault> {
        let header = block::open(block, MAGIC)?;
        if block.len() != BLOCK_BYTES {
            return Err(BlockFault::Length { expected: BLOCK_BYTES as u32, found: block.len() as u32 });
        }
        let (raw, rest) =
            RawSummary::ref_from_prefix(block).expect("a block is longer than a summary's fixed part");
        if raw.entries.get() != group_pages {
            return Err(BlockFault::Field { field: "entries", found: raw.entries.get().into() });
        }
        let Ok((entries, rest)) = <[RawEntry]>::ref_from_prefix_with_elems(rest, group_pages as usize) else {
            return Err(BlockFault::Field { field: "entries", found: group_pages.into() });
        };
        let invalidations = raw.invalidations.get();
        let Ok((invalidations, _)) = <[U64]>::ref_from_prefix_with_elems(rest, invalidations as usize) else {
            return Err(BlockFault::Field { field: "invalidations", found: invalidations.into() });
        };
        let head = Head {
            group: header.sequence.get(),
            cache: raw.cache,
            epoch: raw.epoch.get(),
            durable: Position(raw.durable.get()),
            front: Position(raw.front.get()),
        };
        Ok(Self { head, entries, invalidations })
    }

    /// The entry at place `at` of the group, if there is a page.
    pub fn entry(&self, at: usize) -> Option<Entry> {
        let raw = self.entries.get(at)?;
        (raw.flags.get() & PRESENT != 0).then(|| Entry {
            page: PageId(raw.page.get()),
            lsn: Lsn(raw.lsn.get()),
            checksum: raw.checksum.get(),
            dirty: raw.flags.get() & DIRTY != 0,
        })
    }

    /// All entries, in order.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = Option<Entry>> + use<'a> {
        let this = *self;
        (0..this.entries.len()).map(move |at| this.entry(at))
    }

    /// Pages whose copies at positions before this group are stale.
    pub fn invalidations(&self) -> impl ExactSizeIterator<Item = PageId> + use<'a> {
        self.invalidations.iter().map(|page| PageId(page.get()))
    }
}
