//! What the pool knows of the log above it, and the WAL rule: the log is durable up to a page's LSN before
//! the layer gets the page.
//!
//! The other direction: a page from the layer is refused if its LSN is not durable, or was durable before the
//! restart and is not in the log. Then this log is not the log of the page's changes.

use super::evicted::EvictedPages;
use super::state::FrameState;
use crate::wal::Wal;
use crate::{PageNumber, StoreError, points};
use entresol_core::Lsn;
use entresol_engine::Victim;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};

/// The log's end before a restart has determined it.
const NO_LOG: u64 = u64::MAX;

/// See the module's header.
pub(crate) struct WalRule {
    /// Absent during redo, when the whole log is durable.
    wal: OnceLock<Arc<Wal>>,
    /// A restart is in its redo.
    redoing: AtomicBool,
    /// The end of the log that a restart has read.
    log_end: AtomicU64,
    /// Pages evicted with LSNs at or after that end.
    evicted: EvictedPages,
}

impl WalRule {
    /// For a disk of `pages` pages.
    pub(super) fn new(pages: u64) -> WalRule {
        WalRule {
            wal: OnceLock::new(),
            redoing: AtomicBool::new(false),
            log_end: AtomicU64::new(NO_LOG),
            evicted: EvictedPages::new(pages),
        }
    }

    /// Called when a restart begins or ends its redo.
    pub(crate) fn set_redoing(&self, redoing: bool) {
        self.redoing.store(redoing, SeqCst);
    }

    pub(super) fn is_redoing(&self) -> bool {
        self.redoing.load(SeqCst)
    }

    /// From now on, pages from the layer must have LSNs before `end`, except pages that are evicted from now
    /// on.
    pub(crate) fn set_log_end(&self, end: Lsn) {
        self.log_end.store(end.0, SeqCst);
    }

    /// The least LSN of changes of this session.
    pub(super) fn session_start(&self) -> Lsn {
        match self.log_end.load(SeqCst) {
            NO_LOG => Lsn(0),
            end => Lsn(end),
        }
    }

    /// From now on, a page is evicted only when `wal` is durable up to its LSN.
    pub(crate) fn set_wal(&self, wal: Arc<Wal>) {
        assert!(self.wal.set(wal).is_ok(), "a pool gets its log once");
    }

    pub(super) fn wal(&self) -> Option<&Arc<Wal>> {
        self.wal.get()
    }

    /// Whether a frame in this state can be evicted without a flush of the log.
    pub(super) fn is_logged(&self, state: FrameState) -> bool {
        !state.fdirty || self.wal.get().is_none_or(|wal| wal.is_durable(state.lsn))
    }

    /// Makes the log durable up to `lsn`.
    pub(super) fn flush_log(&self, lsn: Lsn) -> Result<(), StoreError> {
        match self.wal.get() {
            Some(wal) => wal.flush(lsn),
            None => Ok(()),
        }
    }

    /// A page that is about to be evicted.
    pub(super) fn victim(&self, page: PageNumber, state: FrameState) -> Victim {
        if state.lsn.0 >= self.log_end.load(SeqCst) {
            self.evicted.note(page);
        }
        Victim { page: page.id(), lsn: state.lsn, dirty: state.dirty, fdirty: state.fdirty }
    }

    /// Refuses a page from the layer that has changes beyond the log (see the module's header).
    pub(super) fn refuse_beyond_log(&self, page: PageNumber, lsn: Lsn) -> Result<(), StoreError> {
        let end = self.log_end.load(SeqCst);
        let is_durable = || self.wal.get().is_none_or(|wal| wal.is_durable(lsn));
        let may_be_ours = end == NO_LOG || lsn.0 < end || self.evicted.has(page);
        if may_be_ours && is_durable() {
            return Ok(());
        }
        points::PAGE_BEYOND_LOG.reach();
        Err(StoreError::Corrupt {
            place: format!("page {page}"),
            expected: format!("an LSN before the end of the log, {end}"),
            found: format!("LSN {}: the log has lost its end, or is not the one of this disk", lsn.0),
        })
    }
}
