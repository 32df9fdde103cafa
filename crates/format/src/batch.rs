//! The summary of a batch: which pages are in which slots from now on, and which slots are empty. It is one
//! block in a ring of its own, and is written with the pages that it names. Batch `n` is at place `n mod
//! places` (docs/FORMAT.md has the tables).
//!
//! A summary repeats what another one says, usually that of the batch before, so one of them may be damaged.
//! Of a batch that was not durable when the newest summary was written, each page is proved; if one is not as
//! the summary says, the batch counts as never written.

use crate::block::{self, BLOCK_BYTES, BlockFault, BlockHeader, Uuid};
use crate::owners_log::{LOG_POSITION_BYTES, LogPosition, RawLogPosition};
use arrayvec::ArrayVec;
use entresol_core::{BATCH_EMPTIED_MAX, BATCH_PAGES_MAX, OlderSlot, PageId, SlotId};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Magic of a summary.
pub const MAGIC: [u8; 8] = *b"ENTRBTCH";
/// Fewest places of the ring.
pub const PLACES_MIN: u64 = 64;
/// Slots for each place of the ring.
pub const SLOTS_OF_A_PLACE: u64 = 32;

const DIRTY: u32 = 1;
const LEAVES: u32 = 2;
/// Where the low byte of the version's number is in an entry's flags.
const GENERATION_SHIFT: u32 = 8;
/// No slot.
const NONE: u32 = u32::MAX;

/// The fixed part as stored.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawBatch {
    pub(crate) header: BlockHeader,
    pub(crate) cache: Uuid,
    pub(crate) epoch: U64,
    pub(crate) durable: U64,
    pub(crate) pages: U32,
    pub(crate) emptied: U32,
    pub(crate) pages_before: U32,
    pub(crate) emptied_before: U32,
    pub(crate) repeats: U64,
}

/// An entry as stored.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawPlaced {
    pub(crate) page: U64,
    pub(crate) slot: U32,
    pub(crate) from: U32,
    pub(crate) checksum: U32,
    pub(crate) flags: U32,
}

const FIXED: usize = size_of::<RawBatch>();
const ENTRY: usize = size_of::<RawPlaced>();
const SLOT: usize = size_of::<U32>();
const LOG_AT: usize = BLOCK_BYTES - LOG_POSITION_BYTES;
const _: () = assert!(FIXED == 88 && ENTRY == 24);
const _: () = assert!(FIXED + 2 * (BATCH_PAGES_MAX * ENTRY + BATCH_EMPTIED_MAX * SLOT) <= LOG_AT);

/// The fixed part of a summary, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Number of the batch, counted from the first ever.
    pub number: u64,
    /// The cache it belongs to.
    pub cache: Uuid,
    /// The epoch in which it was written.
    pub epoch: u64,
    /// All batches below this number were durable when the summary was written.
    pub durable: u64,
    /// How far the owner's log was, at least: the pages depend on no record after it.
    pub log: LogPosition,
}

/// A page that is in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The page.
    pub page: PageId,
    /// Its slot.
    pub slot: SlotId,
    /// The slot that an older version of it was in, and that is empty.
    pub from: Option<OlderSlot>,
    /// Its checksum: as in its header, or of a page that does not name itself.
    pub checksum: u32,
    /// The low byte of its stamp.
    pub generation: u8,
    /// Newer than disk.
    pub dirty: bool,
}

/// What a batch changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Slots with their pages.
    pub pages: ArrayVec<Placed, BATCH_PAGES_MAX>,
    /// Empty slots.
    pub emptied: ArrayVec<SlotId, BATCH_EMPTIED_MAX>,
}

impl Changes {
    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.emptied.is_empty()
    }
}

/// Writes a summary into `block`, [`BLOCK_BYTES`] long. `repeated`: what another batch changes, with its
/// number.
pub fn encode(block: &mut [u8], head: &Head, changes: &Changes, repeated: Option<(u64, &Changes)>) {
    let nothing = Changes::default();
    let (repeats, before) = repeated.unwrap_or((0, &nothing));
    let raw = RawBatch {
        header: BlockHeader::default(),
        cache: head.cache,
        epoch: U64::new(head.epoch),
        durable: U64::new(head.durable),
        pages: U32::new(changes.pages.len() as u32),
        emptied: U32::new(changes.emptied.len() as u32),
        pages_before: U32::new(before.pages.len() as u32),
        emptied_before: U32::new(before.emptied.len() as u32),
        repeats: U64::new(repeats),
    };
    block.fill(0);
    block[..FIXED].copy_from_slice(raw.as_bytes());
    let mut at = FIXED;
    let mut put = |bytes: &[u8]| {
        block[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    for placed in changes.pages.iter().chain(&before.pages) {
        let dirty = if placed.dirty { DIRTY } else { 0 };
        let leaves = if placed.from.is_some_and(|from| from.leaves) { LEAVES } else { 0 };
        let flags = dirty | leaves | u32::from(placed.generation) << GENERATION_SHIFT;
        let raw = RawPlaced {
            page: U64::new(placed.page.0),
            slot: U32::new(placed.slot.0),
            from: U32::new(placed.from.map_or(NONE, |from| from.slot.0)),
            checksum: U32::new(placed.checksum),
            flags: U32::new(flags),
        };
        put(raw.as_bytes());
    }
    for slot in changes.emptied.iter().chain(&before.emptied) {
        put(U32::new(slot.0).as_bytes());
    }
    block[LOG_AT..].copy_from_slice(RawLogPosition::of(head.log).as_bytes());
    block::seal(block, MAGIC, head.number);
}

/// A summary that was proved whole and undamaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The fixed part.
    pub head: Head,
    /// What the batch changes.
    pub changes: Changes,
    /// What another batch changes, with its number.
    pub repeated: Option<(u64, Changes)>,
}

/// Reads one back.
///
/// # Errors
/// What is wrong with the block.
pub fn decode(block: &[u8]) -> Result<Summary, BlockFault> {
    let header = block::open(block, MAGIC)?;
    let (raw, _) = RawBatch::ref_from_prefix(block).expect("an opened block has the structure's length");
    let [pages, before] = [raw.pages.get(), raw.pages_before.get()].map(|count| count as usize);
    let [emptied, emptied_before] = [raw.emptied.get(), raw.emptied_before.get()].map(|count| count as usize);
    for (field, found, most) in [
        ("pages", pages.max(before), BATCH_PAGES_MAX),
        ("emptied", emptied.max(emptied_before), BATCH_EMPTIED_MAX),
    ] {
        if found > most {
            return Err(BlockFault::Field { field, found: found as u64 });
        }
    }
    let slots_at = FIXED + (pages + before) * ENTRY;
    let entries = <[RawPlaced]>::ref_from_bytes(&block[FIXED..slots_at]).expect("they are whole entries");
    let slots_end = slots_at + (emptied + emptied_before) * SLOT;
    let slots = <[U32]>::ref_from_bytes(&block[slots_at..slots_end]).expect("they are whole numbers");
    let changes = |entries: &[RawPlaced], slots: &[U32]| Changes {
        pages: entries.iter().map(placed).collect(),
        emptied: slots.iter().map(|slot| SlotId(slot.get())).collect(),
    };
    let head = Head {
        number: header.sequence.get(),
        cache: raw.cache,
        epoch: raw.epoch.get(),
        durable: raw.durable.get(),
        log: RawLogPosition::read_from_bytes(&block[LOG_AT..]).expect("it is as long as a position").read(),
    };
    let told = changes(&entries[pages..], &slots[emptied..]);
    let repeated = (!told.is_empty()).then_some((raw.repeats.get(), told));
    Ok(Summary { head, changes: changes(&entries[..pages], &slots[..emptied]), repeated })
}

fn placed(raw: &RawPlaced) -> Placed {
    let leaves = raw.flags.get() & LEAVES != 0;
    let older = || OlderSlot { slot: SlotId(raw.from.get()), leaves };
    Placed {
        page: PageId(raw.page.get()),
        slot: SlotId(raw.slot.get()),
        from: (raw.from.get() != NONE).then(older),
        checksum: raw.checksum.get(),
        generation: (raw.flags.get() >> GENERATION_SHIFT) as u8,
        dirty: raw.flags.get() & DIRTY != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(seed: u64, pages: usize, emptied: usize) -> Changes {
        let placed = |at: u64| Placed {
            page: PageId(seed << 32 | at),
            slot: SlotId((seed + at) as u32),
            from: at
                .is_multiple_of(2)
                .then_some(OlderSlot { slot: SlotId(at as u32), leaves: at.is_multiple_of(4) }),
            checksum: (seed * at) as u32,
            generation: (seed + at) as u8,
            dirty: at.is_multiple_of(3),
        };
        Changes {
            pages: (0..pages as u64).map(placed).collect(),
            emptied: (0..emptied as u32).map(|at| SlotId(at * 7)).collect(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let log = LogPosition { timeline: 3, lsn: 4, digest: 5 };
        let head = Head { number: 77, cache: Uuid::from_random(1, 2), epoch: 9, durable: 70, log };
        let sizes = [(0, 0), (1, 0), (0, 1), (3, 5), (BATCH_PAGES_MAX, BATCH_EMPTIED_MAX)];
        let mut block = vec![0; BLOCK_BYTES];
        for (pages, emptied) in sizes {
            let changes = some(5, pages, emptied);
            for (pages, emptied) in sizes {
                let before = some(6, pages, emptied);
                let is_told = !before.is_empty();
                encode(&mut block, &head, &changes, Some((75, &before)));
                assert_eq!(
                    decode(&block),
                    Ok(Summary { head, changes: changes.clone(), repeated: is_told.then_some((75, before)) })
                );
            }
            encode(&mut block, &head, &changes, None);
            assert_eq!(decode(&block), Ok(Summary { head, changes, repeated: None }));
        }
    }

    #[test]
    fn impossible_counts_are_refused() {
        let head = Head { number: 1, cache: Uuid::NIL, epoch: 1, durable: 0, log: LogPosition::default() };
        let mut block = vec![0; BLOCK_BYTES];
        for (at, count) in [(64, BATCH_PAGES_MAX), (68, BATCH_EMPTIED_MAX), (72, 9999), (76, 1 << 30)] {
            encode(&mut block, &head, &some(1, 2, 2), None);
            block[at..at + 4].copy_from_slice(&(count as u32 + 1).to_le_bytes());
            block::seal(&mut block, MAGIC, 1);
            assert!(matches!(decode(&block), Err(BlockFault::Field { .. })), "{at}");
        }
    }
}
