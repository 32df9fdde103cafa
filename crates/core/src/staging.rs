//! Staging: the frames between DRAM and flash. A page gets its position when it enters; frame = position mod
//! staging pages. So with log placement a staging group mirrors its future group on flash.
//!
//! Invariants:
//! - `front <= position of every frame in use < rear <= front + staging pages`; all others are free.
//! - `front_frame` is `front mod staging pages`, `used` is `rear - front`, `open` is `rear mod group pages`.
//!   They are kept so that staging a page needs no division.

use crate::job::FrameId;
use crate::sections::{Carver, SectionPlan};
use crate::sizes::Sizes;
use crate::{Lsn, Position};
use std::ops::Range;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, TryFromBytes};

/// The state of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, TryFromBytes, Immutable, KnownLayout)]
#[repr(u32)]
pub(crate) enum FrameState {
    /// Not in use.
    Free,
    /// Given out; the page is being copied in.
    Filling,
    /// Complete, waiting to be written.
    Ready,
    /// In a write job.
    Writing,
    /// Written, while other frames of its group are not (log placement).
    Written,
    /// Written (or overtaken by a newer version); waits for the frames of older positions.
    Done,
}

/// A staging frame.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Frame {
    /// LSN of the page's newest change.
    pub lsn: Lsn,
    pub position: Position,
    /// A [`FrameState`], kept as a word and converted at its use. With the type itself, each attachment would
    /// have to verify every frame. The cost of an attachment must not depend on the size, for drivers that
    /// attach for each call.
    state: u32,
    /// [`PAD`], [`STRUCK_OUT`] or [`FLUSHED`]: the frame holds no page, and only fills up its group.
    padding: u32,
}

/// Given out without a page, to close a group.
const PAD: u32 = 1;
/// Its page was forgotten.
const STRUCK_OUT: u32 = 2;
/// Its page was forgotten after its flush had begun.
const FLUSHED: u32 = 3;

impl Frame {
    /// Its state. `None`: the word is not a state.
    pub(crate) fn state(&self) -> Option<FrameState> {
        FrameState::try_read_from_bytes(self.state.as_bytes()).ok()
    }

    #[inline]
    pub(crate) fn is(&self, state: FrameState) -> bool {
        self.state == state as u32
    }

    #[inline]
    pub(crate) fn set(&mut self, state: FrameState) {
        self.state = state as u32;
    }

    pub(crate) fn is_padding(&self) -> bool {
        self.padding != 0
    }

    /// Whether its page was forgotten after its flush had begun.
    pub(crate) fn was_flushed(&self) -> bool {
        self.padding == FLUSHED
    }

    /// Whether it never held a page.
    pub(crate) fn is_pad(&self) -> bool {
        self.padding == PAD
    }

    /// Its page was forgotten. `flushed`: a flush that is over or under way names the page.
    pub(crate) fn strike_out(&mut self, flushed: bool) {
        self.padding = if flushed { FLUSHED } else { STRUCK_OUT };
    }

    /// Whether a summary of its group names its page: what makes a forgotten page dead may not be durable,
    /// and then the next summary must not take the page from the one that is.
    pub(crate) fn is_named(&self) -> bool {
        !self.is(FrameState::Free) && (!self.is_padding() || self.padding == FLUSHED)
    }

    /// Whether its page is in the index.
    pub(crate) fn holds_page(&self) -> bool {
        !self.is(FrameState::Free) && !self.is(FrameState::Done) && !self.is_padding()
    }
}

/// The window of positions in staging.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Window {
    /// Next position to give out.
    pub rear: u64,
    /// First position whose frame is still needed; a multiple of the group size with log placement.
    pub front: u64,
    /// `front mod staging pages`.
    pub front_frame: u32,
    /// Frames in use.
    pub used: u32,
    /// Positions of the open group that were given out. 0: no group is open.
    pub open: u32,
    /// Keeps the window a multiple of 8 bytes long.
    reserved: u32,
}

/// The frames and the window of positions in them.
pub(crate) struct Staging<'r> {
    /// Pages of a group.
    pub group_pages: u32,
    pub window: &'r mut Window,
    pub frames: &'r mut [Frame],
}

pub(crate) const FRAMES: SectionPlan = SectionPlan::many::<Frame>("staged", Sizes::staging_pages);

impl<'r> Staging<'r> {
    /// Attaches to its section. `None`: the region is too short.
    #[inline(always)]
    pub(crate) fn attach(window: &'r mut Window, carver: &mut Carver<'r, '_>) -> Option<Self> {
        Some(Self { group_pages: carver.sizes().group_pages, window, frames: carver.take(&FRAMES)? })
    }

    /// Pages of staging.
    pub(crate) fn pages(&self) -> u64 {
        self.frames.len() as u64
    }

    /// The positions in the window.
    pub(crate) fn positions(&self) -> Range<u64> {
        self.window.front..self.window.rear
    }

    /// The frame of a position in the window: position mod staging pages.
    #[inline]
    pub(crate) fn frame_of(&self, position: u64) -> u32 {
        debug_assert!(position >= self.window.front && position - self.window.front <= self.pages());
        let frame = self.window.front_frame + (position - self.window.front) as u32;
        let frames = self.frames.len() as u32;
        if frame >= frames { frame - frames } else { frame }
    }

    /// The frame of a position in the window.
    pub(crate) fn at(&self, position: u64) -> &Frame {
        &self.frames[self.frame_of(position) as usize]
    }

    #[inline]
    pub(crate) fn frame(&self, frame: u32) -> &Frame {
        &self.frames[frame as usize]
    }

    #[inline]
    pub(crate) fn frame_mut(&mut self, frame: u32) -> &mut Frame {
        &mut self.frames[frame as usize]
    }

    pub(crate) fn frame_available(&self) -> bool {
        self.window.rear < self.window.front + self.pages()
    }

    /// Whether some positions of a group were given out and others not.
    pub(crate) fn group_is_open(&self) -> bool {
        self.window.open != 0
    }

    /// Positions of the open group that were not given out.
    pub(crate) fn open_positions(&self) -> u64 {
        (self.group_pages - self.window.open) as u64
    }

    /// Gives the next position and its frame to a page. The caller makes sure that both are available.
    #[inline]
    pub(crate) fn enter(&mut self, lsn: Lsn) -> (FrameId, Position) {
        self.give_out(lsn, FrameState::Filling, 0)
    }

    /// Skips the next position, to close a group.
    pub(crate) fn pad(&mut self) -> FrameId {
        self.give_out(Lsn(0), FrameState::Ready, PAD).0
    }

    #[inline(always)]
    fn give_out(&mut self, lsn: Lsn, state: FrameState, padding: u32) -> (FrameId, Position) {
        let position = Position(self.window.rear);
        let frame = self.frame_of(position.0);
        debug_assert!(self.frame(frame).is(FrameState::Free));
        *self.frame_mut(frame) = Frame { lsn, position, state: state as u32, padding };
        self.window.rear += 1;
        self.window.used += 1;
        self.window.open = if self.window.open + 1 == self.group_pages { 0 } else { self.window.open + 1 };
        (FrameId(frame), position)
    }

    /// Restarts at position `rear`, a multiple of the group size, with no frame in use.
    pub(crate) fn begin_at(&mut self, rear: Position) {
        self.window.rear = rear.0;
        self.window.front = rear.0;
        self.window.front_frame = (rear.0 % self.pages()) as u32;
    }

    /// Frees the frames of the oldest positions that are done, `step` at a time.
    pub(crate) fn retire(&mut self, step: u64) {
        while self.window.front < self.window.rear {
            let first = self.window.front;
            let last = (first + step).min(self.window.rear);
            let done = |position: u64| self.at(position).is(FrameState::Done);
            if last - first < step || !(first..last).all(done) {
                return;
            }
            for position in first..last {
                let frame = self.frame_of(position);
                self.frame_mut(frame).set(FrameState::Free);
                self.window.used -= 1;
            }
            self.window.front_frame = self.frame_of(last);
            self.window.front = last;
        }
    }
}
