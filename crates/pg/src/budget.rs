//! The budget of writes to flash, which the tier keeps: the limits for the processes.
//!
//! The worker tells them how much may be written. As that runs short, clean pages stay out first, then pages
//! get no second chance, then dirty pages are written to their files.
//!
//! Invariant: a clean page enters only when its file has it durably. 1. A dirty page is written to its file,
//! since the budget is spent, or the table of forks is full; PostgreSQL syncs the file with its next
//! checkpoint.
//! 2. The page is read again, and evicted as clean. 3. Power fails, and the file has the older version.
//! 4. Redo reads the page from the cache, finds it up to date, and does not change it. 5. The cache drops it,
//!    and the older version is read. So clean pages stay out until all dirty pages that bypassed the cache
//!    are durable: see [`Around::checkpoint`].

use crate::memory::Tally;
use entresol_engine::Allowed;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// In shared memory: what may enter the cache, and which dirty pages went around it. Zeros: all may, and none
/// did.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Around {
    /// 0: all pages enter; 1: dirty ones; 2: none.
    level: AtomicU64,
    /// Dirty pages that went around.
    pages: Tally,
    /// How many of them there were at the checkpoint before the last one, and at the last one.
    seen: [AtomicU64; 2],
    /// The REDO pointer of the last checkpoint.
    redo: AtomicU64,
    /// So many of them are durable.
    durable: AtomicU64,
    /// 1: no dirty page enters, as the cache is being drained.
    drains: AtomicU64,
}

impl Around {
    /// What may be written from now on.
    pub fn allow(&self, allowed: Allowed) {
        let level = match allowed {
            Allowed { writes: false, .. } => 2,
            Allowed { reads: false, .. } => 1,
            _ => 0,
        };
        self.level.store(level, SeqCst);
    }

    /// Whether a dirty page is written to its file instead. To be asked once for each: it is counted.
    pub fn dirty_goes(&self) -> bool {
        let goes = self.takes_nothing();
        self.pages.add(goes.into());
        goes
    }

    /// A dirty page is written to its file for another reason.
    pub fn dirty_went(&self) {
        self.pages.add(1);
    }

    /// Whether no page enters.
    pub fn takes_nothing(&self) -> bool {
        self.level.load(SeqCst) == 2 || self.drains.load(SeqCst) != 0
    }

    /// Dirty pages bypass the cache, or do not any more: it is being drained, and would not get there.
    pub fn drain(&self, drains: bool) {
        self.drains.store(drains.into(), SeqCst);
    }

    /// Whether clean pages stay out since dirty pages that bypassed the cache are not durable.
    pub fn awaits_checkpoints(&self) -> bool {
        self.durable.load(SeqCst) < self.pages.get()
    }

    /// Whether clean pages stay out.
    pub fn clean_stays_out(&self) -> bool {
        self.level.load(SeqCst) > 0 || self.awaits_checkpoints()
    }

    /// A checkpoint has written its buffers, and will sync files. `done`: the REDO pointer of the last one
    /// that is complete; `redo`: of this one.
    ///
    /// 1. A dirty page bypasses the cache, and is counted; its process has yet to write it. 2. A checkpoint
    ///    calls this. 3. It syncs the files. 4. The page is written. 5. The next checkpoint waits for the
    ///    page's buffer, which is dirty until it is written, and syncs the file. So pages counted at one
    ///    checkpoint are durable when the next one is complete.
    pub fn checkpoint(&self, done: u64, redo: u64) {
        if done >= self.redo.load(SeqCst) {
            self.durable.store(self.seen[0].load(SeqCst), SeqCst);
        }
        self.seen[0].store(self.seen[1].load(SeqCst), SeqCst);
        self.seen[1].store(self.pages.get(), SeqCst);
        self.redo.store(redo, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Allowed = Allowed { reads: true, chances: true, writes: true };
    const NOTHING: Allowed = Allowed { reads: false, chances: false, writes: false };

    #[test]
    fn what_is_short_stays_out_in_order() {
        let around = Around::default();
        assert!(!around.clean_stays_out() && !around.dirty_goes());
        around.allow(Allowed { reads: false, ..ALL });
        assert!(around.clean_stays_out() && !around.dirty_goes());
        around.allow(ALL);
        assert!(!around.clean_stays_out());
        around.allow(NOTHING);
        assert!(around.clean_stays_out() && around.dirty_goes());
    }

    #[test]
    fn a_drain_keeps_dirty_pages_out() {
        let around = Around::default();
        around.drain(true);
        assert!(around.dirty_goes() && around.takes_nothing());
        around.drain(false);
        assert!(!around.dirty_goes() && around.clean_stays_out() && around.awaits_checkpoints());
    }

    #[test]
    fn clean_pages_stay_out_until_what_went_around_is_durable() {
        let around = Around::default();
        around.checkpoint(5, 10);
        around.allow(NOTHING);
        assert!(around.dirty_goes());
        around.allow(ALL);
        assert!(around.clean_stays_out());
        around.checkpoint(10, 20);
        assert!(around.clean_stays_out(), "the write may come after this checkpoint's syncs");
        around.checkpoint(20, 30);
        assert!(around.clean_stays_out(), "the checkpoint that must sync it is not complete");
        // It fails, and is tried again.
        around.checkpoint(20, 40);
        assert!(around.clean_stays_out());
        around.checkpoint(40, 50);
        assert!(!around.clean_stays_out());
    }
}
