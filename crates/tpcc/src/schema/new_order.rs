//! NEW-ORDER: the orders not delivered yet (clause 1.3).

use super::{DistrictId, OrderId, WarehouseId};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Primary key; there are no other columns.
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
pub struct NewOrderKey {
    /// NO_W_ID.
    pub warehouse: WarehouseId,
    /// NO_D_ID.
    pub district: DistrictId,
    /// NO_O_ID.
    pub order: OrderId,
}

impl NewOrderKey {
    /// A key that no row ever has. Its lock serialises the deliveries of a warehouse.
    pub const fn delivery_lock(warehouse: WarehouseId) -> Self {
        Self { warehouse, district: DistrictId::new(0), order: OrderId::new(0) }
    }
}
