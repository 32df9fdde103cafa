//! One frame: a page's bytes with a latch, a pin count, and a state word.

use super::state::{FrameState, StateWord};
use crate::PageNumber;
use entresol_core::Lsn;
use entresol_runtime::sync::{Rank, RwLock};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32};

const NO_PAGE: u32 = u32::MAX;

/// A frame's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameId(pub u32);

/// See the module's header.
pub(crate) struct Frame {
    page: AtomicU32,
    pins: AtomicU32,
    pub(super) state: StateWord,
    loading: AtomicBool,
    orphan: AtomicBool,
    /// The time of its last move in the replacer's order.
    pub(super) stamp: AtomicU32,
    /// Clock: fixed since the hand passed it.
    pub(super) referenced: AtomicBool,
    /// The page's bytes and latch.
    pub(super) data: RwLock<Box<[u8]>>,
}

impl Frame {
    pub(super) fn new(page_bytes: usize) -> Frame {
        Frame {
            page: AtomicU32::new(NO_PAGE),
            pins: AtomicU32::new(0),
            state: StateWord::default(),
            loading: AtomicBool::new(false),
            orphan: AtomicBool::new(false),
            stamp: AtomicU32::new(0),
            referenced: AtomicBool::new(false),
            data: RwLock::new(Rank::PageLatch, vec![0; page_bytes].into_boxed_slice()),
        }
    }

    /// The page in the frame. Stable while pinned.
    pub(crate) fn page(&self) -> Option<PageNumber> {
        match self.page.load(Acquire) {
            NO_PAGE => None,
            page => Some(PageNumber(page)),
        }
    }

    pub(super) fn holds(&self, page: PageNumber) -> bool {
        self.page.load(Acquire) == page.0
    }

    /// Assigns a free frame to `page`, with one pin.
    pub(super) fn begin_load(&self, page: PageNumber) {
        self.loading.store(true, Release);
        self.state.set(FrameState::CLEAN);
        self.pins.store(1, SeqCst);
        self.page.store(page.0, Release);
    }

    /// The page's bytes have been read.
    pub(super) fn loaded(&self, lsn: Lsn, dirty: bool, fdirty: bool) {
        self.state.set(FrameState { lsn, dirty, fdirty });
        self.loading.store(false, Release);
    }

    pub(super) fn is_loading(&self) -> bool {
        self.loading.load(Acquire)
    }

    pub(super) fn forget_page(&self) {
        self.page.store(NO_PAGE, Release);
        self.loading.store(false, Release);
    }

    pub(super) fn pins(&self) -> u32 {
        self.pins.load(SeqCst)
    }

    pub(super) fn pin(&self) {
        self.pins.fetch_add(1, Relaxed);
    }

    /// Pins an unpinned frame.
    pub(super) fn try_pin_first(&self) -> bool {
        self.pins.load(Relaxed) == 0 && self.pins.compare_exchange(0, 1, SeqCst, Relaxed).is_ok()
    }

    /// True if that was the last pin.
    pub(super) fn unpin(&self) -> bool {
        self.pins.fetch_sub(1, SeqCst) == 1
    }

    pub(super) fn clear_pins(&self) {
        self.pins.store(0, SeqCst);
    }

    /// Marks a frame without a page that is still pinned by tasks that wanted its page.
    pub(super) fn make_orphan(&self) {
        self.orphan.store(true, SeqCst);
    }

    pub(super) fn is_orphan(&self) -> bool {
        self.orphan.load(SeqCst)
    }

    /// True for the one task that takes over the orphan.
    pub(super) fn adopt(&self) -> bool {
        self.orphan.swap(false, SeqCst)
    }
}
