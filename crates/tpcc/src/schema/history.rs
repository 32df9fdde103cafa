//! HISTORY (clause 1.3). It has no primary key there.

use super::{Cents, CustomerId, DistrictId, Text, Timestamp, WarehouseId};
use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Our key: rows lie in the order in which they came, as in a heap, so that all inserts meet in one page.
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
    Unaligned,
)]
#[repr(C)]
pub struct HistoryKey {
    /// 0 for the load; each run takes the next number that is free.
    pub session: U32,
    /// Number of the payment within its session.
    pub sequence: U64,
}

/// The columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct HistoryRow {
    /// H_C_ID.
    pub customer: CustomerId,
    /// H_C_D_ID: the customer's district.
    pub customer_district: DistrictId,
    /// H_C_W_ID: the customer's warehouse.
    pub customer_warehouse: WarehouseId,
    /// H_D_ID: the district paid at.
    pub district: DistrictId,
    /// H_W_ID: the warehouse paid at.
    pub warehouse: WarehouseId,
    /// H_DATE.
    pub date: Timestamp,
    /// H_AMOUNT.
    pub amount: Cents,
    /// H_DATA: names of the warehouse and the district.
    pub data: Text<24>,
}
