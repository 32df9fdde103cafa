//! What recovery may find wrong.

use crate::config::{COPIES, ConfigError};
use crate::snapshot::SnapshotArea;
use entresol_core::Position;
use entresol_format::block::{BlockFault, Uuid};
use thiserror::Error;

/// Why there is no table.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RecoverError {
    /// The configuration or the region is impossible.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The log area has another length.
    #[error("the object log has {found} bytes, expected {expected}")]
    LogBytes {
        /// Bytes of the configured log.
        expected: u64,
        /// Bytes given.
        found: u64,
    },
    /// No area holds a whole snapshot of this cache.
    #[error(
        "no snapshot of the objects is whole: in the even area {}, in its copy {}; in the odd area {}, in its \
         copy {}",
        even[0], even[1], odd[0], odd[1]
    )]
    NoSnapshot {
        /// Why the even area was refused, by copy.
        even: Box<[SnapshotFault; COPIES]>,
        /// Why the odd area was refused, by copy.
        odd: Box<[SnapshotFault; COPIES]>,
    },
    /// A whole snapshot says something impossible.
    #[error("the snapshot of the objects in the {area} area: {fault}")]
    Snapshot {
        /// Where it is.
        area: SnapshotArea,
        /// The fault.
        fault: BlockFault,
    },
    /// The snapshot is that of a larger table.
    #[error("the snapshot in the {area} area has {found} objects, the table has room for {expected}")]
    TooManyObjects {
        /// Where it is.
        area: SnapshotArea,
        /// Objects of the configuration.
        expected: u32,
        /// Objects of the snapshot.
        found: u32,
    },
    /// The snapshot was taken with a log of another length.
    #[error("the snapshot in the {area} area has a log of {found} blocks, expected {expected}")]
    LogBlocks {
        /// Where it is.
        area: SnapshotArea,
        /// Blocks of the configured log.
        expected: u32,
        /// Blocks of the log then.
        found: u32,
    },
    /// A whole log block says something impossible.
    #[error("block {place} of the object log (copy {copy}): {fault}")]
    Log {
        /// Its place.
        place: u32,
        /// The copy that it is in, counted from 0.
        copy: usize,
        /// The fault.
        fault: BlockFault,
    },
    /// A record does not fit the table.
    #[error("change {sequence} in block {place} of the object log: {fault}")]
    Record {
        /// The block's place.
        place: u32,
        /// Sequence of the change.
        sequence: u64,
        /// The fault.
        fault: RecordFault,
    },
    /// Two live objects have the same locator.
    #[error("objects {first} and {second} have the same locator")]
    SameLocator {
        /// One of them.
        first: u32,
        /// The other one.
        second: u32,
    },
    /// Durable changes are missing.
    #[error(
        "block {place} of the object log says that the changes up to {expected} were durable; those after \
         {found} are missing"
    )]
    Lost {
        /// The block's place.
        place: u32,
        /// The changes up to this one were durable.
        expected: u64,
        /// The changes up to this one were found.
        found: u64,
    },
    /// A durable snapshot is missing.
    #[error(
        "block {place} of the object log says that snapshot {expected} was durable; the newest is {found}"
    )]
    LostSnapshot {
        /// The block's place.
        place: u32,
        /// The snapshot that was durable.
        expected: u64,
        /// The newest whole one.
        found: u64,
    },
}

/// Why an area holds no whole snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SnapshotFault {
    /// The header or the checksum of the objects is wrong.
    #[error(transparent)]
    Block(#[from] BlockFault),
    /// It is that of another cache.
    #[error("a snapshot of cache {found}, expected {expected}")]
    Cache {
        /// This cache.
        expected: Uuid,
        /// The cache found.
        found: Uuid,
    },
}

/// Why a record does not fit the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RecordFault {
    /// There is no such kind.
    #[error("kind {found} found, expected 1 to 3")]
    Kind {
        /// The kind found.
        found: u32,
    },
    /// A definition gives a number that is not free.
    #[error("object {object} is defined but its number is not free")]
    NotFree {
        /// The number.
        object: u32,
    },
    /// A retirement or a cut of no live object.
    #[error("object {object} is changed but not live")]
    NotLive {
        /// The number.
        object: u32,
    },
    /// No position.
    #[error("position {found} found, expected at most {}", Position::MAX.0)]
    Position {
        /// The number found.
        found: u64,
    },
    /// The object would have more cuts than are kept.
    #[error("object {object} is cut once too often")]
    TooManyCuts {
        /// The number.
        object: u32,
    },
}
