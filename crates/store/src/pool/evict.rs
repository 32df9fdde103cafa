//! Eviction, victims pulled by the layer, and the checkpoint's copies.

use super::frame::FrameState;
use super::{FrameId, NO_LOG, Pool};
use crate::{PageNumber, StoreError};
use entresol_core::{Lsn, PageId};
use entresol_engine::{DurableGroup, Upstream, Victim};
use std::sync::atomic::Ordering::SeqCst;

/// At most this share of the frames is free because the layer pulled their pages.
const RESERVE_SHARE: usize = 8;

impl Pool {
    /// Evicts the coldest unpinned frame and returns it, free. `None` if all are pinned. Frames whose changes
    /// are durable in the log are evicted first: each flush pads a sector of the log, and the log's room
    /// counts that padding ([`crate::undo_need`]).
    pub(super) fn evict_one(&self) -> Result<Option<FrameId>, StoreError> {
        loop {
            let durable = self
                .replacer
                .pick(&self.frames, |frame| self.is_logged(frame.state()) && frame.try_pin_first());
            let Some(id) =
                durable.or_else(|| self.replacer.pick(&self.frames, |frame| frame.try_pin_first()))
            else {
                return Ok(None);
            };
            let result = self.evict_page(id);
            if result.is_err() {
                self.unpin(id);
            }
            result?;
            if self.detach(id) {
                return Ok(Some(id));
            }
        }
    }

    /// Evicts a frame's page to the layer, and waits as long as necessary. The frame is pinned.
    fn evict_page(&self, id: FrameId) -> Result<(), StoreError> {
        let frame = self.frame(id);
        let data = frame.data.read();
        let page = frame.page().expect("a frame that the replacer knows holds a page");
        let state = frame.state();
        if state.fdirty {
            self.flush_log(state.lsn)?;
        }
        let victim = self.victim(page, state);
        let evicted = self.layer.evict(victim, &data)?;
        frame.evicted(state.lsn, evicted.dirty);
        Ok(())
    }

    /// A page that is about to be evicted.
    fn victim(&self, page: PageNumber, state: FrameState) -> Victim {
        if state.lsn.0 >= self.log_end.load(SeqCst) {
            self.evicted.note(page);
        }
        Victim { page: page.id(), lsn: state.lsn, dirty: state.dirty, fdirty: state.fdirty }
    }

    /// Frees a pinned frame whose page the layer has, unless it was pinned again meanwhile. Drops the pin.
    fn detach(&self, id: FrameId) -> bool {
        let frame = self.frame(id);
        let page = frame.page().expect("a frame that the replacer knows holds a page");
        if !self.table.remove_if(page, || frame.pins() == 1 && !frame.state().fdirty) {
            self.unpin(id);
            return false;
        }
        self.replacer.remove(id);
        frame.forget_page();
        frame.clear_pins();
        true
    }

    /// Whether a frame in this state can be evicted without a flush of the log.
    fn is_logged(&self, state: FrameState) -> bool {
        !state.fdirty || self.wal.get().is_none_or(|wal| wal.is_durable(state.lsn))
    }

    fn flush_log(&self, lsn: Lsn) -> Result<(), StoreError> {
        match self.wal.get() {
            Some(wal) => wal.flush(lsn),
            None => Ok(()),
        }
    }

    /// Gives the page in frame `index` to the layer if the layer has an older version; the page stays in the
    /// frame. The page is latched only while it is copied to `buffer`.
    pub(crate) fn clean_frame(&self, index: usize, buffer: &mut [u8]) -> Result<bool, StoreError> {
        let frame = &self.frames[index];
        // A page that is being fetched may be moving up, and then is newer than any version below.
        let moving_up = self.layer.moves_pages_up() && frame.is_loading();
        if !frame.state().fdirty && !moving_up {
            return Ok(false);
        }
        let Some(page) = frame.page() else { return Ok(false) };
        let here = FrameId(index as u32);
        let pinned = self.table.peek_and(page, |id| {
            let same = id == here;
            if same {
                frame.pin();
            }
            same
        });
        if pinned != Some(true) {
            // It was evicted meanwhile, so the layer has it.
            return Ok(false);
        }
        let pin = super::Pin::new(self, here, page);
        let state = {
            // The latch is exclusive in order to wait for a concurrent eviction of this page.
            let data = frame.data.write();
            let state = frame.state();
            if !state.fdirty {
                return Ok(false);
            }
            buffer.copy_from_slice(&data);
            state
        };
        self.flush_log(state.lsn)?;
        let victim = self.victim(page, state);
        let evicted = self.layer.evict(victim, buffer)?;
        frame.evicted(state.lsn, evicted.dirty);
        drop(pin);
        Ok(true)
    }

    fn pull_one(&self) -> Option<bool> {
        let id = self
            .replacer
            .pick(&self.frames, |frame| self.is_logged(frame.state()) && frame.try_pin_first())?;
        let frame = self.frame(id);
        let evicted = 'evicted: {
            let Some(data) = frame.data.try_read() else { break 'evicted None };
            let state = frame.state();
            if !self.is_logged(state) {
                break 'evicted None;
            }
            let page = frame.page().expect("a frame that the replacer knows holds a page");
            let victim = self.victim(page, state);
            match self.layer.try_evict(victim, &data) {
                Ok(Some(evicted)) => {
                    frame.evicted(state.lsn, evicted.dirty);
                    Some(())
                }
                // The next eviction gets and reports the error.
                Ok(None) | Err(_) => None,
            }
        };
        if evicted.is_none() {
            self.unpin(id);
            return Some(false);
        }
        if self.detach(id) {
            self.give_back(id);
        }
        Some(true)
    }
}

impl Upstream for Pool {
    fn pull_victims(&self, pages: usize) -> usize {
        let room = (self.frames.len() / RESERVE_SHARE).saturating_sub(self.free.lock().len());
        let mut pulled = 0;
        while pulled < pages.min(room) && self.pull_one() == Some(true) {
            pulled += 1;
        }
        pulled
    }

    fn durable(&self, pages: &[(PageId, Lsn)], group: Option<DurableGroup>) {
        // During redo there is no log for appends.
        let Some(wal) = self.wal.get().filter(|_| self.notes) else { return };
        // The layer may now report evictions of redo. When redo begins again, a page is rebuilt from its
        // image, and an older version replaces a newer one: a note of the newer one would be false. So only
        // versions of this session are noted.
        let first = match self.log_end.load(SeqCst) {
            NO_LOG => 0,
            end => end,
        };
        let own: Vec<_> = pages.iter().copied().filter(|(_, lsn)| lsn.0 >= first).collect();
        crate::durable::append_note(wal, &own, group);
    }

    fn destaged(&self, page: PageId, lsn: Lsn) {
        // Redo may rebuild a page from an older image. Then the frame gets LSNs again that the layer already
        // knows, and an older version may still be in the layer's queue. So this report is ignored during
        // redo, at the cost of a redundant write later.
        if self.redoing.load(SeqCst) {
            return;
        }
        self.table.peek_and(PageNumber(page.number()), |id| self.frame(id).destaged(lsn));
    }
}
