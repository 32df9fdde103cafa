//! The frames of a pool, and which page is in which. Knows neither the layer nor the log.

use super::frame::{Frame, FrameId};
use super::free::FreeFrames;
use super::replace::Replacer;
use super::table::PageTable;
use crate::{Options, PageNumber, PageWatcher};
use entresol_runtime::sync::RwLockWriteGuard;
use std::sync::Arc;

/// See the module's header.
pub(crate) struct Frames {
    frames: Box<[Frame]>,
    table: PageTable,
    replacer: Replacer,
    free: FreeFrames,
    /// [`Options::watcher`].
    watcher: Option<Arc<dyn PageWatcher>>,
}

/// The result of a claim of a frame for a page. The frame is pinned in both cases.
pub(super) enum Claim<'a> {
    Won(RwLockWriteGuard<'a, Box<[u8]>>),
    /// Another task was faster: the page is in this frame.
    Lost(FrameId),
}

impl Frames {
    /// Empty frames.
    pub(super) fn new(options: &Options) -> Frames {
        let count = options.frames;
        Frames {
            frames: (0..count).map(|_| Frame::new(options.page_bytes as usize)).collect(),
            table: PageTable::new(count),
            replacer: Replacer::new(options.replacement, count),
            free: FreeFrames::new(count),
            watcher: options.watcher.clone(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    pub(super) fn get(&self, id: FrameId) -> &Frame {
        &self.frames[id.0 as usize]
    }

    pub(super) fn free(&self) -> &FreeFrames {
        &self.free
    }

    pub(super) fn table(&self) -> &PageTable {
        &self.table
    }

    pub(super) fn watcher(&self) -> Option<&Arc<dyn PageWatcher>> {
        self.watcher.as_ref()
    }

    /// Pins the page's frame if `accept` accepts it (called under the shard's lock). Counts an access only on
    /// success.
    pub(super) fn pin_if(&self, page: PageNumber, accept: impl FnOnce(&Frame) -> bool) -> Option<FrameId> {
        let id = self.table.find_and(page, |id| {
            let frame = self.get(id);
            let accepted = accept(frame);
            if accepted {
                frame.pin();
            }
            accepted
        })?;
        self.replacer.touch(id, self.get(id));
        self.watch(page);
        Some(id)
    }

    /// Notifies the watcher of a counted access.
    fn watch(&self, page: PageNumber) {
        if let Some(watcher) = &self.watcher {
            watcher.fixed(page.id());
        }
    }

    /// Assigns the free frame `free` to `page`, pinned and exclusively latched, unless another task was
    /// faster. Then `free` is free again.
    pub(super) fn claim(&self, free: FrameId, page: PageNumber) -> Claim<'_> {
        let frame = self.get(free);
        let data = frame.data.try_write().expect("nobody latches a frame that he has not pinned");
        frame.begin_load(page);
        self.watch(page);
        match self.table.insert_or(page, free, |other| self.get(other).pin()) {
            Ok(()) => {
                self.replacer.insert(free, frame);
                Claim::Won(data)
            }
            Err(other) => {
                drop(data);
                frame.forget_page();
                frame.clear_pins();
                self.free.give_back(free);
                Claim::Lost(other)
            }
        }
    }

    /// Pins the coldest unpinned frame that `accept` accepts.
    pub(super) fn pin_coldest(&self, accept: impl Fn(&Frame) -> bool) -> Option<FrameId> {
        self.replacer.pick(&self.frames, |frame| accept(frame) && frame.try_pin_first())
    }

    /// Waits until a frame may have become free or unpinned.
    pub(super) fn wait_for_one(&self) {
        self.free.wait(|| self.frames.iter().any(|frame| frame.pins() == 0));
    }

    pub(super) fn unpin(&self, id: FrameId) {
        let frame = self.get(id);
        if frame.unpin() {
            if frame.is_orphan() && frame.adopt() {
                self.free.give_back(id);
            } else {
                self.free.wake_starved();
            }
        }
    }

    /// Takes the page from a pinned frame whose page the layer has, unless it was pinned again meanwhile.
    /// Drops the pin. The frame then belongs to the caller.
    pub(super) fn detach(&self, id: FrameId) -> bool {
        let frame = self.get(id);
        let page = frame.page().expect("a frame that the replacer knows holds a page");
        if !self.table.remove_if(page, || frame.pins() == 1 && !frame.state.get().fdirty) {
            self.unpin(id);
            return false;
        }
        self.replacer.remove(id);
        frame.forget_page();
        frame.clear_pins();
        true
    }

    /// Removes a page without content from its frame, which the caller has latched exclusively. The frame
    /// becomes free when the last task that waits for it has unpinned it.
    pub(super) fn withdraw(&self, id: FrameId, page: PageNumber) {
        let frame = self.get(id);
        self.table.remove(page);
        frame.forget_page();
        self.replacer.remove(id);
        frame.make_orphan();
    }
}
