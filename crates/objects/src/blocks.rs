//! The blocks on flash, as stored (docs/FORMAT.md has the tables).

use entresol_format::block::{BLOCK_BYTES, BlockHeader, Uuid};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Magic of a log block.
pub(crate) const LOG_MAGIC: [u8; 8] = *b"ENTROLOG";
/// Magic of a snapshot's header.
pub(crate) const SNAPSHOT_MAGIC: [u8; 8] = *b"ENTROSNP";

/// A block.
pub(crate) type Block = [u8; BLOCK_BYTES];

/// Records of a full log block.
pub(crate) const RECORDS_IN_BLOCK: usize = 125;
/// Objects of a full block of a snapshot.
pub(crate) const OBJECTS_IN_BLOCK: usize = BLOCK_BYTES / size_of::<RawObject>();

/// An object defined.
pub(crate) const DEFINE: u32 = 1;
/// An object retired.
pub(crate) const RETIRE: u32 = 2;
/// An object cut.
pub(crate) const CUT: u32 = 3;

/// A log block as stored.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawLog {
    pub header: BlockHeader,
    pub cache: Uuid,
    pub first: U64,
    pub front: U64,
    pub durable: U64,
    pub snapshot: U64,
    pub count: U32,
    pub reserved: U32,
    pub records: [RawRecord; RECORDS_IN_BLOCK],
    pub zero: [u8; 8],
}

/// A record as stored.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawRecord {
    pub kind: U32,
    pub object: U32,
    pub body: [u8; 24],
}

/// What follows the object's number in a record of a retirement or a cut.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawBound {
    pub rear: U64,
    pub number: U32,
    pub zero: [u8; 12],
}

/// The header of a snapshot as stored.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawSnapshot {
    pub header: BlockHeader,
    pub cache: Uuid,
    pub last: U64,
    pub log_from: U64,
    pub front: U64,
    pub log_blocks: U32,
    pub objects: U32,
    pub checksum: U32,
    pub zero: [u8; 4012],
}

/// An object as stored.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawObject {
    pub locator: [u8; 24],
    pub state: U32,
    pub high: U32,
    pub numbers: [U32; 4],
    pub rears: [U32; 4],
}

const _: () = assert!(size_of::<RawLog>() == BLOCK_BYTES && size_of::<RawRecord>() == 32);
const _: () = assert!(size_of::<RawBound>() == 24);
const _: () = assert!(size_of::<RawSnapshot>() == BLOCK_BYTES && size_of::<RawObject>() == 64);

#[cfg(test)]
mod tests {
    use super::*;
    use entresol_format::table;
    use entresol_format::tables::assert_documented;

    #[test]
    fn the_documentation_agrees_with_the_types() {
        assert_documented(&[
            table!("Object log block", RawLog,
                header cache first front durable snapshot count reserved records zero),
            table!("Object record", RawRecord, kind object body),
            table!("Bound", RawBound, rear number zero),
            table!("Object snapshot", RawSnapshot,
                header cache last log_from front log_blocks objects checksum zero),
            table!("Stored object", RawObject, locator state high numbers rears),
        ]);
    }
}
