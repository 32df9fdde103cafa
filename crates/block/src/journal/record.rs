//! The bytes of the journal. All integers are little-endian. The file is of one machine and does not outlive
//! its power, so its version is that of the program: another one's is taken for blank.
//!
//! | bytes | head | record |
//! |---|---|---|
//! | 0 | magic "EntrJrn2" | magic "EntrJrec" |
//! | 8 | CRC32C of the rest | CRC32C of the rest, and of the data |
//! | 12 | | kind: 1 data, 2 written elsewhere |
//! | 16 | sequence | number |
//! | 24 | first record: number | offset in the volume |
//! | 32 | first record: place | length in the volume |
//! | 40 | bytes of the ring | |
//! | 48 | life (16 bytes) | |
//! | 64 | start of the machine (16 bytes) | |
//!
//! Both take 512 bytes. The data of a record follows it.

use super::Mark;
use entresol_engine::Uuid;
use entresol_format::checksum;

/// Bytes of a head, and of a record without its data.
pub(crate) const HEAD_BYTES: usize = 512;
const HEAD_MAGIC: &[u8; 8] = b"EntrJrn2";
const RECORD_MAGIC: &[u8; 8] = b"EntrJrec";
/// Where the sum is, and what it covers.
const SUM_AT: usize = 8;
const SUMMED_FROM: usize = 12;

fn put<const N: usize>(block: &mut [u8], at: usize, bytes: [u8; N]) {
    block[at..at + N].copy_from_slice(&bytes);
}

fn get<const N: usize>(block: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&block[at..at + N]);
    bytes
}

fn get_u64(block: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(get(block, at))
}

fn get_u32(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(get(block, at))
}

/// Where the records begin, and of which life they are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub sequence: u64,
    pub first: Mark,
    /// Nil: none.
    pub life: Uuid,
    /// The start of the machine in which it was written.
    pub boot: Uuid,
}

impl Default for Head {
    fn default() -> Self {
        let first = Mark { number: 1, at: 0 };
        Self { sequence: 0, first, life: Uuid::NIL, boot: Uuid::NIL }
    }
}

impl Head {
    pub fn encode(&self, ring_bytes: u64, block: &mut [u8]) {
        block.fill(0);
        block[..8].copy_from_slice(HEAD_MAGIC);
        put(block, 16, self.sequence.to_le_bytes());
        put(block, 24, self.first.number.to_le_bytes());
        put(block, 32, self.first.at.to_le_bytes());
        put(block, 40, ring_bytes.to_le_bytes());
        put(block, 48, self.life.0);
        put(block, 64, self.boot.0);
        let sum = checksum::of(&block[SUMMED_FROM..]);
        put(block, SUM_AT, sum.to_le_bytes());
    }

    /// `None`: blank, torn, or of a ring of another size.
    pub fn decode(block: &[u8], ring_bytes: u64) -> Option<Self> {
        let is_whole =
            block[..8] == *HEAD_MAGIC && checksum::of(&block[SUMMED_FROM..]) == get_u32(block, SUM_AT);
        (is_whole && get_u64(block, 40) == ring_bytes).then(|| Self {
            sequence: get_u64(block, 16),
            first: Mark { number: get_u64(block, 24), at: get_u64(block, 32) },
            life: Uuid(get(block, 48)),
            boot: Uuid(get(block, 64)),
        })
    }
}

/// What a record is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A write to the cache, whose data follows.
    Data,
    /// A write of whole pages past the flash.
    Elsewhere,
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub number: u64,
    pub kind: Kind,
    /// Of the volume.
    pub offset: u64,
    /// Of the volume.
    pub length: u64,
    /// Its place in the ring, counted on from round to round.
    pub at: u64,
}

impl Record {
    pub fn data_bytes(&self) -> u64 {
        if self.kind == Kind::Data { self.length } else { 0 }
    }

    fn head(&self, block: &mut [u8]) {
        block.fill(0);
        block[..8].copy_from_slice(RECORD_MAGIC);
        put(block, 12, if self.kind == Kind::Data { 1_u32 } else { 2 }.to_le_bytes());
        put(block, 16, self.number.to_le_bytes());
        put(block, 24, self.offset.to_le_bytes());
        put(block, 32, self.length.to_le_bytes());
    }

    /// The sum over the record and its data.
    pub fn sum(&self, data: &[u8]) -> u32 {
        let mut block = [0; HEAD_BYTES];
        self.head(&mut block);
        checksum::append(checksum::of(&block[SUMMED_FROM..]), data)
    }

    pub fn encode(&self, data: &[u8], block: &mut [u8]) {
        self.head(block);
        let sum = checksum::append(checksum::of(&block[SUMMED_FROM..]), data);
        put(block, SUM_AT, sum.to_le_bytes());
    }

    /// The record with this number at this place, and its sum, which is to be compared. `None`: there is
    /// none, or it is larger than `room` bytes of data.
    pub fn decode(block: &[u8], number: u64, at: u64, room: u64) -> Option<(Self, u32)> {
        let kind = match get_u32(block, 12) {
            1 => Kind::Data,
            2 => Kind::Elsewhere,
            _ => return None,
        };
        let record = Self { number, kind, offset: get_u64(block, 24), length: get_u64(block, 32), at };
        let is_it = block[..8] == *RECORD_MAGIC && get_u64(block, 16) == number;
        (is_it && record.data_bytes() <= room).then(|| (record, get_u32(block, SUM_AT)))
    }
}
