//! One frame: a page's bytes with a latch, a pin count, and a state word.
//!
//! Invariant: the state word contains the page's LSN with `dirty` (newer than disk) and `fdirty` (newer than
//! the version in the layer below; FaCE §3.3). Both flags are set before their change is logged. `fdirty` is
//! cleared only when the layer has this LSN, and `dirty` only while `fdirty` is clear. So no unwritten change
//! is treated as written.

use crate::PageNumber;
use entresol_core::Lsn;
use entresol_runtime::sync::{Rank, RwLock};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

const DIRTY: u64 = 1;
const FDIRTY: u64 = 2;
const FLAG_BITS: u32 = 2;
const NO_PAGE: u32 = u32::MAX;

/// A frame's state word, unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameState {
    pub lsn: Lsn,
    pub dirty: bool,
    pub fdirty: bool,
}

impl FrameState {
    fn pack(self) -> u64 {
        self.lsn.0 << FLAG_BITS | if self.fdirty { FDIRTY } else { 0 } | if self.dirty { DIRTY } else { 0 }
    }
    fn unpack(word: u64) -> FrameState {
        FrameState { lsn: Lsn(word >> FLAG_BITS), dirty: word & DIRTY != 0, fdirty: word & FDIRTY != 0 }
    }
}

/// See the module's header.
pub(crate) struct Frame {
    page: AtomicU32,
    pins: AtomicU32,
    state: AtomicU64,
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
            state: AtomicU64::new(0),
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
        self.state.store(0, Release);
        self.pins.store(1, SeqCst);
        self.page.store(page.0, Release);
    }

    /// The page's bytes have been read.
    pub(super) fn loaded(&self, lsn: Lsn, dirty: bool, fdirty: bool) {
        self.state.store(FrameState { lsn, dirty, fdirty }.pack(), Release);
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

    /// LSN and flags.
    pub(crate) fn state(&self) -> FrameState {
        FrameState::unpack(self.state.load(Acquire))
    }

    /// Called before a change is made and logged.
    pub(crate) fn mark_dirty(&self) {
        if self.state.load(Relaxed) & (DIRTY | FDIRTY) != DIRTY | FDIRTY {
            self.state.fetch_or(DIRTY | FDIRTY, SeqCst);
        }
    }

    /// Records that the change was logged at `lsn`.
    pub(crate) fn changed(&self, lsn: Lsn) {
        self.state.store(FrameState { lsn, dirty: true, fdirty: true }.pack(), Release);
    }

    /// Records that the layer has the version `lsn`, which is newer than disk if `dirty`. Does nothing if the
    /// page has changed.
    pub(crate) fn evicted(&self, lsn: Lsn, dirty: bool) {
        let _ = self.state.fetch_update(AcqRel, Acquire, |word| {
            let state = FrameState::unpack(word);
            let same = state.lsn == lsn;
            same.then(|| FrameState { lsn: state.lsn, dirty: state.dirty && dirty, fdirty: false }.pack())
        });
    }

    /// Records that disk has the version `lsn`. Does nothing if the page has changed.
    pub(super) fn destaged(&self, lsn: Lsn) {
        let _ = self.state.fetch_update(AcqRel, Acquire, |word| {
            let state = FrameState::unpack(word);
            let same = state.lsn == lsn && !state.fdirty;
            (same && state.dirty).then(|| FrameState { lsn: state.lsn, dirty: false, fdirty: false }.pack())
        });
    }
}
