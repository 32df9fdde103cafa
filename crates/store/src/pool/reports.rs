//! What the layer reports to the pool, and asks of it.

use super::evict::Evictor;
use super::frames::Frames;
use super::wal_rule::WalRule;
use crate::PageNumber;
use crate::durable::append_note;
use entresol_core::{Lsn, PageId};
use entresol_engine::{DurableGroup, Upstream};
use std::sync::Arc;

/// The pool as the layer sees it.
pub(super) struct Reports {
    frames: Arc<Frames>,
    rule: Arc<WalRule>,
    evictor: Arc<Evictor>,
    /// [`crate::Options::durable_notes`].
    notes: bool,
}

impl Reports {
    pub(super) fn new(
        frames: Arc<Frames>,
        rule: Arc<WalRule>,
        evictor: Arc<Evictor>,
        notes: bool,
    ) -> Reports {
        Reports { frames, rule, evictor, notes }
    }
}

impl Upstream for Reports {
    fn pull_victims(&self, pages: usize) -> usize {
        self.evictor.pull(pages)
    }

    fn durable(&self, pages: &[(PageId, Lsn)], group: Option<DurableGroup>) {
        // During redo there is no log for appends.
        let Some(wal) = self.rule.wal().filter(|_| self.notes) else { return };
        // The layer may now report evictions of redo. When redo begins again, a page is rebuilt from its
        // image, and an older version replaces a newer one: a note of the newer one would be false. So only
        // versions of this session are noted.
        let first = self.rule.session_start();
        let own: Vec<_> = pages.iter().copied().filter(|(_, lsn)| *lsn >= first).collect();
        append_note(wal, &own, group);
    }

    fn destaged(&self, page: PageId, lsn: Lsn) {
        // Redo may rebuild a page from an older image. Then the frame gets LSNs again that the layer already
        // knows, and an older version may still be in the layer's queue. So this report is ignored during
        // redo, at the cost of a redundant write later.
        if self.rule.is_redoing() {
            return;
        }
        self.frames.table().peek_and(PageNumber(page.number()), |id| self.frames.get(id).state.destaged(lsn));
    }
}
