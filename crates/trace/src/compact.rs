//! The layout of Entresol's own trace format, version 1; docs/TRACES.md has it as tables.
//!
//! A header, then blocks: names, pages, and requests with their times. A block holds up to 2^20 items as
//! varints, compressed by zstd. Invariant: each byte of the file is covered by a CRC32C, and the header says
//! how much there is, so that a damaged or shortened file is never taken for a trace.

use entresol_format::checksum;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First bytes of a file: no text, and damaged by a transfer that takes it for one.
pub(crate) const MAGIC: [u8; 8] = *b"\x89ETRC\r\n\x1A";
/// The version written, and the only one read.
pub(crate) const VERSION: u16 = 1;
/// Flag: requests have times.
pub(crate) const HAS_TIMES: u16 = 1;
/// Most items in a block.
pub(crate) const ITEMS_MAX: usize = 1 << 20;
/// Most bytes in a block before compression: each item has at most ten of a number and three of a relation.
pub(crate) const RAW_BYTES_MAX: usize = ITEMS_MAX * 13;

/// The beginning of a file.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Header {
    pub magic: [u8; 8],
    pub version: U16,
    pub flags: U16,
    pub page_bytes: U32,
    pub requests: U64,
    pub pages: U64,
    /// Number of relations; 0: the trace has none.
    pub relations: U32,
    /// CRC32C of the bytes before.
    pub crc: U32,
}

/// The beginning of a block, followed by its compressed bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct BlockHeader {
    pub kind: U32,
    pub items: U32,
    /// Bytes before compression.
    pub raw_bytes: U32,
    /// Bytes that follow.
    pub packed_bytes: U32,
    /// CRC32C of the fields before and of the bytes that follow.
    pub crc: U32,
}

const _: () = assert!(size_of::<Header>() == 40 && size_of::<BlockHeader>() == 20, "as docs/TRACES.md says");

impl Header {
    /// What `crc` must be.
    pub fn expected_crc(&self) -> u32 {
        checksum::of(&self.as_bytes()[..size_of::<Self>() - 4])
    }
}

impl BlockHeader {
    /// What `crc` must be, for these compressed bytes.
    pub fn expected_crc(&self, packed: &[u8]) -> u32 {
        let own = checksum::of(&self.as_bytes()[..size_of::<Self>() - 4]);
        checksum::append(own, packed)
    }
}

/// The content of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    /// The trace's name, then each relation's: a varint of the length, UTF-8.
    Names = 1,
    /// Pages in dense order: the zigzag difference to the number before; with relations, the relation after
    /// it.
    Pages = 2,
    /// `page << 3 | continues << 2 | op`, op 0 = read, 1 = write, 2 = dirty.
    Requests = 3,
    /// Microseconds since the request before.
    Times = 4,
}

/// Appends a number in groups of seven bits, the lowest first (LEB128).
pub(crate) fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes such a number off the front; `None` if there is none or it has more than 64 bits.
pub(crate) fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7F);
        if shift == 63 && bits > 1 {
            return None;
        }
        number |= bits << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// A difference as a number that is small when the difference is, whatever its sign.
pub(crate) fn zigzag(from: u64, to: u64) -> u64 {
    let difference = to.wrapping_sub(from).cast_signed();
    ((difference << 1) ^ (difference >> 63)).cast_unsigned()
}

/// The number that differs from `from` by such a difference.
pub(crate) fn unzigzag(from: u64, zigzag: u64) -> u64 {
    from.wrapping_add((zigzag >> 1) ^ (zigzag & 1).wrapping_neg())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, number);
            let mut rest = &bytes[..];
            assert_eq!((take_varint(&mut rest), rest.len()), (Some(number), 0));
            for from in [0, 5, u64::MAX, 1 << 63] {
                assert_eq!(unzigzag(from, zigzag(from, number)), number);
            }
        }
        assert_eq!([zigzag(5, 5), zigzag(5, 4), zigzag(5, 6)], [0, 1, 2]);
    }

    #[test]
    fn numbers_that_are_none_are_refused() {
        for bytes in
            [&[][..], &[0x80], &[0xFF; 10], &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2]]
        {
            assert_eq!(take_varint(&mut &bytes[..]), None, "{bytes:?}");
        }
    }
}
