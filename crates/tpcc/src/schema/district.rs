//! DISTRICT (clause 1.3).

use super::{Address, Cents, DistrictId, OrderId, Rate, Text, WarehouseId};
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
pub struct DistrictKey {
    /// D_W_ID.
    pub warehouse: WarehouseId,
    /// D_ID.
    pub district: DistrictId,
}

/// The other columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct DistrictRow {
    /// D_NAME.
    pub name: Text<10>,
    /// D_STREET_1 to D_ZIP.
    pub address: Address,
    /// D_TAX, 0 to 20 %.
    pub tax: Rate,
    /// D_YTD: payments received.
    pub ytd: Cents,
    /// D_NEXT_O_ID: the next order's number.
    pub next_order: OrderId,
}
