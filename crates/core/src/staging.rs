//! Staging: the frames between DRAM and flash. A page gets its position when it enters; frame = position mod staging
//! pages. So, with log placement, a staging group mirrors the group on flash that it will become.
//!
//! Invariant: `staged_front <= position of every frame in use < rear <= staged_front + staging pages`.

use crate::job::{Admission, FrameId};
use crate::region::Partition;
use crate::slot::DIRTY;
use crate::{Lsn, PageId, Position};

/// The frame is unused.
pub(crate) const FREE: u32 = 0;
/// Given out; the page is being copied in.
pub(crate) const FILLING: u32 = 1;
/// Complete, waiting to be written.
pub(crate) const READY: u32 = 2;
/// In a write job.
pub(crate) const WRITING: u32 = 3;
/// Written, while others of its group are not (log placement).
pub(crate) const WRITTEN: u32 = 4;
/// Written (or overtaken by a newer version); waits for the frames before it.
pub(crate) const DONE: u32 = 5;

/// In `unit`: the frame holds no page, it only closes a group.
pub(crate) const PADDING: u32 = u32::MAX;

impl Partition<'_> {
    pub(crate) fn staging_pages(&self) -> u64 {
        self.staged.len() as u64
    }

    /// The frame of a position in the staging window: position mod staging pages.
    #[inline]
    pub(crate) fn frame_of(&self, position: u64) -> u32 {
        debug_assert!(
            position >= self.head.staged_front && position - self.head.staged_front <= self.staging_pages()
        );
        let frame = self.head.front_frame + (position - self.head.staged_front) as u32;
        let frames = self.staged.len() as u32;
        if frame >= frames { frame - frames } else { frame }
    }

    fn advance_rear(&mut self) {
        self.head.rear += 1;
        self.head.staged += 1;
        self.head.open = if self.head.open + 1 == self.head.group_pages { 0 } else { self.head.open + 1 };
    }

    /// Directory entry of a staging frame.
    pub(crate) fn entry_of(&self, frame: u32) -> u32 {
        self.head.slots + frame
    }

    pub(crate) fn frame_available(&self) -> bool {
        self.head.rear < self.head.staged_front + self.staging_pages()
    }

    /// Gives the next position and its frame to `page`. The caller has made sure that both are available.
    pub(crate) fn enter(&mut self, page: PageId, lsn: Lsn, dirty: bool, unit: u32) -> Admission {
        let position = self.head.rear;
        let frame = self.frame_of(position);
        let staged = &mut self.staged[frame as usize];
        debug_assert_eq!(staged.state, FREE);
        *staged = crate::region::Staged { lsn: lsn.0, position, unit, state: FILLING };
        let entry = self.entry_of(frame);
        self.slots[entry as usize].set(page, if dirty { DIRTY } else { 0 });
        self.link(entry);
        self.advance_rear();
        Admission::Stage { frame: FrameId(frame), position: Position(position) }
    }

    /// Gives the next position to nobody, to close a group.
    pub(crate) fn pad(&mut self) {
        let position = self.head.rear;
        let frame = self.frame_of(position);
        self.staged[frame as usize] = crate::region::Staged { lsn: 0, position, unit: PADDING, state: READY };
        let entry = self.entry_of(frame);
        self.slots[entry as usize].clear();
        self.advance_rear();
    }

    /// Whether the frame pads a group: it holds no page.
    pub(crate) fn is_padding(&self, frame: u32) -> bool {
        self.staged[frame as usize].unit == PADDING
    }

    /// Frees the frames of the oldest positions that are done.
    pub(crate) fn retire(&mut self, step: u64) {
        while self.head.staged_front < self.head.rear {
            let first = self.head.staged_front;
            let last = (first + step).min(self.head.rear);
            let done = |p: u64| self.staged[self.frame_of(p) as usize].state == DONE;
            if last - first < step || !(first..last).all(done) {
                return;
            }
            for position in first..last {
                let frame = self.frame_of(position);
                self.staged[frame as usize].state = FREE;
                self.head.staged -= 1;
            }
            self.head.front_frame = self.frame_of(last);
            self.head.staged_front = last;
        }
    }
}
