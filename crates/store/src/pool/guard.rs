//! Pinned pages, and pages latched shared or exclusively.
//!
//! Invariant: a latch is released before its pin.

use super::frame::{Frame, FrameId};
use super::frames::Frames;
use crate::PageNumber;
use entresol_core::Lsn;
use entresol_format::page::{header, header_mut};
use entresol_runtime::sync::{RwLockReadGuard, RwLockWriteGuard};
use zerocopy::little_endian::U64;

/// Keeps a page in its frame.
pub(crate) struct Pin<'a> {
    frames: &'a Frames,
    frame: FrameId,
    page: PageNumber,
}

impl<'a> Pin<'a> {
    pub(super) fn new(frames: &'a Frames, frame: FrameId, page: PageNumber) -> Pin<'a> {
        Pin { frames, frame, page }
    }

    pub(crate) fn page(&self) -> PageNumber {
        self.page
    }

    /// Removes the page, which has no content, from its frame. The caller has latched it exclusively.
    pub(super) fn withdraw(&self) {
        self.frames.withdraw(self.frame, self.page);
    }

    pub(crate) fn frame(&self) -> &'a Frame {
        self.frames.get(self.frame)
    }

    /// Latches the page shared; `None` if its fetch has failed.
    pub(crate) fn read(self) -> Option<PageRead<'a>> {
        let frame = self.frame();
        let data = frame.data.read();
        frame.holds(self.page).then_some(PageRead { data, pin: self })
    }

    /// As [`Pin::read`], but returns the pin instead of waiting.
    pub(crate) fn try_read(self) -> Result<PageRead<'a>, Pin<'a>> {
        let frame = self.frame();
        match frame.data.try_read() {
            Some(data) if frame.holds(self.page) => Ok(PageRead { data, pin: self }),
            _ => Err(self),
        }
    }

    /// Latches the page exclusively; `None` if its fetch has failed.
    pub(crate) fn write(self) -> Option<PageWrite<'a>> {
        let frame = self.frame();
        let data = frame.data.write();
        frame.holds(self.page).then_some(PageWrite { blank: false, watched: false, data, pin: self })
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.frames.unpin(self.frame);
    }
}

/// A page latched shared.
pub(crate) struct PageRead<'a> {
    data: RwLockReadGuard<'a, Box<[u8]>>,
    pin: Pin<'a>,
}

impl<'a> PageRead<'a> {
    pub(crate) fn number(&self) -> PageNumber {
        self.pin.page
    }

    /// LSN of the page's newest change.
    pub(crate) fn lsn(&self) -> Lsn {
        Lsn(header(&self.data).lsn.get())
    }

    /// Releases the latch and keeps the pin.
    pub(crate) fn unlatch(self) -> Pin<'a> {
        drop(self.data);
        self.pin
    }
}

impl std::ops::Deref for PageRead<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.data
    }
}

/// A page latched exclusively.
pub(crate) struct PageWrite<'a> {
    /// The page was not fetched and has no content yet. No other task may see it in this state.
    blank: bool,
    /// The watcher was notified of a change since the page was latched.
    watched: bool,
    data: RwLockWriteGuard<'a, Box<[u8]>>,
    pin: Pin<'a>,
}

impl<'a> PageWrite<'a> {
    /// A page that was not fetched. If it is not changed, it is removed from the pool when this is dropped.
    pub(super) fn blank(data: RwLockWriteGuard<'a, Box<[u8]>>, pin: Pin<'a>) -> PageWrite<'a> {
        PageWrite { blank: true, watched: false, data, pin }
    }

    pub(crate) fn number(&self) -> PageNumber {
        self.pin.page
    }

    /// LSN of the page's newest change.
    pub(crate) fn lsn(&self) -> Lsn {
        Lsn(header(&self.data).lsn.get())
    }

    /// The page's bytes for a change. Marks the frame dirty first.
    pub(crate) fn change(&mut self) -> &mut [u8] {
        self.blank = false;
        self.pin.frame().state.mark_dirty();
        if let Some(watcher) = self.pin.frames.watcher()
            && !std::mem::replace(&mut self.watched, true)
        {
            watcher.changed(self.pin.page.id());
        }
        &mut self.data
    }

    /// Records that the changes were logged at `lsn`.
    pub(crate) fn changed(&mut self, lsn: Lsn) {
        let id = self.pin.page.id();
        let head = header_mut(&mut self.data);
        head.lsn = U64::new(lsn.0);
        head.page = U64::new(id.0);
        self.pin.frame().state.changed(lsn);
    }
}

impl Drop for PageWrite<'_> {
    fn drop(&mut self) {
        if self.blank {
            // Under the latch: tasks that wait for it then find the frame without their page.
            self.pin.withdraw();
        }
    }
}

impl std::ops::Deref for PageWrite<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.data
    }
}
