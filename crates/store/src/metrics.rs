//! Counters of a store, and the report of its restart.

use entresol_core::Lsn;
use entresol_engine::TierMetrics;
use std::time::Duration;

/// The report of a restart. Durations are of the runtime's clock.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RestartReport {
    /// The whole restart: from the read of the master record to the end of the final checkpoint.
    pub duration: Duration,
    /// The first pass over the log. It finds the losers, the durable pages, and the end of the log.
    pub analysis: Duration,
    /// The second pass over the log, which redoes changes that are not durable.
    pub redo: Duration,
    /// The rollback of the losers.
    pub undo: Duration,
    /// Bytes of log that redo read.
    pub log_bytes: u64,
    /// Log records that redo read.
    pub records: u64,
    /// Pages that redo fetched from the layer.
    pub redo_fetched: u64,
    /// Among these, pages from flash or staging.
    pub redo_from_flash: u64,
    /// Pages fetched from the layer by redo and undo.
    pub pages_fetched: u64,
    /// Among these, pages from flash or staging.
    pub pages_from_flash: u64,
    /// Transactions rolled back.
    pub losers: u64,
    /// Dirty pages that a quick shutdown had left on flash ([`crate::Store::shutdown_quickly`]).
    pub materialised: u64,
    /// Set if the log ends here, in an unreadable sector. A power failure can leave such a sector in an
    /// unacknowledged flush. If the drive has lost the sector for another reason, the last commits are lost.
    pub unreadable_end: Option<Lsn>,
    /// The flash was given up: the log was repeated from its horizon on.
    pub is_flash_lost: bool,
}

impl RestartReport {
    /// Notices for the owner.
    pub fn notices(&self) -> impl Iterator<Item = String> {
        let given_up = self.is_flash_lost.then(|| {
            format!(
                "the flash was given up, and will be refused if it returns: {} MiB of log were repeated in {:.1?}",
                self.log_bytes >> 20,
                self.duration
            )
        });
        given_up.into_iter().chain(self.notice())
    }

    /// A notice for the owner: the log ends in an unreadable sector.
    pub fn notice(&self) -> Option<String> {
        let Lsn(end) = self.unreadable_end?;
        Some(format!(
            "the log ends at LSN {end}, in a sector that cannot be read: a power failure leaves such sectors, of commits that \
             were never acknowledged; if power did not fail, the last commits may be lost, and the drive should be replaced"
        ))
    }
}

/// Counters since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreMetrics {
    /// Page accesses.
    pub fixes: u64,
    /// Page accesses that found the page in DRAM.
    pub hits: u64,
    /// Transactions committed.
    pub commits: u64,
    /// Transactions rolled back.
    pub aborts: u64,
    /// Deadlocks found (each has one victim).
    pub deadlocks: u64,
    /// Bytes written to the log, including padding.
    pub log_bytes: u64,
    /// Syncs of the log.
    pub log_syncs: u64,
    /// Checkpoints completed.
    pub checkpoints: u64,
    /// Counters of the layer below.
    pub tier: TierMetrics,
}
