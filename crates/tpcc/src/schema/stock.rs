//! STOCK (clause 1.3).

use super::{DistrictId, ItemId, Text, WarehouseId};
use zerocopy::little_endian::{I16, U32};
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
pub struct StockKey {
    /// S_W_ID.
    pub warehouse: WarehouseId,
    /// S_I_ID.
    pub item: ItemId,
}

/// The other columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct StockRow {
    /// S_QUANTITY.
    pub quantity: I16,
    /// S_DIST_01 to S_DIST_10.
    pub districts: [Text<24>; 10],
    /// S_YTD: pieces sold.
    pub ytd: U32,
    /// S_ORDER_CNT.
    pub orders: U32,
    /// S_REMOTE_CNT.
    pub remote_orders: U32,
    /// S_DATA: 26 to 50 bytes; one in ten contains "ORIGINAL".
    pub data: Text<50>,
}

impl StockRow {
    /// S_DIST_xx of the district.
    pub fn district_info(&self, district: DistrictId) -> &Text<24> {
        &self.districts[usize::from(district.get()) - 1]
    }
}
