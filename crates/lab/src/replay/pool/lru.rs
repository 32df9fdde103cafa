//! Least recently used: a circle of frames linked by number, with a head behind the last frame.

use super::{Entry, Order};

/// A frame's neighbours.
#[derive(Clone, Copy, Debug, Default)]
pub struct Link {
    /// Towards the more recently used.
    newer: u32,
    /// Towards the less recently used.
    older: u32,
}

/// LRU.
pub struct Lru {
    head: u32,
}

const _: () = assert!(size_of::<Entry<Link>>() == 16, "four frames in a line of the processor's cache");

impl Lru {
    #[inline(always)]
    fn take_out(entries: &mut [Entry<Link>], frame: u32) {
        let Link { newer, older } = entries[frame as usize].note;
        entries[newer as usize].note.older = older;
        entries[older as usize].note.newer = newer;
    }

    #[inline(always)]
    fn push_newest(&self, entries: &mut [Entry<Link>], frame: u32) {
        let head = self.head;
        let newest = entries[head as usize].note.older;
        entries[frame as usize].note = Link { newer: head, older: newest };
        entries[newest as usize].note.newer = frame;
        entries[head as usize].note.older = frame;
    }
}

impl Order for Lru {
    const NAME: &'static str = "lru";
    type Note = Link;

    fn new(entries: &mut [Entry<Link>]) -> Self {
        // The head is its own neighbour; frames are linked when they enter.
        let head = (entries.len() - 1) as u32;
        entries[head as usize].note = Link { newer: head, older: head };
        Self { head }
    }

    #[inline(always)]
    fn hit(&mut self, entries: &mut [Entry<Link>], frame: u32) {
        if entries[frame as usize].note.newer != self.head {
            Self::take_out(entries, frame);
            self.push_newest(entries, frame);
        }
    }

    #[inline]
    fn enter(&mut self, entries: &mut [Entry<Link>], frame: u32) {
        self.push_newest(entries, frame);
    }

    #[inline]
    fn victim(&mut self, entries: &mut [Entry<Link>]) -> Option<u32> {
        let oldest = entries[self.head as usize].note.newer;
        if oldest == self.head {
            return None;
        }
        Self::take_out(entries, oldest);
        Some(oldest)
    }

    fn put_back(&mut self, entries: &mut [Entry<Link>], frame: u32) {
        let head = self.head;
        let oldest = entries[head as usize].note.newer;
        entries[frame as usize].note = Link { newer: oldest, older: head };
        entries[oldest as usize].note.older = frame;
        entries[head as usize].note.newer = frame;
    }
}
