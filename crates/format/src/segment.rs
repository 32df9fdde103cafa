//! A directory segment (FaCE §4.1): the entries of a fixed number of consecutive positions (64,000 as in the
//! paper). It is written in the background when the last of these is durable, while new entries are added
//! after it (docs/FORMAT.md has the tables).
//!
//! Where slots survive, segment `k` describes the slots from `k × entries` on, and has two places; where they
//! survive a shutdown only, one.
//!
//! Entry `i` of segment `k` describes position `k × entries + i`. Segment `k` is at place `k mod places` of a
//! ring. The entries are followed by the records of forgotten pages that the summaries of its groups name,
//! because recovery reads no summaries of groups that a segment covers. If they are more than fit, the header
//! says so.

use crate::base::{self, StoredBase};
use crate::block::{self, BLOCK_BYTES, BlockFault, BlockHeader, Uuid};
use entresol_core::{BATCHES_MAX, DurableBatches, PageId, SlotView};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Magic of a segment header.
pub const MAGIC: [u8; 8] = *b"ENTRSEGM";
/// Bytes of an entry.
pub const ENTRY_BYTES: usize = size_of::<RawEntry>();
/// Bytes of an entry of a cache of native pages: one without the proof.
pub const NATIVE_ENTRY_BYTES: usize = 12;

const PRESENT: u32 = 1;
const VALID: u32 = 2;
const DIRTY: u32 = 4;
const BASED: u32 = 8;

/// Header: there are more records of forgotten pages than fit.
const STALE_INCOMPLETE: u32 = 1;

/// Records of forgotten pages for which a segment of `entries` has room.
pub const fn stale_max(entries: u32) -> usize {
    entries as usize / 16 + 4
}

/// The header as stored.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawHeader {
    pub(crate) header: BlockHeader,
    pub(crate) cache: Uuid,
    pub(crate) entries: U32,
    pub(crate) checksum: U32,
    pub(crate) stale: U32,
    pub(crate) flags: U32,
    pub(crate) since: U64,
    pub(crate) from: U64,
    pub(crate) below: U64,
    pub(crate) under_way: [U64; BATCHES_MAX],
    pub(crate) zero: [u8; 3944],
}

/// An entry as stored.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawEntry {
    pub(crate) page: U64,
    pub(crate) flags: U32,
    pub(crate) proof: U32,
}

/// Where the second byte of an entry's flags is: of a slot, the low byte of a stamp.
const GENERATION_AT: usize = 9;

const _: () = assert!(size_of::<RawHeader>() == BLOCK_BYTES && ENTRY_BYTES == 16);

/// A segment's header, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Number of the segment, counted from the first ever.
    pub segment: u64,
    /// The cache it belongs to.
    pub cache: Uuid,
    /// Entries.
    pub entries: u32,
    /// CRC32C of the bytes of entries and records of forgotten pages.
    pub checksum: u32,
    /// Records of forgotten pages.
    pub stale: u32,
    /// There are more records of forgotten pages than fit: the summaries name them all.
    pub stale_incomplete: bool,
    /// Of slots: what batches below this number say is in the segment, or the epoch whose shutdown has
    /// written it. Of a log: 0.
    pub since: u64,
    /// Of slots: no other batches show in the segment. Of a log: none.
    pub durable: DurableBatches,
}

impl Head {
    /// Writes it into `block`, [`BLOCK_BYTES`] long.
    pub fn encode(&self, block: &mut [u8]) {
        self.encode_as(MAGIC, block);
    }

    /// Writes it as the header of another structure of the same form.
    pub(crate) fn encode_as(&self, magic: [u8; 8], block: &mut [u8]) {
        let mut raw = RawHeader::new_zeroed();
        raw.cache = self.cache;
        raw.entries.set(self.entries);
        raw.checksum.set(self.checksum);
        raw.stale.set(self.stale);
        raw.flags.set(if self.stale_incomplete { STALE_INCOMPLETE } else { 0 });
        raw.since.set(self.since);
        raw.from.set(self.durable.from);
        raw.below.set(self.durable.below);
        raw.under_way = self.durable.under_way.map(U64::new);
        block.copy_from_slice(raw.as_bytes());
        block::seal(block, magic, self.segment);
    }

    /// Reads one back.
    pub fn decode(block: &[u8]) -> Result<Self, BlockFault> {
        Self::decode_as(MAGIC, block)
    }

    pub(crate) fn decode_as(magic: [u8; 8], block: &[u8]) -> Result<Self, BlockFault> {
        let header = block::open(block, magic)?;
        let Ok(raw) = RawHeader::ref_from_bytes(block) else {
            return Err(BlockFault::Length { expected: BLOCK_BYTES as u32, found: block.len() as u32 });
        };
        Ok(Self {
            segment: header.sequence.get(),
            cache: raw.cache,
            entries: raw.entries.get(),
            checksum: raw.checksum.get(),
            stale: raw.stale.get(),
            stale_incomplete: raw.flags.get() & STALE_INCOMPLETE != 0,
            since: raw.since.get(),
            durable: DurableBatches {
                from: raw.from.get(),
                below: raw.below.get(),
                under_way: raw.under_way.map(|number| number.get()),
            },
        })
    }
}

/// Copies of a segment of slots: one is overwritten only while the other one is whole.
pub const COPIES_OF_SLOTS: u64 = 2;

/// Writes the entry of a slot, which may be empty, into `bytes`, [`ENTRY_BYTES`] or [`NATIVE_ENTRY_BYTES`]
/// long, with the low byte of the stamp of its last version.
pub fn encode_slot(bytes: &mut [u8], view: Option<SlotView>, generation: u8) {
    encode_entry(bytes, view);
    bytes[GENERATION_AT] = generation;
}

/// Reads the entries of slots in `bytes`, a whole number of them, each `entry_bytes` long.
pub fn decode_slots(bytes: &[u8], entry_bytes: usize) -> impl Iterator<Item = (Option<SlotView>, u8)> + '_ {
    let generations = bytes.chunks_exact(entry_bytes).map(|bytes| bytes[GENERATION_AT]);
    decode_entries(bytes, entry_bytes).zip(generations)
}

/// Writes the entry of a position into `bytes`, [`ENTRY_BYTES`] or [`NATIVE_ENTRY_BYTES`] long. `None`: an
/// empty entry.
pub fn encode_entry(bytes: &mut [u8], view: Option<SlotView>) {
    let empty = RawEntry { page: U64::ZERO, flags: U32::ZERO, proof: U32::ZERO };
    let raw = view.map_or(empty, |view| RawEntry {
        page: U64::new(view.page.0),
        flags: U32::new(PRESENT | if view.valid { VALID } else { 0 } | if view.dirty { DIRTY } else { 0 }),
        proof: U32::new(view.proof),
    });
    let length = bytes.len();
    bytes.copy_from_slice(&raw.as_bytes()[..length]);
}

/// Where the flags of an entry are.
const FLAGS_AT: usize = 8;

/// Adds the base of a dirty page to its entry, which was written into `bytes`. Only of a log.
pub fn add_base(bytes: &mut [u8], base: u64) {
    let flags = bytes[FLAGS_AT..].first_chunk_mut::<4>().expect("an entry has flags");
    let based = u32::from_le_bytes(*flags) | base::flags(Some(StoredBase::of(base)), BASED);
    *flags = based.to_le_bytes();
}

/// The bases in the entries of a log in `bytes`, as [`decode_entries`] reads them.
pub fn decode_bases(bytes: &[u8], entry_bytes: usize) -> impl Iterator<Item = Option<StoredBase>> + '_ {
    bytes.chunks_exact(entry_bytes).map(|bytes| {
        let flags = bytes[FLAGS_AT..].first_chunk::<4>().expect("an entry has flags");
        base::of_flags(u32::from_le_bytes(*flags), BASED)
    })
}

/// Reads the entries in `bytes`, a whole number of them, each `entry_bytes` long ([`ENTRY_BYTES`] or
/// [`NATIVE_ENTRY_BYTES`]).
pub fn decode_entries(bytes: &[u8], entry_bytes: usize) -> impl Iterator<Item = Option<SlotView>> + '_ {
    bytes.chunks_exact(entry_bytes).map(|bytes| {
        let mut whole = [0; ENTRY_BYTES];
        whole[..bytes.len()].copy_from_slice(bytes);
        let raw = RawEntry::ref_from_bytes(&whole).expect("it has the length of an entry");
        let flags = raw.flags.get();
        (flags & PRESENT != 0).then(|| SlotView {
            page: PageId(raw.page.get()),
            valid: flags & VALID != 0,
            dirty: flags & DIRTY != 0,
            proof: raw.proof.get(),
        })
    })
}
