//! WAREHOUSE (clause 1.3).

use super::{Address, Cents, Rate, Text, WarehouseId};
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
pub struct WarehouseKey {
    /// W_ID.
    pub warehouse: WarehouseId,
}

/// The other columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct WarehouseRow {
    /// W_NAME.
    pub name: Text<10>,
    /// W_STREET_1 to W_ZIP.
    pub address: Address,
    /// W_TAX, 0 to 20 %.
    pub tax: Rate,
    /// W_YTD: payments received.
    pub ytd: Cents,
}
