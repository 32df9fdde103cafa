//! CLOCK, or second chance: FIFO in which a referenced frame goes back to the end instead of out, and is asked again there.

use super::Order;
use super::fifo::Ring;

/// CLOCK with one bit a frame, clear when a page enters.
pub struct Clock {
    ring: Ring,
    referenced: Vec<bool>,
}

impl Order for Clock {
    const NAME: &'static str = "clock";

    fn new(frames: u32) -> Self {
        Self { ring: Ring::new(frames), referenced: vec![false; frames as usize] }
    }

    #[inline(always)]
    fn hit(&mut self, frame: u32) {
        self.referenced[frame as usize] = true;
    }

    #[inline]
    fn enter(&mut self, frame: u32) {
        self.referenced[frame as usize] = false;
        self.ring.push(frame);
    }

    #[inline]
    fn victim(&mut self) -> Option<u32> {
        loop {
            let frame = self.ring.pop()?;
            if !std::mem::take(&mut self.referenced[frame as usize]) {
                return Some(frame);
            }
            self.ring.push(frame);
        }
    }

    fn put_back(&mut self, frame: u32) {
        self.ring.unpop(frame);
    }
}
