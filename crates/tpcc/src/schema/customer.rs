//! CUSTOMER and its index by name (clause 1.3).

use super::{Address, Cents, CustomerId, DistrictId, Rate, Text, Timestamp, WarehouseId};
use zerocopy::little_endian::{U16, U32};
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
pub struct CustomerKey {
    /// C_W_ID.
    pub warehouse: WarehouseId,
    /// C_D_ID.
    pub district: DistrictId,
    /// C_ID.
    pub customer: CustomerId,
}

/// The other columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct CustomerRow {
    /// C_FIRST.
    pub first: Text<16>,
    /// C_MIDDLE: always "OE".
    pub middle: Text<2>,
    /// C_LAST: three syllables.
    pub last: Text<16>,
    /// C_STREET_1 to C_ZIP.
    pub address: Address,
    /// C_PHONE: 16 digits.
    pub phone: Text<16>,
    /// C_SINCE.
    pub since: Timestamp,
    /// C_CREDIT: "GC" (good) or "BC" (bad).
    pub credit: Text<2>,
    /// C_CREDIT_LIM in cents: 50,000.00 for all, and no transaction changes it.
    pub credit_limit: U32,
    /// C_DISCOUNT, 0 to 50 %.
    pub discount: Rate,
    /// C_BALANCE.
    pub balance: Cents,
    /// C_YTD_PAYMENT.
    pub ytd_payment: Cents,
    /// C_PAYMENT_CNT.
    pub payments: U16,
    /// C_DELIVERY_CNT.
    pub deliveries: U16,
    /// C_DATA: 300 to 500 bytes of miscellaneous text.
    pub data: Text<500>,
}

/// Key of the index by name; its rows are empty. Because of the zero padding, shorter names are first, as in
/// text order.
#[derive(
    Clone,
    Copy,
    Debug,
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
pub struct CustomerNameKey {
    /// C_W_ID.
    pub warehouse: WarehouseId,
    /// C_D_ID.
    pub district: DistrictId,
    /// C_LAST.
    pub last: Text<16>,
    /// C_FIRST.
    pub first: Text<16>,
    /// C_ID.
    pub customer: CustomerId,
}
