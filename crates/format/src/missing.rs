//! The record of the pages that a disk lacks since its flash failed (docs/FORMAT.md has the tables and the
//! protocol). It is in the label's area, after each copy of the label.
//!
//! Invariant: there are three lists, in each of which the ranges ascend and do not overlap: pages that flash
//! had durably, pages that were on their way there, and pages that are given up.

use crate::block::{self, BLOCK_BYTES, BlockFault, BlockHeader, Uuid};
use crate::checksum;
use crate::label::COPY_STRIDE;
use entresol_core::PageId;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Magic of a record of missing pages.
pub const MAGIC: [u8; 8] = *b"ENTRMISS";
/// Copies in the label's area.
pub const COPIES: u64 = 2;
/// Bytes of a copy: the rest of the label's area.
pub const RECORD_BYTES: usize = COPY_STRIDE as usize - BLOCK_BYTES;
/// Most ranges of a record.
pub const RANGES_MAX: usize = (RECORD_BYTES - BLOCK_BYTES) / size_of::<RawRange>();

/// The fixed part as stored.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawMissing {
    pub(crate) header: BlockHeader,
    pub(crate) cache: Uuid,
    pub(crate) epoch: U64,
    pub(crate) ranges: U32,
    pub(crate) staged: U32,
    pub(crate) checksum: U32,
    pub(crate) given_up: U32,
    pub(crate) zero: [u8; 4024],
}

/// A range as stored.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawRange {
    pub(crate) first: U64,
    pub(crate) pages: U32,
}

const RANGE: usize = size_of::<RawRange>();
const _: () = assert!(size_of::<RawMissing>() == BLOCK_BYTES && RANGE == 12);

/// Pages that follow each other: the first, and how many.
pub type PageRange = (PageId, u32);

/// A record, decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissingPages {
    /// A newer record has a larger number.
    pub sequence: u64,
    /// The cache whose flash failed.
    pub cache: Uuid,
    /// Its epoch when it failed.
    pub epoch: u64,
    /// Pages of which flash had a newer version durably.
    pub durable: Vec<PageRange>,
    /// Pages that were newer in memory. Flash may have them, too, durably or not.
    pub staged: Vec<PageRange>,
    /// Pages whose newest version is nowhere: what flash has of them is older. None of `durable`.
    pub given_up: Vec<PageRange>,
}

impl MissingPages {
    /// Where this one is on the label's device.
    pub fn offset(&self) -> u64 {
        self.sequence % COPIES * COPY_STRIDE + BLOCK_BYTES as u64
    }

    /// The ranges of all lists.
    pub fn ranges(&self) -> usize {
        self.durable.len() + self.staged.len() + self.given_up.len()
    }

    /// Writes it into `bytes`, [`RECORD_BYTES`] long.
    ///
    /// # Panics
    /// If there are more than [`RANGES_MAX`] ranges.
    pub fn encode(&self, bytes: &mut [u8]) {
        let ranges = self.ranges();
        assert!(ranges <= RANGES_MAX, "the caller keeps the record short");
        bytes.fill(0);
        let (head, rest) = bytes.split_at_mut(BLOCK_BYTES);
        let all = self.durable.iter().chain(&self.staged).chain(&self.given_up);
        for ((first, pages), raw) in all.zip(rest.chunks_exact_mut(RANGE)) {
            raw.copy_from_slice(RawRange { first: U64::new(first.0), pages: U32::new(*pages) }.as_bytes());
        }
        let mut raw = RawMissing::new_zeroed();
        raw.cache = self.cache;
        raw.epoch.set(self.epoch);
        raw.ranges.set(ranges as u32);
        raw.staged.set(self.staged.len() as u32);
        raw.given_up.set(self.given_up.len() as u32);
        raw.checksum.set(checksum::of(&rest[..ranges * RANGE]));
        head.copy_from_slice(raw.as_bytes());
        block::seal(head, MAGIC, self.sequence);
    }

    /// Reads one back: whole, undamaged and with possible values only.
    pub fn decode(bytes: &[u8]) -> Result<Self, BlockFault> {
        if bytes.len() < BLOCK_BYTES {
            return Err(BlockFault::Length { expected: BLOCK_BYTES as u32, found: bytes.len() as u32 });
        }
        let (head, rest) = bytes.split_at(BLOCK_BYTES);
        let header = block::open(head, MAGIC)?;
        let raw = RawMissing::ref_from_bytes(head).expect("an opened block has the structure's length");
        let [ranges, staged, given_up] =
            [raw.ranges, raw.staged, raw.given_up].map(|count| count.get() as usize);
        let Some(stored) = rest.get(..ranges * RANGE).filter(|_| staged + given_up <= ranges) else {
            return Err(BlockFault::Field { field: "ranges", found: ranges as u64 });
        };
        let found = checksum::of(stored);
        if found != raw.checksum.get() {
            return Err(BlockFault::Checksum { expected: raw.checksum.get(), found });
        }
        let mut all: Vec<PageRange> = Vec::with_capacity(ranges);
        for bytes in stored.chunks_exact(RANGE) {
            let raw = RawRange::ref_from_bytes(bytes).expect("a chunk has the length of a range");
            all.push((PageId(raw.first.get()), raw.pages.get()));
        }
        let given_up = all.split_off(ranges - given_up);
        let staged = all.split_off(all.len() - staged);
        for list in [&all, &staged, &given_up] {
            let mut end = 0;
            for (first, pages) in list {
                let after = first.0.checked_add((*pages).into()).filter(|_| *pages > 0 && first.0 >= end);
                end = after.ok_or(BlockFault::Field { field: "first", found: first.0 })?;
            }
        }
        Ok(Self {
            sequence: header.sequence.get(),
            cache: raw.cache,
            epoch: raw.epoch.get(),
            durable: all,
            staged,
            given_up,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_and_no_changed_byte_is_believed() {
        let durable = (0..RANGES_MAX as u64 - 3).map(|at| (PageId(at * 3), 1 + (at % 3) as u32)).collect();
        let (staged, given_up) = (vec![(PageId(7), 2)], vec![(PageId(3), 1), (PageId(6), 1)]);
        let (cache, epoch) = (Uuid::from_random(1, 2), 9);
        let record = MissingPages { sequence: 5, cache, epoch, durable, staged, given_up };
        let mut bytes = vec![0xee; RECORD_BYTES];
        record.encode(&mut bytes);
        assert_eq!(record.offset(), COPY_STRIDE + BLOCK_BYTES as u64);
        assert_eq!(MissingPages::decode(&bytes), Ok(record.clone()));
        for at in [9, 40, 50, 58, 68, 4096, 20_000, RECORD_BYTES - 1] {
            bytes[at] ^= 1;
            assert!(MissingPages::decode(&bytes).is_err(), "{at}");
            bytes[at] ^= 1;
        }
        for durable in
            [vec![(PageId(7), 0)], vec![(PageId(7), 3), (PageId(9), 1)], vec![(PageId(u64::MAX), 2)]]
        {
            MissingPages { durable, ..record.clone() }.encode(&mut bytes);
            assert!(matches!(MissingPages::decode(&bytes), Err(BlockFault::Field { field: "first", .. })));
        }
    }
}
