//! A directory segment (FaCE §4.1): the entries of a fixed number of consecutive positions (64,000 as in the
//! paper), written in the background when the last of them is durable, while new entries go on entering
//! (docs/FORMAT.md has the tables).
//!
//! Entry `i` of segment `k` describes position `k × entries + i`. Segment `k` lies at place `k mod places` of
//! a ring.

use crate::block::{self, BLOCK_BYTES, BlockFault, BlockHeader, Uuid};
use entresol_core::{PageId, SlotView, mutant};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Magic of a segment header.
pub const MAGIC: [u8; 8] = *b"ENTRSEGM";
/// Bytes of an entry.
pub const ENTRY_BYTES: usize = size_of::<RawEntry>();

const PRESENT: u32 = 1;
const VALID: u32 = 2;
const DIRTY: u32 = 4;

/// The header as it lies there.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawHeader {
    pub(crate) header: BlockHeader,
    pub(crate) cache: Uuid,
    pub(crate) entries: U32,
    pub(crate) checksum: U32,
    pub(crate) zero: [u8; 4040],
}

/// An entry as it lies there.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawEntry {
    pub(crate) page: U64,
    pub(crate) flags: U32,
}

const _: () = assert!(size_of::<RawHeader>() == BLOCK_BYTES && ENTRY_BYTES == 12);

/// A segment's header, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Number of the segment, counted from the first ever.
    pub segment: u64,
    /// The cache it belongs to.
    pub cache: Uuid,
    /// Entries.
    pub entries: u32,
    /// CRC32C of the entries' bytes.
    pub checksum: u32,
}

impl Head {
    /// Writes it into `block`, [`BLOCK_BYTES`] long.
    pub fn encode(&self, block: &mut [u8]) {
        self.encode_as(MAGIC, block);
    }

    /// Writes it as the header of something else of the same form.
    pub(crate) fn encode_as(&self, magic: [u8; 8], block: &mut [u8]) {
        let mut raw = RawHeader::new_zeroed();
        raw.cache = self.cache;
        raw.entries.set(self.entries);
        raw.checksum.set(self.checksum);
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
        })
    }
}

/// Writes the entry of a position, `None` for an empty one, into `bytes`, [`ENTRY_BYTES`] long.
pub fn encode_entry(bytes: &mut [u8], view: Option<SlotView>) {
    let raw = view.map_or(RawEntry { page: U64::ZERO, flags: U32::ZERO }, |view| RawEntry {
        page: U64::new(view.page.0),
        flags: U32::new(
            PRESENT
                | if view.valid { VALID } else { 0 }
                | if view.dirty && !mutant!("segment-loses-dirty") { DIRTY } else { 0 },
        ),
    });
    bytes.copy_from_slice(raw.as_bytes());
}

/// Reads the entries from `bytes`, whole entries.
pub fn decode_entries(bytes: &[u8]) -> impl Iterator<Item = Option<SlotView>> + '_ {
    bytes.chunks_exact(ENTRY_BYTES).map(|bytes| {
        let raw = RawEntry::ref_from_bytes(bytes).expect("a chunk has the length of an entry");
        let flags = raw.flags.get();
        (flags & PRESENT != 0).then(|| SlotView {
            page: PageId(raw.page.get()),
            valid: flags & VALID != 0,
            dirty: flags & DIRTY != 0,
        })
    })
}
