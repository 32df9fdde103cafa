//! ORDER-LINE (clause 1.3).

use super::{Cents, DistrictId, ItemId, LineNumber, OrderId, Text, Timestamp, WarehouseId};
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
pub struct OrderLineKey {
    /// OL_W_ID.
    pub warehouse: WarehouseId,
    /// OL_D_ID.
    pub district: DistrictId,
    /// OL_O_ID.
    pub order: OrderId,
    /// OL_NUMBER.
    pub line: LineNumber,
}

impl OrderLineKey {
    /// The lower bound of the keys of the lines of this order and of all later orders.
    pub const fn first_of(warehouse: WarehouseId, district: DistrictId, order: OrderId) -> Self {
        Self { warehouse, district, order, line: LineNumber::new(0) }
    }
}

/// The other columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct OrderLineRow {
    /// OL_I_ID.
    pub item: ItemId,
    /// OL_SUPPLY_W_ID.
    pub supply: WarehouseId,
    /// OL_DELIVERY_D.
    pub delivery: Timestamp,
    /// OL_QUANTITY.
    pub quantity: u8,
    /// OL_AMOUNT.
    pub amount: Cents,
    /// OL_DIST_INFO.
    pub district_info: Text<24>,
}
