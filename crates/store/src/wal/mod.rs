//! The write-ahead log: a circular area on its own device.
//!
//! * [`record`]: the format of a record.
//! * [`log`]: the door: appends to memory, and flushes in groups.
//! * [`tail`]: the records in memory. [`turns`]: the order of writes to the device.
//! * [`room`]: reserved room. [`ledger`]: bytes of the area in use and reserved.
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
//!    epoch grows with each restart, so leftovers after the end are never mistaken for records. After padding
//!    a record must be the first of its flush, so a torn flush is never taken up after the torn sector. If
//!    there is proof that the log was durable beyond this place, the log is damaged and refused ([`hole`]).
//! 4. Nothing at or after the oldest needed LSN is overwritten.
//! 5. Flushes and writes of the master record take turns, and the first failure is permanent. A failed sync
//!    may have lost any earlier write of any task, and a later successful sync does not disprove that.

pub(crate) mod blocks;
mod grow;
pub(crate) mod hole;
pub(crate) mod ledger;
pub(crate) mod log;
pub(crate) mod master;
#[cfg(all(test, feature = "shuttle"))]
mod models;
pub(crate) mod record;
mod ring;
pub(crate) mod room;
pub(crate) mod scan;
pub(crate) mod session;
pub(crate) mod tail;
#[cfg(test)]
mod tests;
mod turns;
mod windows;

pub(crate) use log::{Wal, log_area};
pub(crate) use record::{RecordHeader, RecordKind};
pub(crate) use ring::FIRST_LSN;
#[cfg(test)]
pub(crate) use ring::LOG_START;
pub(crate) use room::Room;
pub(crate) use tail::Draft;
