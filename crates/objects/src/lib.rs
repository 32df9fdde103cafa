//! A table of objects as a sans-I/O state machine.
//!
//! An *object* is dropped or truncated by a database as a whole: a relation's fork, or a volume. The table
//! maps its [`Locator`] to an [`ObjectId`], the high half of a page id. It knows which pages of an object are
//! dead, at a cost that does not depend on their number: [`Objects::retire`] makes all of them dead,
//! [`Objects::cut`] those from a page number on that entered below a position.
//!
//! A *rear* is the position that the ring gives to its next page. All pages of an object that is retired have
//! positions below the rear of that moment. So the caller gives it once, at the retirement, and the table
//! notes nothing when a page enters. A position noted for each page would have to survive a crash, too; the
//! rear is an upper bound that does.
//!
//! The state is in one flat region, linked by index, which may be attached at any address. Changes are
//! recorded in a log on flash; snapshots of the whole table free the log (docs/FORMAT.md has the blocks). The
//! caller does the I/O: it holds its latch for each call, and not while it reads or writes.
//!
//! Invariants:
//!
//! 1. At most one live object has a given locator.
//! 2. A retired number is free only after the durable front has passed its rear. Until then it is neither
//!    found nor given to another object. So no page on flash has the number of another object than its own.
//! 3. Records have consecutive sequence numbers. Recovery finds all records up to one of them, and none
//!    later: at least the acknowledged ones, at most the made ones.
//! 4. A log block is written once, to the same place of both copies. Its place is written again only after a
//!    snapshot that covers its records is durable. So a torn write harms only records that were not
//!    acknowledged.
//! 5. A block of the log after a snapshot is handed out only after the snapshot is durable. So the log has no
//!    block whose predecessor is covered by an unfinished snapshot alone.
//! 6. A snapshot is written to the area of the older one, in both copies. So a torn snapshot leaves the newer
//!    one, and the log since then.
//! 7. The first thing written after a recovery is a snapshot. Its number, and the one that its log begins
//!    with, are above those of all snapshots and blocks that may be there, readable or not. So a leftover of
//!    a lost write is never taken for a later one.
//! 8. Whatever is acknowledged is whole in both copies. So one damaged or unreadable block loses nothing.
//!
//! Rules for the caller:
//!
//! 1. [`Objects::pending`] is [`Pending::Nothing`], or [`Objects::durable`] has reached the sequence of the
//!    definition, before the first group that names the object is synced.
//! 2. No page of an object gets a position after the object was retired.
//! 3. A slot of a dead page is released only after its retirement or cut is durable, or something else makes
//!    sure that the database never asks for the page again.
//! 4. The areas are synced before they are read for a recovery. The program alone may have been killed: it
//!    may then read blocks that a power failure takes away later.
//! 5. A block or a snapshot is written to both copies, and synced, before it is acknowledged and before the
//!    next write to its place begins.
//! 6. After a recovery no page gets a position before [`Objects::pending`] is [`Pending::Nothing`]. Before
//!    that snapshot is written, what [`Recovered::repair`] says is copied and synced.
#![forbid(unsafe_code)]

mod blocks;
mod check;
mod config;
mod copies;
mod entry;
mod fault;
mod log;
mod recover;
mod region;
mod snapshot;
mod table;

pub use config::{COPIES, ConfigError, LOG_BLOCKS_MIN, OBJECTS_MAX, ObjectsConfig};
pub use copies::{Damaged, Part, SnapshotRepair, TableCopy};
pub use entry::{CUTS_MAX, LOCATOR_BYTES, Locator};
pub use fault::{RecordFault, RecoverError, SnapshotFault};
pub use log::{LogToken, LogWrite, Pending, Sequence};
pub use recover::Recovered;
pub use region::{LOG_BUFFERS, Shape, region_bytes};
pub use snapshot::{SnapshotArea, SnapshotToken, SnapshotWrite};
pub use table::{CutOutcome, Full, ObjectId, Objects, Usage};
