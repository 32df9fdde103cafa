//! The write-ahead log: a circular area on its own device.
//!
//! * [`record`]: what a record looks like.
//! * [`log`]: appending to memory, and making it durable in groups.
//! * [`scan`]: reading records back.
//! * [`hole`]: telling the log's end from damage.
//! * [`ring`]: where log bytes lie on the device.
//! * [`master`], [`blocks`]: the two blocks at the device's start that name the newest checkpoint.
//! * [`session`]: which state of the disk goes with which state of the log.
//! * [`grow`]: moving the log into the larger area of a larger device.
//!
//! Invariants:
//! 1. A record's LSN is its byte position in the endless stream of log bytes; it lies at `LOG_START + (lsn +
//!    shift) mod area`.
//! 2. One flush is under way at a time and each starts on a sector boundary, the rest of the last sector
//!    being padding. So a sector that holds durable records is never written again, and no torn write can
//!    harm them. "Sector" is the unit that the master record has named since the log was created, not that of
//!    the device on which the log is opened.
//! 3. The end of the log is the first place where no record with the right LSN, checksum and epoch is found.
//!    The epoch grows with each restart, so that leftovers after the end are never taken for records. If
//!    something proves that the log was durable beyond this place, the log is damaged and refused ([`hole`]).
//! 4. Nothing at or behind the oldest LSN that is needed is overwritten.
//! 5. Flushes and writes of the master record take turns, and the first failure is for good: a sync that
//!    fails may have lost whatever was written before it, by whomever, and a later one that succeeds says
//!    nothing of that.

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

/// Where the circular area begins on the device.
pub(crate) const LOG_START: u64 = 8192;
/// Fills the rest of a sector behind the last record of a flush. Not zero: a sector that has lost its
/// records, and reads as zeros, is no padding. Nor is it [`ring::UNREADABLE`], or what erased flash reads as.
pub(crate) const PADDING: u8 = 0x3d;
/// LSN of a new log's first record: a page that was never changed has LSN 0.
pub(crate) const FIRST_LSN: u64 = 4096;

/// LSNs stay below this, so that sums of them and lengths cannot overflow: at a gigabyte a second, for 73
/// years.
pub(crate) const LSN_MAX: u64 = 1 << 61;
