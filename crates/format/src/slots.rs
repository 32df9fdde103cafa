//! The slot directory of slot placement (SBP §3, 4): an entry for each slot, at a fixed place, updated in
//! place (docs/FORMAT.md has the tables).
//!
//! Invariant: an entry never crosses a sector of 512 bytes, the largest unit that a power failure does not
//! tear, and each sector has a checksum. So after a torn write every entry is either the old or the new one.

use crate::block::{self, BLOCK_BYTES, BlockFault, BlockHeader, Uuid};
use entresol_core::{PageId, Position};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Magic of a sector.
pub const MAGIC: [u8; 8] = *b"ENTRSLOT";
/// Bytes of a sector.
pub const SECTOR_BYTES: usize = 512;
/// Entries of a sector.
pub const SECTOR_ENTRIES: u32 = ((SECTOR_BYTES - size_of::<BlockHeader>()) / size_of::<RawSlot>()) as u32;
/// Entries of a block, the unit that is written.
pub const BLOCK_ENTRIES: u32 = SECTOR_ENTRIES * (BLOCK_BYTES / SECTOR_BYTES) as u32;

const VALID: u32 = 1;
const DIRTY: u32 = 2;

/// An entry as stored.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawSlot {
    pub(crate) page: U64,
    pub(crate) position: U64,
    pub(crate) rank: U64,
    pub(crate) cache: U32,
    pub(crate) flags: U32,
}

const _: () = assert!(size_of::<RawSlot>() == 32 && SECTOR_ENTRIES == 15 && BLOCK_ENTRIES == 120);

/// The content of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotEntry {
    /// The page.
    pub page: PageId,
    /// The position at which this version entered.
    pub position: Position,
    /// Its rank in the order of eviction, if the policy has one.
    pub rank: u64,
    /// Newer than disk.
    pub dirty: bool,
}

/// The part of a cache's UUID that its entries carry. Entries of an older cache count as empty.
fn tag(cache: Uuid) -> u32 {
    u32::from_le_bytes([cache.0[12], cache.0[13], cache.0[14], cache.0[15]])
}

/// Makes `block`, [`BLOCK_BYTES`] long, the `number`th block of a directory without entries.
pub fn clear(block: &mut [u8], number: u64) {
    block.fill(0);
    let sectors = (BLOCK_BYTES / SECTOR_BYTES) as u64;
    for (at, sector) in block.chunks_exact_mut(SECTOR_BYTES).enumerate() {
        block::seal(sector, MAGIC, number * sectors + at as u64);
    }
}

fn place(at: u32) -> (usize, usize) {
    let sector = (at / SECTOR_ENTRIES) as usize * SECTOR_BYTES;
    let entry = sector + size_of::<BlockHeader>() + (at % SECTOR_ENTRIES) as usize * size_of::<RawSlot>();
    (sector, entry)
}

/// Writes an entry (`None` for an empty slot) to place `at`, below [`BLOCK_ENTRIES`], of the `number`th
/// block, which is whole.
pub fn set(block: &mut [u8], number: u64, at: u32, cache: Uuid, entry: Option<SlotEntry>) {
    let raw = entry.map_or_else(RawSlot::default, |entry| RawSlot {
        page: U64::new(entry.page.0),
        position: U64::new(entry.position.0),
        rank: U64::new(entry.rank),
        cache: U32::new(tag(cache)),
        flags: U32::new(VALID | if entry.dirty { DIRTY } else { 0 }),
    });
    put(block, number, at, raw);
}

/// Writes an empty entry to place `at` as [`set`] does, with the `position` that was last written to the
/// slot.
pub fn set_empty(block: &mut [u8], number: u64, at: u32, cache: Uuid, position: Position) {
    let position = U64::new(position.0);
    put(block, number, at, RawSlot { position, cache: U32::new(tag(cache)), ..RawSlot::default() });
}

fn put(block: &mut [u8], number: u64, at: u32, raw: RawSlot) {
    let (sector, place) = place(at);
    block[place..place + size_of::<RawSlot>()].copy_from_slice(raw.as_bytes());
    let sectors = (BLOCK_BYTES / SECTOR_BYTES) as u64;
    let sequence = number * sectors + (sector / SECTOR_BYTES) as u64;
    block::seal(&mut block[sector..sector + SECTOR_BYTES], MAGIC, sequence);
}

/// The entry at place `at` of a block whose sectors were [proved](prove). `None` for an empty slot, and for
/// an entry of another cache.
pub fn get(block: &[u8], at: u32, cache: Uuid) -> Option<SlotEntry> {
    let raw = raw(block, at);
    (raw.flags.get() & VALID != 0 && raw.cache.get() == tag(cache)).then(|| SlotEntry {
        page: PageId(raw.page.get()),
        position: Position(raw.position.get()),
        rank: raw.rank.get(),
        dirty: raw.flags.get() & DIRTY != 0,
    })
}

/// The position that was last written to the slot at place `at`, if it is known.
pub fn last_position(block: &[u8], at: u32, cache: Uuid) -> Option<Position> {
    let raw = raw(block, at);
    (raw.cache.get() == tag(cache)).then(|| Position(raw.position.get()))
}

fn raw(block: &[u8], at: u32) -> &RawSlot {
    let (_, place) = place(at);
    RawSlot::ref_from_bytes(&block[place..place + size_of::<RawSlot>()])
        .expect("an entry lies within its block")
}

/// Proves each sector of the `number`th block. A sector that was never written or is damaged becomes an empty
/// one. Returns the faults of the damaged sectors.
pub fn prove(block: &mut [u8], number: u64) -> Vec<BlockFault> {
    let sectors = (BLOCK_BYTES / SECTOR_BYTES) as u64;
    let mut faults = Vec::new();
    for (at, sector) in block.chunks_exact_mut(SECTOR_BYTES).enumerate() {
        let sequence = number * sectors + at as u64;
        let fault = match block::open(sector, MAGIC) {
            Ok(header) if header.sequence.get() == sequence => continue,
            Ok(header) => BlockFault::Field { field: "sector", found: header.sequence.get() },
            Err(fault) => fault,
        };
        sector.fill(0);
        block::seal(sector, MAGIC, sequence);
        if fault != BlockFault::Blank {
            faults.push(fault);
        }
    }
    faults
}
