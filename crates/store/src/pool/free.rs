//! The frames without a page, and the tasks that wait for one.

use super::frame::FrameId;
use entresol_runtime::Task;
use entresol_runtime::sync::{Rank, TinyMutex};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

/// See the module's header.
pub(super) struct FreeFrames {
    free: TinyMutex<Vec<FrameId>>,
    /// Tasks that found every frame pinned.
    starved: TinyMutex<Vec<Task>>,
    starving: AtomicUsize,
}

impl FreeFrames {
    /// `count` frames, all free.
    pub(super) fn new(count: usize) -> FreeFrames {
        FreeFrames {
            free: TinyMutex::new(Rank::FreeFrames, (0..count as u32).rev().map(FrameId).collect()),
            starved: TinyMutex::new(Rank::Starved, Vec::new()),
            starving: AtomicUsize::new(0),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.free.lock().len()
    }

    pub(super) fn take(&self) -> Option<FrameId> {
        self.free.lock().pop()
    }

    pub(super) fn give_back(&self, id: FrameId) {
        self.free.lock().push(id);
        self.wake_starved();
    }

    /// Called after a frame was unpinned.
    #[inline]
    pub(super) fn wake_starved(&self) {
        if self.starving.load(SeqCst) > 0 {
            self.wake_all();
        }
    }

    #[cold]
    fn wake_all(&self) {
        for task in self.starved.lock().drain(..) {
            task.unpark();
        }
    }

    /// Parks until a frame may have become free or unpinned. `hope`: whether a frame is unpinned now.
    pub(super) fn wait(&self, hope: impl FnOnce() -> bool) {
        self.starved.lock().push(entresol_runtime::current());
        self.starving.fetch_add(1, SeqCst);
        // From here on, every unpin sees that a task starves.
        let hope = self.len() > 0 || hope();
        if !hope {
            entresol_runtime::park();
        }
        self.starving.fetch_sub(1, SeqCst);
    }
}
