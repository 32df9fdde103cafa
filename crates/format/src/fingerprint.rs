//! The fingerprint of a disk whose label is in a file: checksums of some of its sectors. It tells whether
//! another program has written to the disk since, as far as these sectors do.
//!
//! A sector has two checksums, of its old and of its present content: before it is written the file has both,
//! so the fingerprint holds after a crash, too. (docs/FORMAT.md has the tables.)

use crate::block::{self, BLOCK_BYTES, BlockFault, BlockHeader};
use crate::checksum;
use crate::label::LABEL_AREA_BYTES;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Magic of a fingerprint.
pub const MAGIC: [u8; 8] = *b"ENTRFNGR";
/// Bytes of a sector.
pub const SECTOR_BYTES: u64 = 512;
/// Copies in the file, after the label's area.
pub const COPIES: u64 = 2;
/// Distance of the copies in bytes.
pub const COPY_STRIDE: u64 = 16 << 10;
/// Bytes of the file.
pub const LABEL_FILE_BYTES: u64 = LABEL_AREA_BYTES + COPIES * COPY_STRIDE;

/// The checksum of an unreadable sector: it may have any content. (Of 2^32 contents, one has this checksum
/// and is not looked at.)
pub const UNKNOWN: u32 = 0;

/// Bytes at the beginning and at the end of the disk that are looked at as a whole.
const HEAD_BYTES: u64 = 128 << 10;
const TAIL_BYTES: u64 = 64 << 10;
/// Blocks between, chosen by the seed.
const SAMPLES: u64 = 64;

/// The fixed part as stored.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawFingerprint {
    pub(crate) header: BlockHeader,
    pub(crate) capacity: U64,
    pub(crate) seed: U64,
    pub(crate) sectors: U32,
    pub(crate) checksum: U32,
    pub(crate) zero: [u8; 4040],
}

/// The checksums of a sector as stored.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawSums {
    pub(crate) before: U32,
    pub(crate) after: U32,
}

const SUMS: usize = size_of::<RawSums>();
const _: () = assert!(size_of::<RawFingerprint>() == BLOCK_BYTES && SUMS == 8);
const SECTORS_MAX: u64 = (HEAD_BYTES + TAIL_BYTES + SAMPLES * BLOCK_BYTES as u64) / SECTOR_BYTES;
const _: () = assert!(BLOCK_BYTES as u64 + SECTORS_MAX * SUMS as u64 <= COPY_STRIDE);

/// The checksums of a sector, either of which may be the present one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Before the last write.
    pub before: u32,
    /// After it.
    pub after: u32,
}

impl Sums {
    /// Of a sector with this checksum; `None`: it cannot be read.
    pub fn of(found: Option<u32>) -> Self {
        let sum = found.unwrap_or(UNKNOWN);
        Self { before: sum, after: sum }
    }

    /// Whether the sector may have any content.
    pub fn is_unknown(&self) -> bool {
        [self.before, self.after].contains(&UNKNOWN)
    }

    /// Whether a sector with this checksum is as expected.
    pub fn fit(&self, found: u32) -> bool {
        self.is_unknown() || [self.before, self.after].contains(&found)
    }
}

/// A fingerprint, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// A newer one has a larger number.
    pub sequence: u64,
    /// Bytes of the disk.
    pub capacity: u64,
    /// The seed by which the sectors between beginning and end were chosen.
    pub seed: u64,
    /// Of each of [`sectors`], in order.
    pub sums: Vec<Sums>,
}

/// The numbers of the sectors that are looked at on a disk of `capacity` bytes, in ascending order.
pub fn sectors(capacity: u64, seed: u64) -> Vec<u64> {
    let (sectors, block) = (capacity / SECTOR_BYTES, BLOCK_BYTES as u64 / SECTOR_BYTES);
    let head = 0..sectors.min(HEAD_BYTES / SECTOR_BYTES);
    let tail = sectors.saturating_sub(TAIL_BYTES / SECTOR_BYTES)..sectors;
    // Knuth's MMIX generator, whose high bits are good.
    let mut state = seed;
    let mut samples = Vec::new();
    for _ in 0..SAMPLES {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let first = (state >> 24) % (sectors / block).max(1) * block;
        samples.extend(first..(first + block).min(sectors));
    }
    let mut all: Vec<u64> = head.chain(tail).chain(samples).collect();
    all.sort_unstable();
    all.dedup();
    all
}

impl Fingerprint {
    /// Where this one is in the file.
    pub fn offset(&self) -> u64 {
        LABEL_AREA_BYTES + self.sequence % COPIES * COPY_STRIDE
    }

    /// Writes it into `bytes`, [`COPY_STRIDE`] long.
    pub fn encode(&self, bytes: &mut [u8]) {
        bytes.fill(0);
        let (head, rest) = bytes.split_at_mut(BLOCK_BYTES);
        for (sums, raw) in self.sums.iter().zip(rest.chunks_exact_mut(SUMS)) {
            let Sums { before, after } = *sums;
            raw.copy_from_slice(RawSums { before: U32::new(before), after: U32::new(after) }.as_bytes());
        }
        let mut raw = RawFingerprint::new_zeroed();
        raw.capacity.set(self.capacity);
        raw.seed.set(self.seed);
        raw.sectors.set(self.sums.len() as u32);
        raw.checksum.set(checksum::of(&rest[..self.sums.len() * SUMS]));
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
        let raw = RawFingerprint::ref_from_bytes(head).expect("an opened block has the structure's length");
        let (capacity, seed) = (raw.capacity.get(), raw.seed.get());
        let length = raw.sectors.get() as usize * SUMS;
        let expected = sectors(capacity, seed).len();
        let Some(sums) = rest.get(..length).filter(|_| raw.sectors.get() as usize == expected) else {
            return Err(BlockFault::Field { field: "sectors", found: raw.sectors.get().into() });
        };
        let found = checksum::of(sums);
        if found != raw.checksum.get() {
            return Err(BlockFault::Checksum { expected: raw.checksum.get(), found });
        }
        let sums = sums.chunks_exact(SUMS).map(|bytes| {
            let raw = RawSums::ref_from_bytes(bytes).expect("a chunk has the length of an entry");
            Sums { before: raw.before.get(), after: raw.after.get() }
        });
        Ok(Self { sequence: header.sequence.get(), capacity, seed, sums: sums.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_and_some_blocks_between_are_looked_at() {
        for capacity in [0, 512, 100 << 10, 1 << 20, 1 << 40] {
            let all = sectors(capacity, 7);
            assert!(all.len() as u64 <= SECTORS_MAX.min(capacity / SECTOR_BYTES));
            assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
            assert!(all.last().is_none_or(|last| *last == capacity / SECTOR_BYTES - 1));
        }
        assert_ne!(sectors(1 << 40, 7), sectors(1 << 40, 8));
        let sums = (0..sectors(1 << 30, 3).len() as u32).map(|at| Sums { before: at, after: !at }).collect();
        let print = Fingerprint { sequence: 5, capacity: 1 << 30, seed: 3, sums };
        let mut bytes = vec![0xee; COPY_STRIDE as usize];
        print.encode(&mut bytes);
        assert_eq!(Fingerprint::decode(&bytes), Ok(print));
        for at in [9, 40, 50, 4096, 9000] {
            bytes[at] ^= 1;
            assert!(Fingerprint::decode(&bytes).is_err(), "{at}");
            bytes[at] ^= 1;
        }
    }
}
