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
use entresol_runtime::{Time, now, sleep};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// After a renewal there is none for so many times as long as it took, where that may be waited for: on a
/// slow disk more requests share one.
const PAUSE: u32 = 16;
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// Renewals of the disk's label. Tasks that ask for one meanwhile share the next one.
pub(crate) struct Renewals {
    disk: Arc<DiskPages>,
    superblocks: Arc<Superblocks>,
    /// Requests so far.
    asked: AtomicU64,
    /// Held during a renewal.
    last: Mutex<Last>,
}

/// The last renewal.
#[derive(Default)]
struct Last {
    /// Requests that are answered.
    answered: u64,
    /// When the next one may begin.
    next_at: Option<Time>,
}

impl Renewals {
    pub(crate) fn new(disk: &Arc<DiskPages>, superblocks: &Arc<Superblocks>) -> Self {
        Self {
            disk: disk.clone(),
            superblocks: superblocks.clone(),
            asked: AtomicU64::new(0),
            last: Mutex::new(Rank::Renewal, Last::default()),
        }
    }

    /// Renews the disk's label: from now on a state of the disk from before this call is told from the
    /// present one. Costs nothing if the owner has no log. `patient`: the caller may wait a little, so that
    /// others share the renewal.
    pub(crate) fn renew(&self, patient: bool) -> Result<(), TierError> {
        if self.disk.log().is_none() {
            return Ok(());
        }
        let number = self.asked.fetch_add(1, SeqCst) + 1;
        let mut last = self.last.lock();
        if last.answered >= number {
            return Ok(());
        }
        if let Some(next_at) = last.next_at.filter(|_| patient) {
            sleep(next_at.since(now()).min(PAUSE_MAX));
        }
        let began = now();
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
        let ended = now();
        *last = Last { answered: asked, next_at: Some(ended + ended.since(began) * PAUSE) };
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
