//! Eviction, victims pulled by the layer, and the checkpoint's copies.

use super::frame::FrameId;
use super::frames::Frames;
use super::guard::Pin;
use super::wal_rule::WalRule;
use crate::StoreError;
use entresol_engine::Layer;
use std::sync::Arc;

/// At most this share of the frames is free because the layer pulled their pages.
const RESERVE_SHARE: usize = 8;

/// Gives pages of frames to the layer.
pub(super) struct Evictor {
    layer: Arc<dyn Layer>,
    frames: Arc<Frames>,
    rule: Arc<WalRule>,
}

impl Evictor {
    pub(super) fn new(layer: Arc<dyn Layer>, frames: Arc<Frames>, rule: Arc<WalRule>) -> Evictor {
        Evictor { layer, frames, rule }
    }

    /// Evicts the coldest unpinned frame and returns it, free. `None` if all are pinned. Frames whose changes
    /// are durable in the log are evicted first: each flush pads a sector of the log, and the log's room
    /// counts that padding ([`crate::undo`]).
    pub(super) fn evict_one(&self) -> Result<Option<FrameId>, StoreError> {
        loop {
            let durable = self.frames.pin_coldest(|frame| self.rule.is_logged(frame.state.get()));
            let Some(id) = durable.or_else(|| self.frames.pin_coldest(|_| true)) else {
                return Ok(None);
            };
            let result = self.evict_page(id);
            if result.is_err() {
                self.frames.unpin(id);
            }
            result?;
            if self.frames.detach(id) {
                return Ok(Some(id));
            }
        }
    }

    /// Evicts a frame's page to the layer, and waits as long as necessary. The frame is pinned.
    fn evict_page(&self, id: FrameId) -> Result<(), StoreError> {
        let frame = self.frames.get(id);
        let data = frame.data.read();
        let page = frame.page().expect("a frame that the replacer knows holds a page");
        let state = frame.state.get();
        if state.fdirty {
            self.rule.flush_log(state.lsn)?;
        }
        let victim = self.rule.victim(page, state);
        let evicted = self.layer.evict(victim, &data)?;
        frame.state.evicted(state.lsn, evicted.dirty);
        Ok(())
    }

    /// Gives the page in frame `index` to the layer if the layer has an older version; the page stays in the
    /// frame. The page is latched only while it is copied to `buffer`.
    pub(super) fn clean_frame(&self, index: usize, buffer: &mut [u8]) -> Result<bool, StoreError> {
        let here = FrameId(index as u32);
        let frame = self.frames.get(here);
        // A page that is being fetched may be moving up, and then is newer than any version below.
        let moving_up = self.layer.moves_pages_up() && frame.is_loading();
        if !frame.state.get().fdirty && !moving_up {
            return Ok(false);
        }
        let Some(page) = frame.page() else { return Ok(false) };
        let pinned = self.frames.table().peek_and(page, |id| {
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
        let pin = Pin::new(&self.frames, here, page);
        let state = {
            // The latch is exclusive in order to wait for a concurrent eviction of this page.
            let data = frame.data.write();
            let state = frame.state.get();
            if !state.fdirty {
                return Ok(false);
            }
            buffer.copy_from_slice(&data);
            state
        };
        self.rule.flush_log(state.lsn)?;
        let victim = self.rule.victim(page, state);
        let evicted = self.layer.evict(victim, buffer)?;
        frame.state.evicted(state.lsn, evicted.dirty);
        drop(pin);
        Ok(true)
    }

    /// Evicts up to `pages` pages that the layer pulls, without a wait. Returns their number.
    pub(super) fn pull(&self, pages: usize) -> usize {
        let room = (self.frames.len() / RESERVE_SHARE).saturating_sub(self.frames.free().len());
        let mut pulled = 0;
        while pulled < pages.min(room) && self.pull_one() == Some(true) {
            pulled += 1;
        }
        pulled
    }

    fn pull_one(&self) -> Option<bool> {
        let id = self.frames.pin_coldest(|frame| self.rule.is_logged(frame.state.get()))?;
        let frame = self.frames.get(id);
        let evicted = 'evicted: {
            let Some(data) = frame.data.try_read() else { break 'evicted None };
            let state = frame.state.get();
            if !self.rule.is_logged(state) {
                break 'evicted None;
            }
            let page = frame.page().expect("a frame that the replacer knows holds a page");
            let victim = self.rule.victim(page, state);
            match self.layer.try_evict(victim, &data) {
                Ok(Some(evicted)) => {
                    frame.state.evicted(state.lsn, evicted.dirty);
                    Some(())
                }
                // The next eviction gets and reports the error.
                Ok(None) | Err(_) => None,
            }
        };
        if evicted.is_none() {
            self.frames.unpin(id);
            return Some(false);
        }
        if self.frames.detach(id) {
            self.frames.free().give_back(id);
        }
        Some(true)
    }
}
