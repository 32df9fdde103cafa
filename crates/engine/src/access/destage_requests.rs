//! Fronts in other processes order pages to be on disk: a place for each order, in memory that all share.
//!
//! A place goes Free → Filling → Asked → Done or Failed → Free; the front that takes it takes every step but
//! that of the answer. A front that leaves an order, or dies, marks it Left: who answers it frees it.

use crate::api::PageSet;
use entresol_core::PageId;
use entresol_objects::LOCATOR_BYTES;
use entresol_shm::atomic::{AtomicU64, Ordering::SeqCst};
use entresol_shm::{Holder, shared_struct};

/// Requests at a time. Other fronts wait.
const REQUESTS: usize = 8;

const FREE: u64 = 0;
const FILLING: u64 = 1;
const ASKED: u64 = 2;
const DONE: u64 = 3;
const FAILED: u64 = 4;
const LEFT: u64 = 5;
const STATE_BITS: u32 = 8;

/// The kind of [`PageSet`] in an order: a range, or names that begin with so many bytes, plus this.
const RANGE: u64 = 0;
const NAMED: u64 = 1;

shared_struct! {
    /// See the module's header. Zeros: no order.
    pub(crate) struct DestageRequests {
        places: [DestageRequest; REQUESTS],
    }

    pub(super) struct DestageRequest {
        /// Its state in the low [`STATE_BITS`] bits, and the number of the front's holder above them.
        state: AtomicU64,
        kind: AtomicU64,
        words: [AtomicU64; LOCATOR_BYTES / 8],
    }
}

impl Default for DestageRequests {
    fn default() -> Self {
        let order = || DestageRequest {
            state: AtomicU64::new(FREE),
            kind: AtomicU64::new(RANGE),
            words: [const { AtomicU64::new(0) }; LOCATOR_BYTES / 8],
        };
        Self { places: std::array::from_fn(|_| order()) }
    }
}

/// A place that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestPlace {
    at: usize,
    holder: u64,
}

impl RequestPlace {
    fn word(self, state: u64) -> u64 {
        self.holder << STATE_BITS | state
    }
}

impl DestageRequest {
    fn put(&self, pages: &PageSet) {
        let (kind, words) = match *pages {
            PageSet::Range(first, last) => (RANGE, [first.0, last.0, 0]),
            PageSet::Named { name, length } => {
                let word = |at: usize| u64::from_le_bytes(name[at * 8..][..8].try_into().expect("8 bytes"));
                (NAMED + length.min(LOCATOR_BYTES) as u64, [word(0), word(1), word(2)])
            }
        };
        self.kind.store(kind, SeqCst);
        for (place, word) in self.words.iter().zip(words) {
            place.store(word, SeqCst);
        }
    }

    fn pages(&self) -> PageSet {
        let words = [0, 1, 2].map(|at: usize| self.words[at].load(SeqCst));
        match self.kind.load(SeqCst).checked_sub(NAMED) {
            None => PageSet::Range(PageId(words[0]), PageId(words[1])),
            Some(length) => {
                let mut name = [0; LOCATOR_BYTES];
                for (bytes, word) in name.chunks_exact_mut(8).zip(words) {
                    bytes.copy_from_slice(&word.to_le_bytes());
                }
                PageSet::Named { name, length: length.min(LOCATOR_BYTES as u64) as usize }
            }
        }
    }
}

impl DestageRequests {
    /// Asks for `pages`, for a front. `None`: all places are taken.
    pub(crate) fn ask(&self, holder: Holder, pages: &PageSet) -> Option<RequestPlace> {
        let holder = holder.number().into();
        let placed = |at| RequestPlace { at, holder };
        let is_taken = |(at, place): &(usize, &DestageRequest)| {
            place.state.compare_exchange(FREE, placed(*at).word(FILLING), SeqCst, SeqCst).is_ok()
        };
        let (at, place) = self.places.iter().enumerate().find(is_taken)?;
        place.put(pages);
        place.state.store(placed(at).word(ASKED), SeqCst);
        Some(placed(at))
    }

    /// The answer, if there is one: whether it was done. The place is free then.
    pub(crate) fn answer(&self, placed: RequestPlace) -> Option<bool> {
        let state = &self.places[placed.at].state;
        let done = match state.load(SeqCst) {
            word if word == placed.word(DONE) => true,
            word if word == placed.word(FAILED) => false,
            _ => return None,
        };
        state.store(FREE, SeqCst);
        Some(done)
    }

    /// The front does not wait for the answer.
    pub(crate) fn leave(&self, placed: RequestPlace) {
        let state = &self.places[placed.at].state;
        let left = state.compare_exchange(placed.word(ASKED), placed.word(LEFT), SeqCst, SeqCst);
        if left.is_err() {
            // Answered meanwhile.
            state.store(FREE, SeqCst);
        }
    }

    /// A front has died. To be called before another gets its number.
    pub(crate) fn front_died(&self, holder: Holder) {
        for (at, place) in self.places.iter().enumerate() {
            let placed = RequestPlace { at, holder: holder.number().into() };
            let word = place.state.load(SeqCst);
            match word {
                // Who answers it frees it.
                _ if word == placed.word(LEFT) => {}
                _ if word == placed.word(ASKED) => self.leave(placed),
                _ if word >> STATE_BITS == placed.holder => place.state.store(FREE, SeqCst),
                _ => {}
            }
        }
    }

    /// An order that is not answered. One task asks, and [answers](DestageRequests::answer_to) it before it
    /// asks again.
    pub(crate) fn open(&self) -> Option<(RequestPlace, PageSet)> {
        self.places.iter().enumerate().find_map(|(at, place)| {
            let word = place.state.load(SeqCst);
            let placed = RequestPlace { at, holder: word >> STATE_BITS };
            if word == placed.word(LEFT) {
                place.state.store(FREE, SeqCst);
            }
            (word == placed.word(ASKED)).then(|| (placed, place.pages()))
        })
    }

    /// Answers an order.
    pub(crate) fn answer_to(&self, placed: RequestPlace, is_done: bool) {
        let answer = placed.word(if is_done { DONE } else { FAILED });
        let state = &self.places[placed.at].state;
        if state.compare_exchange(placed.word(ASKED), answer, SeqCst, SeqCst).is_err() {
            // Left. Nobody else takes the place before this.
            let _ = state.compare_exchange(placed.word(LEFT), FREE, SeqCst, SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(number: u32) -> Holder {
        Holder::new(number).expect("a number")
    }

    #[test]
    fn an_order_is_answered_once_and_its_place_is_free_again() {
        let orders = DestageRequests::default();
        let named = PageSet::Named { name: std::array::from_fn(|at| at as u8 + 1), length: 9 };
        for pages in [PageSet::Range(PageId(7), PageId(u64::MAX)), named] {
            for is_done in [true, false] {
                let placed = orders.ask(holder(3), &pages).expect("room");
                assert_eq!(orders.answer(placed), None);
                assert_eq!(orders.open(), Some((placed, pages)));
                orders.answer_to(placed, is_done);
                assert_eq!(orders.open(), None);
                assert_eq!(orders.answer(placed), Some(is_done));
            }
        }
        let places: Vec<_> = (0..REQUESTS).map(|_| orders.ask(holder(1), &named).expect("room")).collect();
        assert_eq!(orders.ask(holder(2), &named), None, "all places are taken");
        places.iter().for_each(|placed| orders.leave(*placed));
        while orders.open().is_some() {}
        assert!(orders.ask(holder(2), &named).is_some());
    }

    #[test]
    fn an_order_that_was_left_under_way_is_freed_by_who_answers_it() {
        let (orders, pages) = (DestageRequests::default(), PageSet::Range(PageId(1), PageId(2)));
        let placed = orders.ask(holder(3), &pages).expect("room");
        assert_eq!(orders.open(), Some((placed, pages)));
        orders.leave(placed);
        orders.front_died(holder(3));
        let other = orders.ask(holder(4), &pages).expect("room");
        assert_ne!(other.at, placed.at, "the place is not free before the answer");
        orders.answer_to(placed, true);
        assert_eq!(orders.open(), Some((other, pages)));
        assert_eq!(orders.ask(holder(5), &pages).map(|third| third.at), Some(placed.at));
    }

    #[test]
    fn orders_of_a_front_that_has_died_are_freed() {
        let orders = DestageRequests::default();
        let pages = PageSet::Range(PageId(1), PageId(2));
        let states = [FILLING, ASKED, DONE, FAILED];
        let placed = states.map(|_| orders.ask(holder(3), &pages).expect("room"));
        for (placed, state) in placed.iter().zip(states) {
            orders.places[placed.at].state.store(placed.word(state), SeqCst);
        }
        let other = orders.ask(holder(4), &pages).expect("room");
        orders.front_died(holder(3));
        // The one that was asked is under way, perhaps.
        orders.answer_to(placed[1], true);
        let free = |placed: &RequestPlace| orders.places[placed.at].state.load(SeqCst) == FREE;
        assert!(placed.iter().all(free), "all of the front that has died");
        assert_eq!(orders.open(), Some((other, pages)), "and no other");
    }
}
