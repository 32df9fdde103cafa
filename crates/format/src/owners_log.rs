//! How far the log of a cache's owner was: the dependence of a cache, and how a later open recognises that
//! log (docs/FORMAT.md, "Position in the owner's log").

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A place in the owner's log, and a digest of the bytes before it. All zeros: the owner has no log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogPosition {
    /// Timeline of the log.
    pub timeline: u32,
    /// All records that end here or before were durable.
    pub lsn: u64,
    /// Digest of the bytes before `lsn`, from a beginning that the owner knows.
    pub digest: u64,
}

impl LogPosition {
    /// The later one.
    pub fn max(self, other: Self) -> Self {
        if other.lsn > self.lsn { other } else { self }
    }
}

/// A [`LogPosition`] as stored.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawLogPosition {
    pub(crate) timeline: U32,
    pub(crate) reserved: U32,
    pub(crate) lsn: U64,
    pub(crate) digest: U64,
}

/// Bytes of a stored position.
pub const LOG_POSITION_BYTES: usize = size_of::<RawLogPosition>();

const _: () = assert!(LOG_POSITION_BYTES == 24);

impl RawLogPosition {
    /// `position` as stored.
    pub fn of(position: LogPosition) -> Self {
        let LogPosition { timeline, lsn, digest } = position;
        Self {
            timeline: U32::new(timeline),
            reserved: U32::new(0),
            lsn: U64::new(lsn),
            digest: U64::new(digest),
        }
    }

    /// The position.
    pub fn read(&self) -> LogPosition {
        LogPosition { timeline: self.timeline.get(), lsn: self.lsn.get(), digest: self.digest.get() }
    }
}
