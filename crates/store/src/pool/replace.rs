//! The order of eviction: LRU or clock.
//!
//! Invariant: the replacer contains exactly the frames with a page. It picks only frames whose pin the caller
//! could take.

use super::frame::{Frame, FrameId};
use crate::Replacement;
use entresol_runtime::sync::{Rank, TinyMutex};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// One of the two policies.
pub(super) enum Replacer {
    Lru(Lru),
    Clock(Clock),
}

impl Replacer {
    pub(super) fn new(kind: Replacement, frames: usize) -> Replacer {
        match kind {
            Replacement::Lru => Replacer::Lru(Lru::new(frames)),
            Replacement::Clock => Replacer::Clock(Clock {
                hand: TinyMutex::new(Rank::Replacer, Hand { at: 0, member: vec![false; frames] }),
            }),
        }
    }

    /// The frame was fixed.
    pub(super) fn touch(&self, id: FrameId, frame: &Frame) {
        match self {
            Replacer::Lru(lru) => lru.touch(id, frame),
            Replacer::Clock(_) => frame.referenced.store(true, Relaxed),
        }
    }

    /// The frame got a page.
    pub(super) fn insert(&self, id: FrameId, frame: &Frame) {
        match self {
            Replacer::Lru(lru) => lru.insert(id, frame),
            Replacer::Clock(clock) => {
                frame.referenced.store(true, Relaxed);
                clock.hand.lock().member[id.0 as usize] = true;
            }
        }
    }

    /// The frame lost its page.
    pub(super) fn remove(&self, id: FrameId) {
        match self {
            Replacer::Lru(lru) => {
                lru.list.lock().unlink(id.0);
            }
            Replacer::Clock(clock) => clock.hand.lock().member[id.0 as usize] = false,
        }
    }

    /// The coldest frame that `take` accepts; `take` pins it.
    pub(super) fn pick(&self, frames: &[Frame], mut take: impl FnMut(&Frame) -> bool) -> Option<FrameId> {
        match self {
            Replacer::Lru(lru) => {
                let list = lru.list.lock();
                let mut at = list.previous[list.head() as usize];
                while at != list.head() {
                    if take(&frames[at as usize]) {
                        return Some(FrameId(at));
                    }
                    at = list.previous[at as usize];
                }
                None
            }
            Replacer::Clock(clock) => {
                let mut hand = clock.hand.lock();
                // The first round clears reference bits, so the second one can find a frame.
                for _ in 0..2 * frames.len() {
                    let at = hand.at;
                    hand.at = (at + 1) % frames.len();
                    if !hand.member[at] || frames[at].pins() > 0 || frames[at].referenced.swap(false, Relaxed)
                    {
                        continue;
                    }
                    if take(&frames[at]) {
                        return Some(FrameId(at as u32));
                    }
                }
                None
            }
        }
    }
}

/// Least recently used, as a list through the frames. A frame that was moved to the front within the last
/// sixteenth of the pool's moves is not moved. So accesses to hot pages need no lock, and the position of a
/// frame is wrong by at most a sixteenth.
pub(super) struct Lru {
    list: TinyMutex<List>,
    moves: AtomicU32,
    slack: u32,
}

impl Lru {
    fn new(frames: usize) -> Lru {
        let links: Vec<u32> = (0..=frames as u32).collect();
        Lru {
            list: TinyMutex::new(Rank::Replacer, List { next: links.clone(), previous: links }),
            moves: AtomicU32::new(0),
            slack: frames as u32 / 16,
        }
    }

    fn touch(&self, id: FrameId, frame: &Frame) {
        if self.moves.load(Relaxed).wrapping_sub(frame.stamp.load(Relaxed)) < self.slack {
            return;
        }
        let mut list = self.list.lock();
        if list.unlink(id.0) {
            list.push_front(id.0);
            self.stamp(frame);
        }
    }

    fn insert(&self, id: FrameId, frame: &Frame) {
        let mut list = self.list.lock();
        list.unlink(id.0);
        list.push_front(id.0);
        self.stamp(frame);
    }

    fn stamp(&self, frame: &Frame) {
        let now = self.moves.load(Relaxed).wrapping_add(1);
        self.moves.store(now, Relaxed);
        frame.stamp.store(now, Relaxed);
    }
}

/// A ring of links; the last index is the head. A frame linked to itself is not in the list.
struct List {
    next: Vec<u32>,
    previous: Vec<u32>,
}

impl List {
    fn head(&self) -> u32 {
        self.next.len() as u32 - 1
    }

    /// Returns whether it was in the list.
    fn unlink(&mut self, id: u32) -> bool {
        let (next, previous) = (self.next[id as usize], self.previous[id as usize]);
        if next == id {
            return false;
        }
        self.next[previous as usize] = next;
        self.previous[next as usize] = previous;
        self.next[id as usize] = id;
        self.previous[id as usize] = id;
        true
    }

    fn push_front(&mut self, id: u32) {
        let head = self.head();
        let first = self.next[head as usize];
        self.next[head as usize] = id;
        self.previous[id as usize] = head;
        self.next[id as usize] = first;
        self.previous[first as usize] = id;
    }
}

/// Second chance with a rotating hand.
pub(super) struct Clock {
    hand: TinyMutex<Hand>,
}

struct Hand {
    at: usize,
    member: Vec<bool>,
}
