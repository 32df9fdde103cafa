//! Staging: the frames between DRAM and flash. A page gets its position when it enters; frame = position mod
//! staging pages. So, with log placement, a staging group mirrors the group on flash that it will become.
//!
//! Invariants:
//! - `front <= position of every frame in use < rear <= front + staging pages`; all others are free.
//! - `front_frame` is `front mod staging pages`, `used` is `rear - front`, `open` is `rear mod group pages`.
//!   They are kept so that no division is on the way of a page.

use crate::job::FrameId;
use crate::sections::{Carver, SectionPlan};
use crate::sizes::Sizes;
use crate::{Lsn, Position};
use std::ops::Range;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, TryFromBytes};

/// What is happening to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, TryFromBytes, Immutable, KnownLayout)]
#[repr(u32)]
pub(crate) enum FrameState {
    /// Unused.
    Free,
    /// Given out; the page is being copied in.
    Filling,
    /// Complete, waiting to be written.
    Ready,
    /// In a write job.
    Writing,
    /// Written, while others of its group are not (log placement).
    Written,
    /// Written (or overtaken by a newer version); waits for the frames before it.
    Done,
}

/// A staging frame.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Frame {
    /// Of the page's newest change.
    pub lsn: Lsn,
    pub position: Position,
    /// A [`FrameState`], kept as a word and converted where it is used: were it the type itself, each
    /// attachment would have to verify every frame, and a door that attaches for each call is to pay the same
    /// for any size.
    state: u32,
    /// 1: it holds no page, and only closes a group.
    padding: u32,
}

impl Frame {
    /// Its state. `None`: the word is none.
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

    /// Whether its page is in the index.
    pub(crate) fn holds_page(&self) -> bool {
        !self.is(FrameState::Free) && !self.is(FrameState::Done) && !self.is_padding()
    }
}

/// The positions that staging holds.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Window {
    /// Next position to give out.
    pub rear: u64,
    /// First position whose frame is still needed; multiple of the group size with log placement.
    pub front: u64,
    /// `front mod staging pages`.
    pub front_frame: u32,
    /// Frames in use.
    pub used: u32,
    /// Positions of the open group that were given out; 0: no group is open.
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
    /// Takes its section. `None`: the region is too short.
    #[inline(always)]
    pub(crate) fn attach(window: &'r mut Window, carver: &mut Carver<'r, '_>) -> Option<Self> {
        Some(Self { group_pages: carver.sizes().group_pages, window, frames: carver.take(&FRAMES)? })
    }

    /// Pages that it holds.
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

    /// What is in the frame of a position in the window.
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

    /// Some positions of a group were given out, and others not.
    pub(crate) fn group_is_open(&self) -> bool {
        self.window.open != 0
    }

    /// Positions of the open group that were not given out.
    pub(crate) fn open_positions(&self) -> u64 {
        (self.group_pages - self.window.open) as u64
    }

    /// Gives the next position and its frame to a page. The caller has made sure that both are available.
    #[inline]
    pub(crate) fn enter(&mut self, lsn: Lsn) -> (FrameId, Position) {
        self.give_out(lsn, FrameState::Filling, 0)
    }

    /// Skips the next position, to close a group.
    pub(crate) fn pad(&mut self) -> FrameId {
        self.give_out(Lsn(0), FrameState::Ready, 1).0
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

    /// Begins anew, with no frame in use, at position `rear`: a multiple of the group size.
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
