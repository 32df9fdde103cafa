//! What a store has done, and what its restart did.

use entresol_core::Lsn;
use entresol_engine::TierMetrics;
use std::time::Duration;

/// What a restart did. Durations are of the runtime's clock.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RestartReport {
    /// All of it: from reading the master record to the end of the final checkpoint.
    pub duration: Duration,
    /// Reading the log once: who is a loser, what is durable, where the end is.
    pub analysis: Duration,
    /// Reading it again and redoing what is not durable.
    pub redo: Duration,
    /// Rolling the losers back.
    pub undo: Duration,
    /// Bytes of log that redo read.
    pub log_bytes: u64,
    /// Log records that redo read.
    pub records: u64,
    /// Pages that redo fetched from the layer.
    pub redo_fetched: u64,
    /// Of these, from flash or staging.
    pub redo_from_flash: u64,
    /// Pages fetched from the layer by redo and undo.
    pub pages_fetched: u64,
    /// How many of these came from flash or staging.
    pub pages_from_flash: u64,
    /// Transactions rolled back.
    pub losers: u64,
    /// The log ends here, in a sector that cannot be read. A power failure leaves such a sector of a flush
    /// that nobody was told of. If the drive has lost it by itself, what was committed last is lost.
    pub unreadable_end: Option<Lsn>,
}

impl RestartReport {
    /// What the owner should know.
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
    /// Deadlocks found (each makes one victim).
    pub deadlocks: u64,
    /// Bytes written to the log, padding included.
    pub log_bytes: u64,
    /// Syncs of the log.
    pub log_syncs: u64,
    /// Checkpoints completed.
    pub checkpoints: u64,
    /// Counters of the layer below.
    pub tier: TierMetrics,
}
