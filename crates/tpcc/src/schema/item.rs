//! ITEM (clause 1.3).

use super::{Cents, ItemId, Text};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Primary key.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(C)]
pub struct ItemKey {
    /// I_ID.
    pub item: ItemId,
}

/// The other columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ItemRow {
    /// I_IM_ID.
    pub image: U32,
    /// I_NAME.
    pub name: Text<24>,
    /// I_PRICE.
    pub price: Cents,
    /// I_DATA: 26 to 50 bytes; one in ten contains "ORIGINAL".
    pub data: Text<50>,
}
