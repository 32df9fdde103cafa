//! What binds a cache to its owner's files and log between two opens. An owner's files may be put back to an
//! earlier state, a snapshot, while the flash is the present one (docs/POSTGRESQL.md, "A snapshot that is
//! rolled back").
//!
//! Invariants, where the home has its owner's log:
//!
//! 1. *Renewal*: before a page stops being dirty on flash, since the disk has it, the disk's label is renewed
//!    durably, and then the superblock. So a disk of before, which lacks the page, has another renewal than
//!    the flash.
//! 2. *Position*: what is on flash depends on no record of the log after the greatest position there: a group
//!    has one in its summary, and before a removal or a cut of objects is written, a superblock has one.

use super::superblocks::Superblocks;
use crate::TierError;
use crate::disk::DiskPages;
use entresol_runtime::sync::{Mutex, Rank};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Renewals of the disk's label. Tasks that ask for one meanwhile share the next one.
pub(crate) struct Renewals {
    disk: Arc<DiskPages>,
    superblocks: Arc<Superblocks>,
    /// Requests so far.
    asked: AtomicU64,
    /// Of these, how many are answered. Held during a renewal.
    answered: Mutex<u64>,
}

/// A request for a renewal.
pub(crate) struct Asked(u64);

impl Renewals {
    pub(crate) fn new(disk: &Arc<DiskPages>, superblocks: &Arc<Superblocks>) -> Self {
        Self {
            disk: disk.clone(),
            superblocks: superblocks.clone(),
            asked: AtomicU64::new(0),
            answered: Mutex::new(Rank::Renewal, 0),
        }
    }

    /// Renews the disk's label: from now on a state of the disk from before this call is told from the
    /// present one. Costs nothing if the owner has no log.
    pub(crate) fn renew(&self) -> Result<(), TierError> {
        self.answer(self.ask())
    }

    /// Asks for a renewal that begins after this call.
    pub(crate) fn ask(&self) -> Asked {
        Asked(self.asked.fetch_add(1, SeqCst) + 1)
    }

    /// As [`Renewals::renew`], at the time of the request.
    pub(crate) fn answer(&self, Asked(number): Asked) -> Result<(), TierError> {
        if self.disk.log().is_none() {
            return Ok(());
        }
        let mut answered = self.answered.lock();
        if *answered >= number {
            return Ok(());
        }
        let asked = self.asked.load(SeqCst);
        // The last one is on two copies, so that one may be lost: the label may be ahead by one only.
        while self.superblocks.with_newest_renewal() < 2 {
            self.superblocks.write(|_| ())?;
        }
        let mut renewal = 0;
        self.disk.label.change(|label| {
            label.renewal += 1;
            renewal = label.renewal;
        })?;
        self.superblocks.write(|superblock| superblock.renewal = renewal)?;
        *answered = asked;
        Ok(())
    }

    /// What is on flash may depend on all of the owner's log that is durable now: says so durably.
    pub(crate) fn record_log_position(&self) -> Result<(), TierError> {
        let Some(log) = self.disk.log() else { return Ok(()) };
        if log.position().lsn <= self.superblocks.log_recorded() {
            return Ok(());
        }
        self.superblocks.write(|_| ())
    }
}
