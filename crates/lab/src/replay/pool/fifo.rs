//! First in, first out: a ring of frame numbers.

use super::{Entry, Order};

/// FIFO.
pub struct Fifo {
    ring: Ring,
}

impl Order for Fifo {
    const NAME: &'static str = "fifo";
    type Note = ();

    fn new(entries: &mut [Entry<()>]) -> Self {
        Self { ring: Ring::new((entries.len() - 1) as u32) }
    }

    #[inline(always)]
    fn hit(&mut self, _entries: &mut [Entry<()>], _frame: u32) {}

    #[inline]
    fn enter(&mut self, _entries: &mut [Entry<()>], frame: u32) {
        self.ring.push(frame);
    }

    #[inline]
    fn victim(&mut self, _entries: &mut [Entry<()>]) -> Option<u32> {
        self.ring.pop()
    }

    fn put_back(&mut self, _entries: &mut [Entry<()>], frame: u32) {
        self.ring.unpop(frame);
    }
}

/// Frame numbers in the order in which they came, never more than there are frames.
pub(super) struct Ring {
    frames: Vec<u32>,
    first: u32,
    length: u32,
}

impl Ring {
    pub(super) fn new(frames: u32) -> Self {
        Self { frames: vec![0; frames as usize], first: 0, length: 0 }
    }

    #[inline]
    pub(super) fn push(&mut self, frame: u32) {
        let size = self.frames.len() as u32;
        debug_assert!(self.length < size);
        let at = self.first as u64 + self.length as u64;
        let at = if at >= u64::from(size) { at - u64::from(size) } else { at };
        self.frames[at as usize] = frame;
        self.length += 1;
    }

    /// Puts back what [`Ring::pop`] just gave.
    pub(super) fn unpop(&mut self, frame: u32) {
        self.first = if self.first == 0 { self.frames.len() as u32 - 1 } else { self.first - 1 };
        self.frames[self.first as usize] = frame;
        self.length += 1;
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<u32> {
        if self.length == 0 {
            return None;
        }
        let frame = self.frames[self.first as usize];
        self.first = if self.first + 1 == self.frames.len() as u32 { 0 } else { self.first + 1 };
        self.length -= 1;
        Some(frame)
    }
}
