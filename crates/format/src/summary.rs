//! The summary of a group: a list of its pages, and of pages elsewhere that are stale. It is one block, and
//! there are two of it: one directly before the group's pages and one directly after them, so that both and
//! the pages are one sequential write. Either is enough (docs/FORMAT.md has the tables).
//!
//! Entry `i` of group `g` describes position `g × group pages + i`.
//!
//! A group that is not full may be flushed, more than once. Each flush writes a *part* of the group, the
//! pages since the last flush, and one of the two blocks: that which the last flush did not write.
//! Invariants:
//! - Both blocks are never overwritten between two syncs, so one of them is whole after any crash.
//! - A block lists the ends of all parts so far, and how many entries were durable before it was written.
//!
//! In format version 1 a group has one summary, after its pages, no parts, and lists stale pages one by one.

use crate::base::{self, StoredBase};
use crate::block::{self, BLOCK_BYTES, BlockFault, BlockHeader, Uuid};
use crate::owners_log::{LOG_POSITION_BYTES, LogPosition, RawLogPosition};
use crate::stale::{RawStale, STALE_BYTES};
use entresol_core::{Forgotten, GROUP_PAGES_MAX, Lsn, PageId, Position};
use zerocopy::little_endian::{U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Magic of a summary.
pub const MAGIC: [u8; 8] = *b"ENTRGRUP";

/// Copies of a group's summary: before its pages and after them.
pub const COPIES: u64 = 2;

const PRESENT: u32 = 1;
const DIRTY: u32 = 2;
const BASED: u32 = 4;

/// The fixed part as stored.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawSummary {
    pub(crate) header: BlockHeader,
    pub(crate) cache: Uuid,
    pub(crate) epoch: U64,
    pub(crate) durable: U64,
    pub(crate) front: U64,
    pub(crate) entries: U32,
    pub(crate) stale: U32,
    pub(crate) ends: U128,
    pub(crate) written: U32,
    pub(crate) flushed: U32,
    pub(crate) revision: U64,
}

/// The fixed part as stored in format version 1: the first fields of [`RawSummary`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawSummaryV1 {
    header: BlockHeader,
    cache: Uuid,
    epoch: U64,
    durable: U64,
    front: U64,
    entries: U32,
    invalidations: U32,
}

/// An entry as stored.
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
const _: () = assert!(FIXED == 112 && ENTRY == 24 && FIXED + ENTRY * GROUP_PAGES_MAX <= BLOCK_BYTES);

/// Where the position in the owner's log is: at the end of the block.
const LOG_AT: usize = BLOCK_BYTES - LOG_POSITION_BYTES;

/// Most records of forgotten pages that fit into the summary of a group of `group_pages` pages.
pub const fn stale_max(group_pages: u32) -> usize {
    (LOG_AT - FIXED - ENTRY * group_pages as usize) / STALE_BYTES
}

/// The fixed part of a summary, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Version of the format.
    pub version: u32,
    /// Number of the group, counted from the first ever.
    pub group: u64,
    /// The cache it belongs to.
    pub cache: Uuid,
    /// The epoch in which it was written.
    pub epoch: u64,
    /// All positions below this one were durable when the summary was written.
    pub durable: Position,
    /// All positions below this one were released when the summary was written.
    pub front: Position,
    /// Bit `i`: a part ends with entry `i`.
    pub ends: u128,
    /// Entries before this place are written: the end of the last part.
    pub written: u32,
    /// Entries before this place were durable when the summary was written.
    pub flushed: u32,
    /// Of the two summaries of a group, the one with the greater number counts.
    pub revision: u64,
    /// How far the owner's log was, at least: the group's pages depend on no record after it.
    pub log: LogPosition,
}

impl Head {
    /// The parts that were not durable when the summary was written, in order: places of their entries.
    pub fn unsure_parts(&self) -> impl Iterator<Item = std::ops::Range<u32>> + use<> {
        let Self { ends, written, flushed, .. } = *self;
        let is_end = move |place: &u32| *place == written || ends >> (place - 1) & 1 == 1;
        (flushed + 1..=written)
            .filter(is_end)
            .scan(flushed, |from, end| Some(std::mem::replace(from, end)..end))
    }
}

/// A page of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The page.
    pub page: PageId,
    /// LSN of its newest change.
    pub lsn: Lsn,
    /// Its checksum, as in its header.
    pub checksum: u32,
    /// Newer than disk.
    pub dirty: bool,
    /// Its base, if it is dirty and the cache keeps bases.
    pub base: Option<StoredBase>,
}

/// Writes a summary into `block`, [`BLOCK_BYTES`] long. `entries` yields one for each position of the group,
/// `None` for padding and for pages that are not written yet.
///
/// # Panics
/// If there are more entries than [`GROUP_PAGES_MAX`], or more records than [`stale_max`] (format version 1:
/// any record).
pub fn encode(
    block: &mut [u8],
    head: &Head,
    entries: impl ExactSizeIterator<Item = Option<Entry>>,
    stale: &[Forgotten],
) {
    assert!(entries.len() <= GROUP_PAGES_MAX, "a group has at most {GROUP_PAGES_MAX} pages");
    assert!(head.version > 1 || stale.is_empty(), "format version 1 has no records of forgotten pages");
    let raw = RawSummary {
        header: BlockHeader::default(),
        cache: head.cache,
        epoch: U64::new(head.epoch),
        durable: U64::new(head.durable.0),
        front: U64::new(head.front.0),
        entries: U32::new(entries.len() as u32),
        stale: U32::new(stale.len() as u32),
        ends: U128::new(head.ends),
        written: U32::new(head.written),
        flushed: U32::new(head.flushed),
        revision: U64::new(head.revision),
    };
    let fixed = if head.version == 1 { size_of::<RawSummaryV1>() } else { FIXED };
    block.fill(0);
    block[..fixed].copy_from_slice(&raw.as_bytes()[..fixed]);
    let mut at = fixed;
    for entry in entries {
        if let Some(entry) = entry {
            let raw = RawEntry {
                page: U64::new(entry.page.0),
                lsn: U64::new(entry.lsn.0),
                checksum: U32::new(entry.checksum),
                flags: U32::new(
                    PRESENT | if entry.dirty { DIRTY } else { 0 } | base::flags(entry.base, BASED),
                ),
            };
            block[at..at + ENTRY].copy_from_slice(raw.as_bytes());
        }
        at += ENTRY;
    }
    for record in stale {
        block[at..at + STALE_BYTES].copy_from_slice(RawStale::of(record).as_bytes());
        at += STALE_BYTES;
    }
    if head.version > 1 {
        block[LOG_AT..].copy_from_slice(RawLogPosition::of(head.log).as_bytes());
    }
    block::seal_as(head.version, block, MAGIC, head.group);
}

/// A summary that was proved whole, undamaged and with possible values.
#[derive(Clone, Copy, Debug)]
pub struct Summary<'a> {
    /// The fixed part.
    pub head: Head,
    entries: &'a [RawEntry],
    stale: RawStales<'a>,
}

/// Stale pages, by the version of the format.
#[derive(Clone, Copy, Debug)]
enum RawStales<'a> {
    Pages(&'a [U64]),
    Records(&'a [RawStale]),
}

impl<'a> Summary<'a> {
    /// Reads a summary of a group of `group_pages` pages.
    pub fn decode(block: &'a [u8], group_pages: u32) -> Result<Self, BlockFault> {
        let header = block::open(block, MAGIC)?;
        if block.len() != BLOCK_BYTES {
            return Err(BlockFault::Length { expected: BLOCK_BYTES as u32, found: block.len() as u32 });
        }
        let impossible = |field, found: u64| Err(BlockFault::Field { field, found });
        let (raw, rest) =
            RawSummaryV1::ref_from_prefix(block).expect("a block is longer than a summary's fixed part");
        let version = header.version.get();
        let (ends, written, flushed, revision, rest) = if version == 1 {
            (0, group_pages, 0, 0, rest)
        } else {
            let (raw, rest) =
                RawSummary::ref_from_prefix(block).expect("a block is longer than a summary's fixed part");
            (raw.ends.get(), raw.written.get(), raw.flushed.get(), raw.revision.get(), rest)
        };
        if raw.entries.get() != group_pages || group_pages as usize > GROUP_PAGES_MAX {
            return impossible("entries", raw.entries.get().into());
        }
        let Ok((entries, rest)) = <[RawEntry]>::ref_from_prefix_with_elems(rest, group_pages as usize) else {
            return impossible("entries", group_pages.into());
        };
        let count = raw.invalidations.get();
        let count_of = count as usize;
        let stale = if version == 1 {
            <[U64]>::ref_from_prefix_with_elems(rest, count_of).ok().map(|(all, _)| RawStales::Pages(all))
        } else {
            let records = <[RawStale]>::ref_from_prefix_with_elems(rest, count_of).ok();
            let possible = records.filter(|(all, _)| all.iter().all(|record| record.read().is_some()));
            possible.map(|(all, _)| RawStales::Records(all))
        };
        let Some(stale) = stale else { return impossible("stale", count.into()) };
        // A summary from before there was a position may have a record there.
        let has_log = version > 1 && count_of <= stale_max(group_pages);
        let log =
            RawLogPosition::read_from_bytes(&block[LOG_AT..]).expect("a block has these bytes at its end");
        let head = Head {
            log: if has_log { log.read() } else { LogPosition::default() },
            version,
            group: header.sequence.get(),
            cache: raw.cache,
            epoch: raw.epoch.get(),
            durable: Position(raw.durable.get()),
            front: Position(raw.front.get()),
            ends,
            written,
            flushed,
            revision,
        };
        if written > group_pages || flushed > written {
            return impossible("written", written.into());
        }
        Ok(Self { head, entries, stale })
    }

    /// The entry at place `at` of the group. `None`: padding.
    pub fn entry(&self, at: usize) -> Option<Entry> {
        let raw = self.entries.get(at)?;
        (raw.flags.get() & PRESENT != 0).then(|| Entry {
            page: PageId(raw.page.get()),
            lsn: Lsn(raw.lsn.get()),
            checksum: raw.checksum.get(),
            dirty: raw.flags.get() & DIRTY != 0,
            base: base::of_flags(raw.flags.get(), BASED),
        })
    }

    /// All entries, in order.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = Option<Entry>> + use<'a> {
        let this = *self;
        (0..this.entries.len()).map(move |at| this.entry(at))
    }

    /// Pages whose older copies are stale.
    pub fn stale(&self) -> impl Iterator<Item = Forgotten> + use<'a> {
        let (pages, records): (&[U64], &[RawStale]) = match self.stale {
            RawStales::Pages(pages) => (pages, &[]),
            RawStales::Records(records) => (&[], records),
        };
        let below = Position(self.head.group.saturating_mul(self.entries.len() as u64));
        let one = move |page: &U64| {
            let page = PageId(page.get());
            Forgotten { first: page, last: page, below, after: 0 }
        };
        pages.iter().map(one).chain(records.iter().filter_map(RawStale::read))
    }
}
