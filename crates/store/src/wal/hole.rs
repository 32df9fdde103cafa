//! How the log's end is distinguished from damage.
//!
//! The log ends at the first place without a whole record. After a crash that is right: a flush writes many
//! sectors, and a power failure may keep only the later ones. But a damaged sector in the middle of the log
//! looks the same, and the records after it would be lost silently. So each record *claims* an LSN that was
//! durable before the flush of the record began (the start of its part of the buffer, see [`super::tail`]).
//! The master record claims one, too. A claim beyond the place where the log ends proves damage.
//!
//! Why a claim is found if damage hits a durable place X that is not in the last part:
//!
//! 1. The part that follows begins on a sector boundary, at most [`LOOK_AHEAD`] after X: a part gets no
//!    further record once it has [`PART_BYTES`], and the longest record has [`RECORD_BYTES_MAX`].
//! 2. Its first record claims this boundary, which is beyond X.
//!
//! Damage of the last part is detected only in two cases: the master record claims that part (after a clean
//! shutdown it does), or a page on disk has an LSN beyond the log's end. The buffer pool refuses such pages
//! in the session that follows.
//!
//! The place may be unreadable: a power failure can leave unreadable sectors of a torn flush. But if
//! everything from there to the end of the look-ahead is unreadable, the device has failed, and the restart
//! ends with its error.
//!
//! Why there is no false alarm: let X be a place that is reached only over records and padding, and at which
//! no whole record [continues](RecordHeader::continues) the log. Let a whole record R after X claim C. Then
//! everything before C was durable before any byte of R was written:
//!
//! 1. *Torn flush, failed sync*: the flush of R began after a successful sync of the part before, and the
//!    first failure of the log is permanent. So C is the boundary at which the torn part begins, and X is at
//!    or after it.
//! 2. *Killed program*: the next open syncs the device before it reads. The records that it finds are
//!    durable; missing records were of a torn flush, as in 1.
//! 3. *Leftovers of an older life*: the open of that time found the end E with C <= E. Records before E are
//!    never overwritten while they are needed, and new records begin at E or the sector boundary after it. So
//!    X is at or after E. Besides, claims of records of older epochs are ignored.
//! 4. *Padding*: the first flush after an open claims the boundary after the end E, not E. The place X is
//!    determined after padding, so it is that boundary, too.
//! 5. *Leftovers of an earlier round through the area, or from before the log moved into a larger one*: their
//!    LSNs are not those of their places. If they are by chance, case 3 applies.

use super::master::Master;
use super::record::{RECORD_BYTES_MAX, RECORD_HEADER_BYTES, RecordHeader};
use super::ring::UNREADABLE;
use super::scan::LogScan;
use super::tail::PART_BYTES;
use crate::{StoreError, points};
use entresol_core::Lsn;
use entresol_device::DeviceError;

/// Maximum distance after the log's end in which claims are searched.
const LOOK_AHEAD: u64 = PART_BYTES + RECORD_BYTES_MAX as u64;

/// Refuses a log that ends at `end`, after records of up to `epoch`, if the log was durable beyond.
/// Returns the place of the end if it is unreadable: then its former content is unknown.
pub(crate) fn check_end(
    scan: &mut LogScan<'_>,
    master: &Master,
    end: Lsn,
    epoch: u32,
) -> Result<Option<Lsn>, StoreError> {
    let place = scan.past_padding(end)?;
    if let Some(error) = scan.windows.unreadable().cloned() {
        check_unreadable(scan, end, place, epoch, error)?;
    }
    let prefix = scan.bytes(place, 8, LOOK_AHEAD, 0)?;
    let unreadable = prefix.iter().all(|byte| *byte == UNREADABLE);
    let (durable, witness) = match claim_beyond(scan, place, epoch)? {
        Some((claim, at)) if claim > master.durable => (claim, format!("the record at LSN {}", at.0)),
        _ => (master.durable, "the master record".to_owned()),
    };
    if durable.0 <= place {
        return Ok(is_cut_by_unreadable(scan, place)?.then_some(Lsn(place)));
    }
    points::LOG_HOLE.reach();
    let found = if unreadable { "unreadable sectors" } else { "no whole record" };
    Err(StoreError::Corrupt {
        place: format!("log from LSN {place} on"),
        expected: format!("records up to LSN {}, which {witness} proves to have been durable", durable.0),
        found: format!("{found} at LSN {place}"),
    })
}

/// Whether a sector of the possible record at `place` is unreadable.
fn is_cut_by_unreadable(scan: &mut LogScan<'_>, place: u64) -> Result<bool, StoreError> {
    let prefix = scan.bytes(place, RECORD_HEADER_BYTES as u64, LOOK_AHEAD, 0)?;
    let length = RecordHeader::length_at(prefix, Lsn(place)).unwrap_or(RECORD_HEADER_BYTES);
    let end = place + length.min(RECORD_BYTES_MAX) as u64;
    for sector in (place / scan.sector * scan.sector..end).step_by(scan.sector as usize) {
        let from = sector.max(place);
        let bytes = scan.bytes(from, sector + scan.sector - from, LOOK_AHEAD, 0)?;
        if bytes.iter().all(|byte| *byte == UNREADABLE) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn last_looked_at(scan: &LogScan<'_>, place: u64) -> u64 {
    place + (LOOK_AHEAD + scan.sector).min(scan.area() - scan.sector)
}

/// Refuses the result of a failing device, in two cases. Either the error was temporary and the following
/// bytes are readable now: then this was not the end, unless they are leftovers of an older life. Or none
/// of the following bytes is readable.
fn check_unreadable(
    scan: &mut LogScan<'_>,
    end: Lsn,
    place: u64,
    epoch: u32,
    error: DeviceError,
) -> Result<(), StoreError> {
    scan.windows.forget();
    if scan.header(Lsn(place), LOOK_AHEAD, 0)?.is_some_and(|header| header.continues(end, epoch)) {
        return Err(StoreError::Log(error));
    }
    let last = last_looked_at(scan, place);
    for lsn in (place / scan.sector * scan.sector..=last).step_by(scan.sector as usize) {
        let bytes = scan.bytes(lsn, scan.sector, last + scan.sector - lsn, 0)?;
        if bytes.iter().any(|byte| *byte != UNREADABLE) {
            return Ok(());
        }
    }
    Err(StoreError::Log(error))
}

/// The first claim after `place` that a byte beyond `place` was durable, and the record with the claim.
fn claim_beyond(scan: &mut LogScan<'_>, place: u64, epoch: u32) -> Result<Option<(Lsn, Lsn)>, StoreError> {
    let first = (place + 1).next_multiple_of(scan.sector);
    // A search over the whole area would reach the place itscan.
    let last = last_looked_at(scan, place);
    for lsn in (first..=last).step_by(scan.sector as usize) {
        let window = (last + scan.sector - lsn).max(RECORD_HEADER_BYTES as u64);
        let Some(header) = scan.header(Lsn(lsn), window, 0)? else { continue };
        match header.claim {
            Some(claim) if claim.0 > place && header.epoch >= epoch => {
                return Ok(Some((claim, Lsn(lsn))));
            }
            _ => {}
        }
    }
    Ok(None)
}
