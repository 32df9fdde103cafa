//! CLOCK, or second chance: FIFO in which a referenced frame goes back to the end instead of out, and is
//! asked again there.

use super::fifo::Ring;
use super::{Entry, Order};

/// CLOCK with one bit a frame, clear when a page enters.
pub struct Clock {
    ring: Ring,
}

impl Order for Clock {
    const NAME: &'static str = "clock";
    /// Referenced since it entered or was asked last.
    type Note = bool;

    fn new(entries: &mut [Entry<bool>]) -> Self {
        Self { ring: Ring::new((entries.len() - 1) as u32) }
    }

    #[inline(always)]
    fn hit(&mut self, entries: &mut [Entry<bool>], frame: u32) {
        entries[frame as usize].note = true;
    }

    #[inline]
    fn enter(&mut self, entries: &mut [Entry<bool>], frame: u32) {
        entries[frame as usize].note = false;
        self.ring.push(frame);
    }

    #[inline]
    fn victim(&mut self, entries: &mut [Entry<bool>]) -> Option<u32> {
        loop {
            let frame = self.ring.pop()?;
            if !std::mem::take(&mut entries[frame as usize].note) {
                return Some(frame);
            }
            self.ring.push(frame);
        }
    }

    fn put_back(&mut self, _entries: &mut [Entry<bool>], frame: u32) {
        self.ring.unpop(frame);
    }
}
