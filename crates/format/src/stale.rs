//! Records of forgotten pages, in the summaries of groups and in directory segments.

use entresol_core::{Forgotten, PageId, Position};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a record.
pub const STALE_BYTES: usize = size_of::<RawStale>();

/// A record as stored: the copies of these pages at positions below `below` are stale.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawStale {
    pub(crate) first: U64,
    pub(crate) last: U64,
    pub(crate) below: U64,
}

const _: () = assert!(STALE_BYTES == 24);

impl RawStale {
    /// `record` as stored. What made the pages dead is not stored: it is durable by now.
    pub fn of(record: &Forgotten) -> Self {
        let Forgotten { first, last, below, .. } = *record;
        Self { first: U64::new(first.0), last: U64::new(last.0), below: U64::new(below.0) }
    }

    /// The record. `None`: its values are impossible.
    pub fn read(&self) -> Option<Forgotten> {
        let (first, last) = (PageId(self.first.get()), PageId(self.last.get()));
        (first <= last).then_some(Forgotten { first, last, below: Position(self.below.get()), after: 0 })
    }
}
