//! Identifiers as types.
//!
//! Invariant: identifiers are stored big-endian, in keys and in rows. So the byte order of keys is the order
//! of the tuples of their identifiers.

use std::fmt;
use zerocopy::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Derives shared by all types that are stored in a key or a row.
macro_rules! wide_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
            Unaligned,
        )]
        #[repr(transparent)]
        pub struct $name(U32);

        impl $name {
            /// The identifier with this number.
            pub const fn new(number: u32) -> Self {
                Self(U32::new(number))
            }
            /// Its number.
            pub const fn get(self) -> u32 {
                self.0.get()
            }
            /// The identifier that follows.
            pub const fn next(self) -> Self {
                Self::new(self.get() + 1)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.get())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.get())
            }
        }
    };
}

macro_rules! narrow_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
            Unaligned,
        )]
        #[repr(transparent)]
        pub struct $name(u8);

        impl $name {
            /// The identifier with this number.
            pub const fn new(number: u8) -> Self {
                Self(number)
            }
            /// Its number.
            pub const fn get(self) -> u8 {
                self.0
            }
            /// The identifier that follows.
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

wide_id! {
    /// A warehouse, from 1.
    WarehouseId
}
wide_id! {
    /// A customer within its district, from 1.
    CustomerId
}
wide_id! {
    /// An item, from 1.
    ItemId
}
wide_id! {
    /// An order within its district, from 1.
    OrderId
}
narrow_id! {
    /// A district within its warehouse, `1 ..= 10`.
    DistrictId
}
narrow_id! {
    /// A line within its order, from 1.
    LineNumber
}
narrow_id! {
    /// The carrier of an order, `1 ..= 10`; 0 represents the specification's null: not delivered yet.
    CarrierId
}

impl CarrierId {
    /// Not delivered yet.
    pub const NULL: CarrierId = CarrierId(0);

    /// Whether the order has not been delivered.
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }
}

impl DistrictId {
    /// The districts of a warehouse, in order.
    pub fn all() -> impl Iterator<Item = DistrictId> {
        (1..=crate::scale::DISTRICTS).map(DistrictId)
    }
}
