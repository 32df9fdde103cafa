//! A frame's state word: the page's LSN and two flags.
//!
//! Invariant: `dirty` says that the page is newer than disk, and `fdirty` that it is newer than the version
//! in the layer below (FaCE §3.3). Both flags are set before their change is logged. `fdirty` is cleared only
//! when the layer has this LSN, and `dirty` only while `fdirty` is clear. So no unwritten change is treated
//! as written.

use entresol_core::Lsn;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

const DIRTY: u64 = 1;
const FDIRTY: u64 = 2;
const FLAG_BITS: u32 = 2;

/// A frame's state word, unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameState {
    pub lsn: Lsn,
    pub dirty: bool,
    pub fdirty: bool,
}

impl FrameState {
    /// The state of a page that was never changed.
    pub(super) const CLEAN: FrameState = FrameState { lsn: Lsn(0), dirty: false, fdirty: false };

    fn pack(self) -> u64 {
        self.lsn.0 << FLAG_BITS | if self.fdirty { FDIRTY } else { 0 } | if self.dirty { DIRTY } else { 0 }
    }
    fn unpack(word: u64) -> FrameState {
        FrameState { lsn: Lsn(word >> FLAG_BITS), dirty: word & DIRTY != 0, fdirty: word & FDIRTY != 0 }
    }
}

/// See the module's header.
#[derive(Default)]
pub(crate) struct StateWord(AtomicU64);

impl StateWord {
    /// Begins anew with `state`: the frame gets another page, or its page was fetched.
    pub(super) fn set(&self, state: FrameState) {
        self.0.store(state.pack(), Release);
    }

    /// LSN and flags.
    pub(crate) fn get(&self) -> FrameState {
        FrameState::unpack(self.0.load(Acquire))
    }

    /// Called before a change is made and logged.
    pub(crate) fn mark_dirty(&self) {
        if self.0.load(Relaxed) & (DIRTY | FDIRTY) != DIRTY | FDIRTY {
            self.0.fetch_or(DIRTY | FDIRTY, SeqCst);
        }
    }

    /// Records that the change was logged at `lsn`.
    pub(crate) fn changed(&self, lsn: Lsn) {
        self.0.store(FrameState { lsn, dirty: true, fdirty: true }.pack(), Release);
    }

    /// Records that the layer has the version `lsn`, which is newer than disk if `dirty`. Does nothing if the
    /// page has changed.
    pub(crate) fn evicted(&self, lsn: Lsn, dirty: bool) {
        let _ = self.0.fetch_update(AcqRel, Acquire, |word| {
            let state = FrameState::unpack(word);
            let same = state.lsn == lsn;
            same.then(|| FrameState { lsn: state.lsn, dirty: state.dirty && dirty, fdirty: false }.pack())
        });
    }

    /// Records that disk has the version `lsn`. Does nothing if the page has changed.
    pub(super) fn destaged(&self, lsn: Lsn) {
        let _ = self.0.fetch_update(AcqRel, Acquire, |word| {
            let state = FrameState::unpack(word);
            let same = state.lsn == lsn && !state.fdirty;
            (same && state.dirty).then(|| FrameState { lsn: state.lsn, dirty: false, fdirty: false }.pack())
        });
    }
}
