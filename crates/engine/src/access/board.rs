//! The words that all fronts and the back share. All of them may be read and changed at any time, by anybody;
//! a board of zeros is that of a cache that runs.

use super::destage_requests::DestageRequests;
use crate::metrics::Tallies;
use crate::tally::lane_of_thread;
use entresol_core::PageId;
use entresol_shm::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use entresol_shm::{Shared, shared_struct};
use std::ops::Deref;
use std::sync::Arc;

/// Counters of the order of pages.
pub(crate) const ORDER_PLACES: usize = 4096;
/// Damaged pages that the back can be told of at a time.
const DAMAGES: usize = 16;

shared_struct! {
    /// See the module's header.
    pub(crate) struct Board {
        pub(super) state: StateLine,
        /// Database checkpoints under way.
        pub checkpoints: AtomicU32,
        /// Evictors that wait for room.
        pub waiting: AtomicU32,
        /// Number of the last disk write that a caller made.
        pub disk_owed: AtomicU64,
        /// Of the pages written to disk, how many are known to be durable there.
        pub disk_synced: AtomicU64,
        pub tallies: Tallies,
        /// See [`super::PageOrder`].
        pub(super) order: [AtomicU32; ORDER_PLACES],
        pub(super) writing: [AtomicU32; ORDER_PLACES],
        /// See [`Board::marks`].
        marks: [AtomicU64; 2],
        /// What fronts in other processes ask the back for.
        pub flushes: Request,
        pub checkpoints_asked: Request,
        pub destage_requests: DestageRequests,
        /// Pages whose copies on flash fronts have found damaged, plus one; 0: a free place.
        damages: [AtomicU64; DAMAGES],
    }

    /// How the cache is: a [`super::State`]. Every hit reads it, so it has a cache line of its own.
    #[derive(Default)]
    #[repr(align(64))]
    pub(super) struct StateLine {
        pub(super) word: AtomicU32,
    }

    /// A service of the back for any process. Requests have numbers.
    #[derive(Default)]
    pub(crate) struct Request {
        /// The last one.
        asked: AtomicU64,
        /// This one and all before it are answered.
        answered: AtomicU64,
        /// The last one that failed, with all that it answered.
        failed: AtomicU64,
    }
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    Failed,
}

impl Request {
    /// A new request.
    pub(crate) fn ask(&self) -> u64 {
        self.asked.fetch_add(1, SeqCst) + 1
    }

    /// The answer to request `number`, if it is there. One that was done may be called failed, if a later one
    /// failed since.
    pub(crate) fn answer(&self, number: u64) -> Option<Answer> {
        if self.answered.load(SeqCst) < number {
            return None;
        }
        Some(if self.failed.load(SeqCst) < number { Answer::Done } else { Answer::Failed })
    }

    /// The last request, if it is not answered.
    pub(crate) fn open(&self) -> Option<u64> {
        let asked = self.asked.load(SeqCst);
        (asked > self.answered.load(SeqCst)).then_some(asked)
    }

    /// Answers this request and all before it. One task answers.
    pub(crate) fn answer_to(&self, number: u64, answer: Answer) {
        if answer == Answer::Failed {
            self.failed.store(number, SeqCst);
        }
        self.answered.store(number, SeqCst);
    }
}

impl Default for Board {
    fn default() -> Self {
        Self {
            state: StateLine::default(),
            checkpoints: AtomicU32::default(),
            waiting: AtomicU32::default(),
            disk_owed: AtomicU64::default(),
            disk_synced: AtomicU64::default(),
            tallies: Tallies::default(),
            order: [const { AtomicU32::new(0) }; ORDER_PLACES],
            writing: [const { AtomicU32::new(0) }; ORDER_PLACES],
            marks: [const { AtomicU64::new(0) }; 2],
            flushes: Request::default(),
            checkpoints_asked: Request::default(),
            destage_requests: DestageRequests::default(),
            damages: [const { AtomicU64::new(0) }; DAMAGES],
        }
    }
}

impl Board {
    /// How far the owner was: for the next superblock. `None`: it has not said.
    pub(crate) fn marks(&self) -> Option<[u64; 2]> {
        let marks = [0, 1].map(|at| self.marks[at].load(SeqCst));
        (marks != [0; 2]).then_some(marks)
    }

    /// Sets the marks, first the one that is sure already. Whoever reads them meanwhile has that one in any
    /// case, as the other one before or as this.
    pub(crate) fn set_marks(&self, marks: [u64; 2]) {
        for (place, mark) in self.marks.iter().zip(marks) {
            place.store(mark, SeqCst);
        }
    }

    /// Notes that a copy of `page` on flash is damaged. If all places are taken, nothing is noted: the reader
    /// that fetches the page next notes it.
    pub(crate) fn note_damage(&self, page: PageId) {
        let word = page.0.wrapping_add(1);
        if self.damages.iter().any(|place| place.load(SeqCst) == word) {
            return;
        }
        for place in &self.damages {
            if place.compare_exchange(0, word, SeqCst, SeqCst).is_ok() {
                return;
            }
        }
    }

    /// Takes a note.
    pub(crate) fn take_damage(&self) -> Option<PageId> {
        let taken = self.damages.iter().map(|place| place.swap(0, SeqCst)).find(|word| *word != 0);
        taken.map(|word| PageId(word.wrapping_sub(1)))
    }
}

/// Where the board is.
#[derive(Clone)]
pub(crate) enum BoardRef {
    Private(Arc<Board>),
    /// With the lane of this process in wide tallies.
    Mapped(Shared<Board>, usize),
}

impl BoardRef {
    /// A board in a segment, of the process with this number.
    pub(super) fn mapped(board: Shared<Board>, process: u32) -> Self {
        Self::Mapped(board, process as usize)
    }

    /// Counts pages that were fetched from flash.
    pub(crate) fn count_flash_hits(&self, pages: usize) {
        let lane = match self {
            BoardRef::Private(_) => lane_of_thread(),
            BoardRef::Mapped(_, lane) => *lane,
        };
        self.tallies.flash_hits.add(lane, pages);
    }
}

impl Deref for BoardRef {
    type Target = Board;
    #[inline]
    fn deref(&self) -> &Board {
        match self {
            BoardRef::Private(board) => board,
            BoardRef::Mapped(board, _) => board,
        }
    }
}
