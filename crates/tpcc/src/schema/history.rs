//! HISTORY (clause 1.3). It has no primary key there.

use super::{Cents, CustomerId, DistrictId, Text, Timestamp, WarehouseId};
use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Our key: rows are stored in the order of their inserts, as in a heap, so all inserts are into the same
/// page.
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
    /// 0 for the load; each run takes the next unused number.
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
    /// H_D_ID: the district of the payment.
    pub district: DistrictId,
    /// H_W_ID: the warehouse of the payment.
    pub warehouse: WarehouseId,
    /// H_DATE.
    pub date: Timestamp,
    /// H_AMOUNT.
    pub amount: Cents,
    /// H_DATA: names of the warehouse and the district.
    pub data: Text<24>,
}
