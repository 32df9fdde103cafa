//! ORDER and its index by customer (clause 1.3).

use super::{CarrierId, CustomerId, DistrictId, OrderId, Timestamp, WarehouseId};
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
pub struct OrderKey {
    /// O_W_ID.
    pub warehouse: WarehouseId,
    /// O_D_ID.
    pub district: DistrictId,
    /// O_ID.
    pub order: OrderId,
}

/// The other columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct OrderRow {
    /// O_C_ID.
    pub customer: CustomerId,
    /// O_ENTRY_D.
    pub entry: Timestamp,
    /// O_CARRIER_ID.
    pub carrier: CarrierId,
    /// O_OL_CNT: number of lines.
    pub lines: u8,
    /// O_ALL_LOCAL: 1 if the home warehouse supplies all items, else 0.
    pub all_local: u8,
}

/// Key of the index by customer, oldest order first; its rows are empty.
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
pub struct CustomerOrderKey {
    /// O_W_ID.
    pub warehouse: WarehouseId,
    /// O_D_ID.
    pub district: DistrictId,
    /// O_C_ID.
    pub customer: CustomerId,
    /// O_ID.
    pub order: OrderId,
}
