//! Least recently used: a circle of frames linked by number, with a head behind the last frame.

use super::Order;

#[derive(Clone, Copy)]
struct Link {
    /// Towards the more recently used.
    newer: u32,
    /// Towards the less recently used.
    older: u32,
}

/// LRU.
pub struct Lru {
    links: Vec<Link>,
}

impl Lru {
    fn head(&self) -> u32 {
        (self.links.len() - 1) as u32
    }

    #[inline(always)]
    fn take_out(&mut self, frame: u32) {
        let Link { newer, older } = self.links[frame as usize];
        self.links[newer as usize].older = older;
        self.links[older as usize].newer = newer;
    }

    #[inline(always)]
    fn push_newest(&mut self, frame: u32) {
        let head = self.head();
        let newest = self.links[head as usize].older;
        self.links[frame as usize] = Link { newer: head, older: newest };
        self.links[newest as usize].newer = frame;
        self.links[head as usize].older = frame;
    }
}

impl Order for Lru {
    const NAME: &'static str = "lru";

    fn new(frames: u32) -> Self {
        // The head is its own neighbour; frames are linked when they enter.
        Self { links: vec![Link { newer: frames, older: frames }; frames as usize + 1] }
    }

    #[inline(always)]
    fn hit(&mut self, frame: u32) {
        if self.links[frame as usize].newer != self.head() {
            self.take_out(frame);
            self.push_newest(frame);
        }
    }

    #[inline]
    fn enter(&mut self, frame: u32) {
        self.push_newest(frame);
    }

    #[inline]
    fn victim(&mut self) -> Option<u32> {
        let oldest = self.links[self.head() as usize].newer;
        if oldest == self.head() {
            return None;
        }
        self.take_out(oldest);
        Some(oldest)
    }

    fn put_back(&mut self, frame: u32) {
        let head = self.head();
        let oldest = self.links[head as usize].newer;
        self.links[frame as usize] = Link { newer: oldest, older: head };
        self.links[oldest as usize].older = frame;
        self.links[head as usize].newer = frame;
    }
}
