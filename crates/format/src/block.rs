//! The header that all structures share, and the functions that seal and open a block (docs/FORMAT.md has the
//! table).
//!
//! Invariant: a block that [`open`] accepts is complete, undamaged, of the requested kind and of a known
//! version.

use crate::checksum;
use thiserror::Error;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a block: superblock, label, group summary and segment header are one each.
pub const BLOCK_BYTES: usize = 4096;
/// The version of all structures that this release writes.
pub const FORMAT_VERSION: u32 = 2;
/// The oldest version that this release reads.
pub const FORMAT_VERSION_MIN: u32 = 1;

/// The identity of a cache or a disk: 128 random bits.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(transparent)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// No cache, no disk.
    pub const NIL: Uuid = Uuid([0; 16]);

    /// From 128 random bits.
    pub fn from_random(high: u64, low: u64) -> Self {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&high.to_be_bytes());
        bytes[8..].copy_from_slice(&low.to_be_bytes());
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Self(bytes)
    }

    /// The first eight bytes as a number.
    pub fn high(self) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[..8]);
        u64::from_le_bytes(bytes)
    }
}

impl std::fmt::Display for Uuid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// The header as stored.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockHeader {
    /// The kind of structure.
    pub magic: [u8; 8],
    /// Format version.
    pub version: U32,
    /// Bytes that the checksum covers.
    pub length: U32,
    /// A newer structure of the same kind has a larger number.
    pub sequence: U64,
    /// CRC32C with this field zero.
    pub checksum: U32,
    /// Zero.
    pub reserved: U32,
}

const _: () = assert!(size_of::<BlockHeader>() == 32);
const CHECKSUM_AT: usize = 24;

/// Sequences are below this, so that those of the next structures are, too: none grows so far in a machine's
/// life, and one that has is forged.
pub const SEQUENCE_MAX: u64 = 1 << 62;

/// Why a block was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BlockFault {
    /// All zeros: nothing was ever written here.
    #[error("nothing is written there")]
    Blank,
    /// The magic is that of another structure.
    #[error("magic {found:02x?} found, {expected:02x?} expected")]
    Magic {
        /// The expected magic.
        expected: [u8; 8],
        /// The magic found.
        found: [u8; 8],
    },
    /// Written by another release.
    #[error("format version {found} found, {expected} expected; use the release that wrote it")]
    Version {
        /// The version of this release.
        expected: u32,
        /// The version found.
        found: u32,
    },
    /// The length is impossible.
    #[error("length {found} found, {expected} expected")]
    Length {
        /// Bytes of the structure.
        expected: u32,
        /// The length found.
        found: u32,
    },
    /// The content does not match its checksum.
    #[error("checksum {found:#010x} found, {expected:#010x} expected")]
    Checksum {
        /// In the header.
        expected: u32,
        /// Of the content.
        found: u32,
    },
    /// A field has an impossible value.
    #[error("field `{field}` holds {found}, which is not possible")]
    Field {
        /// The field.
        field: &'static str,
        /// Its value.
        found: u64,
    },
}

fn checksum(block: &[u8]) -> u32 {
    let sum = checksum::of(&block[..CHECKSUM_AT]);
    let sum = checksum::append(sum, &[0; 4]);
    checksum::append(sum, &block[CHECKSUM_AT + 4..])
}

/// Completes `block`, a whole structure whose fields after the header are filled in.
pub fn seal(block: &mut [u8], magic: [u8; 8], sequence: u64) {
    seal_as(FORMAT_VERSION, block, magic, sequence);
}

/// As [`seal`], in format `version`.
pub(crate) fn seal_as(version: u32, block: &mut [u8], magic: [u8; 8], sequence: u64) {
    let header = BlockHeader {
        magic,
        version: U32::new(version),
        length: U32::new(u32::try_from(block.len()).expect("a structure is a few KiB long")),
        sequence: U64::new(sequence),
        checksum: U32::ZERO,
        reserved: U32::ZERO,
    };
    block[..size_of::<BlockHeader>()].copy_from_slice(header.as_bytes());
    let sum = checksum(block);
    block[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&sum.to_le_bytes());
}

/// Proves that all of `block` is an undamaged structure of the kind `magic`. Returns its header.
pub fn open(block: &[u8], magic: [u8; 8]) -> Result<BlockHeader, BlockFault> {
    let Ok((header, _)) = BlockHeader::read_from_prefix(block) else {
        return Err(BlockFault::Length { expected: 32, found: block.len() as u32 });
    };
    if header.magic != magic {
        // Compares whole words, because recovery reads many blank blocks.
        let (words, rest) = block.as_chunks::<16>();
        let blank = words.iter().all(|word| *word == [0; 16]) && rest.iter().all(|byte| *byte == 0);
        return Err(if blank {
            BlockFault::Blank
        } else {
            BlockFault::Magic { expected: magic, found: header.magic }
        });
    }
    if !(FORMAT_VERSION_MIN..=FORMAT_VERSION).contains(&header.version.get()) {
        return Err(BlockFault::Version { expected: FORMAT_VERSION, found: header.version.get() });
    }
    if header.length.get() as usize != block.len() {
        return Err(BlockFault::Length { expected: block.len() as u32, found: header.length.get() });
    }
    let found = checksum(block);
    if found != header.checksum.get() {
        return Err(BlockFault::Checksum { expected: header.checksum.get(), found });
    }
    if header.sequence.get() >= SEQUENCE_MAX {
        return Err(BlockFault::Field { field: "sequence", found: header.sequence.get() });
    }
    Ok(header)
}
