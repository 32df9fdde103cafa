//! Writes to a disk that could not be synced: kept in its label file, after the fingerprint, until it can
//! (docs/FORMAT.md has the tables).
//!
//! A head, then entries of [`ENTRY_BYTES`]. Two entries, one place, are for one block of the disk, or for one
//! range of zeros, and are written alternately; so one is whole when the program is killed. Invariant: the
//! entries that count have the sequence of the head, and the greater number of their place. A head that says
//! that there are entries is written after them.

use crate::block::{self, BLOCK_BYTES, BlockFault, BlockHeader};
use crate::checksum;
use crate::fingerprint::LABEL_FILE_BYTES;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Magics of a head and of an entry.
pub const HEAD_MAGIC: [u8; 8] = *b"ENTRREDO";
/// See [`HEAD_MAGIC`].
pub const ENTRY_MAGIC: [u8; 8] = *b"ENTRRDEN";
/// Where the head is in the label file, in bytes.
pub const HEAD_AT: u64 = LABEL_FILE_BYTES;
/// Bytes of an entry: its block, and that of the disk.
pub const ENTRY_BYTES: usize = 2 * BLOCK_BYTES;
/// Entries of a place.
pub const COPIES: u64 = 2;

const KEPT: u32 = 1;
const BLOCK: u32 = 1;
const ZEROS: u32 = 2;
const NOTHING: u32 = 3;

/// The head as stored.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawRedo {
    pub(crate) header: BlockHeader,
    pub(crate) flags: U32,
    pub(crate) zero: [u8; 4060],
}

/// An entry as stored, without the bytes of the disk's block, which follow.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawRedoEntry {
    pub(crate) header: BlockHeader,
    pub(crate) number: U64,
    pub(crate) kind: U32,
    pub(crate) checksum: U32,
    pub(crate) offset: U64,
    pub(crate) length: U64,
    pub(crate) zero: [u8; 4032],
}

const _: () = assert!(size_of::<RawRedo>() == BLOCK_BYTES && size_of::<RawRedoEntry>() == BLOCK_BYTES);

/// The head, decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RedoHead {
    /// That of the entries that count.
    pub sequence: u64,
    /// There are entries.
    pub is_kept: bool,
}

/// What an entry keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redo {
    /// Sectors of 512 bytes of the block of 4,096 bytes at this offset of the disk: bit `n` for sector `n`.
    Block {
        /// In bytes.
        offset: u64,
        /// Which of the eight.
        sectors: u8,
    },
    /// Zeros: offset and length in bytes.
    Zeros(u64, u64),
    /// Nothing any more.
    Nothing,
}

/// An entry, decoded, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedoEntry {
    /// That of its head.
    pub sequence: u64,
    /// Later writes have greater numbers.
    pub number: u64,
    /// What it keeps.
    pub what: Redo,
}

impl RedoHead {
    /// Writes it into `block`, [`BLOCK_BYTES`] long.
    pub fn encode(&self, block: &mut [u8]) {
        let mut raw = RawRedo::new_zeroed();
        raw.flags.set(if self.is_kept { KEPT } else { 0 });
        block.copy_from_slice(raw.as_bytes());
        block::seal(block, HEAD_MAGIC, self.sequence);
    }

    /// Reads one back: whole and undamaged.
    pub fn decode(block: &[u8]) -> Result<Self, BlockFault> {
        let header = block::open(block, HEAD_MAGIC)?;
        let raw = RawRedo::ref_from_bytes(block).expect("an opened block has the structure's length");
        Ok(Self { sequence: header.sequence.get(), is_kept: raw.flags.get() & KEPT != 0 })
    }
}

impl RedoEntry {
    /// The offset of a place's entry in the label file, in bytes.
    pub fn offset(place: u64, copy: u64) -> u64 {
        HEAD_AT + BLOCK_BYTES as u64 + (place * COPIES + copy) * ENTRY_BYTES as u64
    }

    /// Writes it into the first half of `entry`, [`ENTRY_BYTES`] long; the other half has the bytes.
    pub fn encode(&self, entry: &mut [u8]) {
        let (block, bytes) = entry.split_at_mut(BLOCK_BYTES);
        let mut raw = RawRedoEntry::new_zeroed();
        raw.number.set(self.number);
        raw.checksum.set(checksum::of(bytes));
        let (kind, offset, length) = match self.what {
            Redo::Block { offset, sectors } => (BLOCK, offset, sectors.into()),
            Redo::Zeros(offset, length) => (ZEROS, offset, length),
            Redo::Nothing => (NOTHING, 0, 0),
        };
        raw.kind.set(kind);
        raw.offset.set(offset);
        raw.length.set(length);
        block.copy_from_slice(raw.as_bytes());
        block::seal(block, ENTRY_MAGIC, self.sequence);
    }

    /// Reads one back, with its bytes in the second half of `entry`: whole, undamaged and with possible
    /// values only.
    pub fn decode(entry: &[u8]) -> Result<Self, BlockFault> {
        let (block, bytes) = entry.split_at(BLOCK_BYTES);
        let header = block::open(block, ENTRY_MAGIC)?;
        let raw = RawRedoEntry::ref_from_bytes(block).expect("an opened block has the structure's length");
        let (expected, found) = (raw.checksum.get(), checksum::of(bytes));
        if expected != found {
            return Err(BlockFault::Checksum { expected, found });
        }
        let (offset, length) = (raw.offset.get(), raw.length.get());
        let field = |field, found| Err(BlockFault::Field { field, found });
        let what = match raw.kind.get() {
            BLOCK => match u8::try_from(length) {
                Ok(sectors) if offset.is_multiple_of(BLOCK_BYTES as u64) => Redo::Block { offset, sectors },
                _ => return field("block", offset),
            },
            ZEROS if offset.checked_add(length).is_some() => Redo::Zeros(offset, length),
            NOTHING => Redo::Nothing,
            kind => return field("kind", kind.into()),
        };
        Ok(Self { sequence: header.sequence.get(), number: raw.number.get(), what })
    }
}
