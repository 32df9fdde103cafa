//! The write-ahead log: a circular area on its own device.
//!
//! * [`record`]: the format of a record.
//! * [`log`]: appends to memory, and flushes in groups.
//! * [`scan`]: reads records.
//! * [`hole`]: distinguishes the log's end from damage.
//! * [`ring`]: the positions of log bytes on the device.
//! * [`master`], [`blocks`]: the two blocks at the device's start that name the newest checkpoint.
//! * [`session`]: which state of the disk belongs to which state of the log.
//! * [`grow`]: moves the log into the larger area of a larger device.
//!
//! Invariants:
//! 1. A record's LSN is its byte position in the endless stream of log bytes. The record is at `LOG_START +
//!    (lsn + shift) mod area`.
//! 2. One flush is in progress at a time. Each flush starts on a sector boundary; the rest of its last sector
//!    is padding. So a sector with durable records is never written again, and no torn write can damage them.
//!    "Sector" is the unit in the master record since the log was created, not that of the device on which
//!    the log is opened.
//! 3. The end of the log is the first place without a record that has the right LSN, checksum and epoch. The
//!    epoch grows with each restart, so leftovers after the end are never mistaken for records. If there is
//!    proof that the log was durable beyond this place, the log is damaged and refused ([`hole`]).
//! 4. Nothing at or after the oldest needed LSN is overwritten.
//! 5. Flushes and writes of the master record take turns, and the first failure is permanent. A failed sync
//!    may have lost any earlier write of any task, and a later successful sync does not disprove that.

mod blocks;
mod grow;
mod hole;
pub(crate) mod log;
pub(crate) mod master;
#[cfg(all(test, feature = "shuttle"))]
mod models;
pub(crate) mod record;
mod ring;
pub(crate) mod scan;
pub(crate) mod session;
#[cfg(test)]
mod tests;
mod windows;

pub(crate) use log::Wal;
pub(crate) use record::{RecordHeader, RecordKind};

/// Device offset of the circular area.
pub(crate) const LOG_START: u64 = 8192;
/// Fills the rest of a sector after the last record of a flush. It is not zero: a sector that has lost its
/// records, and reads as zeros, must not look like padding. It is neither [`ring::UNREADABLE`] nor the value
/// that erased flash reads as.
pub(crate) const PADDING: u8 = 0x3d;
/// LSN of a new log's first record: a page that was never changed has LSN 0.
pub(crate) const FIRST_LSN: u64 = 4096;

/// All LSNs are below this, so that sums of LSNs and lengths cannot overflow. At a gigabyte a second, that is
/// sufficient for 73 years.
pub(crate) const LSN_MAX: u64 = 1 << 61;
