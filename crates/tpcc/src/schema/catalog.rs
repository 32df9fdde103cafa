//! The loader's information for later runs: the scale and the constants of the random numbers. Not part of
//! the specification.

use crate::error::TpccError;
use crate::random::Constants;
use crate::scale::Scale;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Format of the database that this version writes and reads.
const FORMAT: u32 = 1;

/// The only key.
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
pub struct CatalogKey {
    /// Always 0.
    pub number: u8,
}

/// The only row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct CatalogRow {
    format: U32,
    warehouses: U32,
    items: U32,
    customers: U32,
    last_name: U32,
    customer: U32,
    item: U32,
}

impl CatalogRow {
    /// Makes the row that describes a database.
    pub fn new(scale: Scale, load: Constants) -> Self {
        Self {
            format: U32::new(FORMAT),
            warehouses: U32::new(scale.warehouses),
            items: U32::new(scale.items),
            customers: U32::new(scale.customers),
            last_name: U32::new(load.last_name),
            customer: U32::new(load.customer),
            item: U32::new(load.item),
        }
    }

    /// Decodes the description of the database.
    pub fn read(&self) -> Result<(Scale, Constants), TpccError> {
        if self.format.get() != FORMAT {
            return Err(TpccError::Format { expected: FORMAT, found: self.format.get() });
        }
        let scale = Scale {
            warehouses: self.warehouses.get(),
            items: self.items.get(),
            customers: self.customers.get(),
        };
        let load = Constants {
            last_name: self.last_name.get(),
            customer: self.customer.get(),
            item: self.item.get(),
        };
        Ok((scale.check()?, load))
    }
}
