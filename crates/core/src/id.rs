//! The terms of the field as types.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A page of the database: a 32-bit object (relation, file, volume) and a 32-bit page number within it.
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
)]
#[repr(transparent)]
pub struct PageId(pub u64);

impl PageId {
    /// The page `number` of `object`.
    pub const fn new(object: u32, number: u32) -> Self {
        Self((object as u64) << 32 | number as u64)
    }
    /// Relation, file or volume.
    pub const fn object(self) -> u32 {
        (self.0 >> 32) as u32
    }
    /// Page number within the object.
    pub const fn number(self) -> u32 {
        self.0 as u32
    }
}

impl std::fmt::Display for PageId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.object(), self.number())
    }
}

/// Log sequence number: a byte position in the write-ahead log.
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
)]
#[repr(transparent)]
pub struct Lsn(pub u64);

/// A page-sized place on flash, `0 .. slots`.
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
)]
#[repr(transparent)]
pub struct SlotId(pub u32);

/// The number of pages that entered the flash before this one. With log placement, slot = position mod slots.
/// It is the cache's own version number (*generation*). It orders the versions of a page, which an LSN need
/// not do (hint bits).
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
)]
#[repr(transparent)]
pub struct Position(pub u64);

impl Position {
    /// The highest possible position: a cache that admits a million pages a second reaches it after 146,000
    /// years.
    pub const MAX: Position = Position(1 << 62);
}
