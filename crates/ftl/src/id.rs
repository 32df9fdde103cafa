//! Names of places in flash and in the address space that a translation layer offers.

/// A logical page: its number in the address space that the translation layer offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lpn(pub u32);

/// A physical page: block number × pages of a block + place in the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ppn(pub u32);

/// An erase block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u32);

/// No page, no block: the number that is never given to one.
pub(crate) const NONE: u32 = u32::MAX;
