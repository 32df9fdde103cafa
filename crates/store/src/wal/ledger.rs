//! The bytes of the circular area: those in use, and those that operations in progress may still append.
//!
//! The rules of admission are those of [`crate::log_room`]; `U`, `R`, `N` and `A` are its letters.

use super::room::{Reservations, Room};
use super::tail::Tail;
use crate::StoreError;
use entresol_core::Lsn;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

/// See the module's header.
pub(crate) struct Ledger {
    tail: Arc<Tail>,
    area: u64,
    sector: u64,
    /// Oldest needed LSN.
    oldest: AtomicU64,
    reservations: Reservations,
}

/// The bounds of the rules, as shares of an area of this many bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares(u64);

impl Shares {
    /// Maximum of used and reserved bytes when a client is admitted (rule 1).
    pub(crate) fn clients_max(self) -> u64 {
        self.0 / 2
    }

    /// Maximum number of bytes that rollbacks of the active transactions may append (rule 2).
    pub(crate) fn need_max(self) -> u64 {
        self.0 / 8 * 3
    }

    /// Maximum of used, reserved and needed bytes (rules 1 and 2).
    pub(crate) fn total_max(self) -> u64 {
        self.0 / 8 * 7
    }

    /// The same including a checkpoint's record (rule 4).
    pub(crate) fn checkpoint_max(self) -> u64 {
        self.0 / 16 * 15
    }

    /// Rule 1 for `filled` used and reserved bytes.
    fn admits(self, filled: u64, need: u64) -> bool {
        filled <= self.clients_max() && filled + need <= self.total_max()
    }
}

impl Ledger {
    /// The ledger of an area of `area` bytes in sectors of `sector`, in which nothing before `oldest` is
    /// needed.
    pub(super) fn new(tail: Arc<Tail>, area: u64, sector: u64, oldest: Lsn) -> Ledger {
        Ledger { tail, area, sector, oldest: AtomicU64::new(oldest.0), reservations: Reservations::default() }
    }

    /// Bytes of the circular area.
    pub(crate) fn area(&self) -> u64 {
        self.area
    }

    /// Bytes of a sector: each flush is padded to one.
    pub(crate) fn sector(&self) -> u64 {
        self.sector
    }

    /// The bounds of the rules.
    pub(crate) fn shares(&self) -> Shares {
        Shares(self.area)
    }

    /// Reserves `bytes` if rule 1 allows it; `need` is the bytes that rollbacks may append. Never waits.
    pub(crate) fn try_reserve(&self, bytes: u64, need: u64) -> Option<Room<'_>> {
        self.reservations.try_add(bytes, |reserved| {
            let filled = self.used() + reserved + bytes;
            self.shares().admits(filled, need)
        })
    }

    /// Waits until some room is released, if `bytes` would fit without the current reservations. False if
    /// they would not fit.
    pub(crate) fn wait_for_release(&self, bytes: u64, need: u64) -> bool {
        self.reservations.wait_for_release(|| self.shares().admits(self.used() + bytes, need))
    }

    /// Bytes that operations in progress may still append.
    pub(crate) fn reserved(&self) -> u64 {
        self.reservations.bytes()
    }

    /// Bytes that cannot be overwritten yet, including the padding of the next flush.
    pub(crate) fn used(&self) -> u64 {
        // Read before the end: a checkpoint in between may free the log up to a later end.
        let oldest = self.oldest.load(Acquire);
        self.tail.end().0.next_multiple_of(self.sector) - oldest
    }

    /// As [`Ledger::used`], if the log ends at `end`; 0 if a checkpoint has freed everything before `end`
    /// since.
    pub(crate) fn used_to(&self, end: u64) -> u64 {
        end.next_multiple_of(self.sector).saturating_sub(self.oldest.load(Acquire))
    }

    /// The range from the oldest needed record to the end.
    pub(crate) fn needed(&self) -> std::ops::Range<Lsn> {
        Lsn(self.oldest.load(Acquire))..self.tail.end()
    }

    /// The range that the next records may overwrite, as an LSN and a number of bytes. `None`: a task appends
    /// right now.
    pub(super) fn free(&self) -> Option<(u64, u64)> {
        // As in `used`.
        let oldest = self.oldest.load(Acquire);
        let start = self.tail.try_end()?.0.next_multiple_of(self.sector);
        let end = (oldest + self.area) / self.sector * self.sector;
        Some((start, end.saturating_sub(start)))
    }

    /// An error if a flush up to `end`, a sector boundary, would overwrite a needed record.
    pub(super) fn check_overwrite(&self, end: u64) -> Result<(), StoreError> {
        let used = end - self.oldest.load(Acquire);
        if used > self.area { Err(self.full(used, 0)) } else { Ok(()) }
    }

    /// Frees the log before `oldest`.
    pub(super) fn free_before(&self, oldest: Lsn) {
        self.oldest.store(oldest.0, Release);
    }

    /// The error for a log of which `used` bytes are needed, and `undo` more for rollbacks.
    pub(crate) fn full(&self, used: u64, undo: u64) -> StoreError {
        StoreError::LogFull { used, undo, capacity: self.area, oldest: Lsn(self.oldest.load(Acquire)) }
    }
}
