//! The bytes of the journal. All integers are little-endian. The file is of one machine and does not outlive
//! its power, so its version is that of the program: another one's is refused.
//!
//! | bytes | head | record |
//! |---|---|---|
//! | 0 | magic "EntrJrn3" | magic "EntrJrec" |
//! | 8 | CRC32C of the rest | CRC32C of the rest, and of the data |
//! | 12 | | kind: 1 data, 2 written elsewhere |
//! | 16 | sequence | number |
//! | 24 | first record: number | offset in the volume |
//! | 32 | first record: place | length in the volume |
//! | 40 | bytes of the ring | |
//! | 48 | life (16 bytes) | |
//! | 64 | start of the machine (16 bytes) | |
//! | 80 | the life before, which ended with all of its writes durable (16 bytes) | |
//! | 96 | disk, flash and label (`Identity`, 32 bytes each) | |
//! | 192 | cache of which flash is flushed (16 bytes) | |
//! | 208 | its epoch | |
//! | 216 | everything below this position is flushed; 0: unknown | |
//!
//! Both take 512 bytes. The data of a record follows it. After the first head, at 512, is a text for people
//! (`Names`): magic "EntrJown", CRC32C of the rest, its length, and JSON.

use super::Mark;
use super::parts::{Identity, Names, Parts};
use entresol_core::Position;
use entresol_engine::{Flushed, Uuid};
use entresol_format::checksum;

/// Bytes of a head, and of a record without its data.
pub(crate) const HEAD_BYTES: usize = 512;
const HEAD_MAGIC: &[u8; 8] = b"EntrJrn3";
/// The beginning of the magics of all versions of a head.
const HEAD_MAGICS: &[u8; 7] = b"EntrJrn";
const RECORD_MAGIC: &[u8; 8] = b"EntrJrec";
const NAMES_MAGIC: &[u8; 8] = b"EntrJown";
/// Where the names are, and the most bytes that they take.
pub(super) const NAMES_AT: u64 = 512;
pub(super) const NAMES_BYTES: usize = 3584;
/// Where the identities are in a head.
const PARTS_AT: usize = 96;
/// Where it is how far the flash is flushed.
const FLUSHED_AT: usize = 192;
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
    /// The life before this one. Nil: none.
    pub ended: Uuid,
    /// The volume whose writes these are.
    pub parts: Parts,
    /// How far the flash is flushed.
    pub flushed: Flushed,
}

impl Default for Head {
    fn default() -> Self {
        let first = Mark { number: 1, at: 0 };
        Self {
            sequence: 0,
            first,
            life: Uuid::NIL,
            boot: Uuid::NIL,
            ended: Uuid::NIL,
            parts: Parts::default(),
            flushed: Flushed::default(),
        }
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
        put(block, 80, self.ended.0);
        for (part, identity) in self.parts.all().into_iter().enumerate() {
            let at = PARTS_AT + part * 32;
            (0..4).for_each(|word| put(block, at + word * 8, identity.0[word].to_le_bytes()));
        }
        put(block, FLUSHED_AT, self.flushed.cache.0);
        put(block, FLUSHED_AT + 16, self.flushed.epoch.to_le_bytes());
        put(block, FLUSHED_AT + 24, self.flushed.below.0.to_le_bytes());
        let sum = checksum::of(&block[SUMMED_FROM..]);
        put(block, SUM_AT, sum.to_le_bytes());
    }

    /// `None`: blank, torn, or of a ring of another size.
    pub fn decode(block: &[u8], ring_bytes: u64) -> Option<Self> {
        let (head, bytes) = Self::decode_of_any_size(block)?;
        (bytes == ring_bytes).then_some(head)
    }

    /// The head, and the bytes of its ring. `None`: blank, torn, or with a number that no journal reaches.
    pub fn decode_of_any_size(block: &[u8]) -> Option<(Self, u64)> {
        let is_whole =
            block[..8] == *HEAD_MAGIC && checksum::of(&block[SUMMED_FROM..]) == get_u32(block, SUM_AT);
        let identity = |part: usize| {
            let at = PARTS_AT + part * 32;
            Identity([0, 8, 16, 24].map(|word| get_u64(block, at + word)))
        };
        let counters = [16, 24, 32].map(|at| get_u64(block, at));
        (is_whole && counters.iter().all(|counter| *counter < NUMBER_MAX)).then(|| {
            let head = Self {
                sequence: get_u64(block, 16),
                first: Mark { number: get_u64(block, 24), at: get_u64(block, 32) },
                life: Uuid(get(block, 48)),
                boot: Uuid(get(block, 64)),
                ended: Uuid(get(block, 80)),
                parts: Parts { disk: identity(0), flash: identity(1), label: identity(2) },
                flushed: Flushed {
                    cache: Uuid(get(block, FLUSHED_AT)),
                    epoch: get_u64(block, FLUSHED_AT + 16),
                    below: Position(get_u64(block, FLUSHED_AT + 24)),
                },
            };
            (head, get_u64(block, 40))
        })
    }

    /// Whether another version of the program has written this head.
    pub fn is_of_another_version(block: &[u8]) -> bool {
        block[..7] == *HEAD_MAGICS && block[..8] != *HEAD_MAGIC
    }
}

impl Names {
    /// `None`: they are longer than there is room.
    pub(super) fn encode(&self, block: &mut [u8]) -> Option<()> {
        let text = serde_json::to_vec(self).ok()?;
        let room = block.get_mut(16..16 + text.len())?;
        room.copy_from_slice(&text);
        block[16 + text.len()..].fill(0);
        block[..8].copy_from_slice(NAMES_MAGIC);
        put(block, 12, (text.len() as u32).to_le_bytes());
        let sum = checksum::of(&block[SUMMED_FROM..]);
        put(block, SUM_AT, sum.to_le_bytes());
        Some(())
    }

    /// `None`: there are none.
    pub(super) fn decode(block: &[u8]) -> Option<Self> {
        let is_whole =
            block[..8] == *NAMES_MAGIC && checksum::of(&block[SUMMED_FROM..]) == get_u32(block, SUM_AT);
        let text = block.get(16..16 + get_u32(block, 12) as usize).filter(|_| is_whole)?;
        serde_json::from_slice(text).ok()
    }
}

/// Numbers, places and offsets are below this one. Else a block was made up.
const NUMBER_MAX: u64 = 1 << 61;

/// The kind of a record.
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
    /// none, or it is larger than `room` bytes of data, or is of bytes that no volume has.
    pub fn decode(block: &[u8], number: u64, at: u64, room: u64) -> Option<(Self, u32)> {
        let kind = match get_u32(block, 12) {
            1 => Kind::Data,
            2 => Kind::Elsewhere,
            _ => return None,
        };
        let record = Self { number, kind, offset: get_u64(block, 24), length: get_u64(block, 32), at };
        let is_it = block[..8] == *RECORD_MAGIC && get_u64(block, 16) == number;
        let is_of_a_volume = record.offset < NUMBER_MAX && record.length < NUMBER_MAX;
        (is_it && is_of_a_volume && record.data_bytes() <= room).then(|| (record, get_u32(block, SUM_AT)))
    }
}
