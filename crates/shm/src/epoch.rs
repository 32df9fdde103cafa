//! A number that is raised after each change of a condition. Tasks wait for the next number.
//!
//! A waiter takes the present number ([`Epoch::seen`]) and then looks at its condition. If the condition does
//! not hold, it waits for another number. A task makes its change first, and then raises the number.
//!
//! The word is twice the number, plus one if a task may sleep. A waiter sets that mark only on the number
//! that it has seen, in one step. A raise changes the number and clears the mark, in one step. So either
//! the raise finds the mark and wakes all, or the waiter finds another number and does not sleep. The mark of
//! a waiter that died or gave up stays in the word; the next raise then makes one needless system call.
//!
//! The number has 31 bits. A caller that holds its number while exactly 2³¹ raises pass misses them.

use crate::atomic::AtomicU32;
use crate::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use crate::futex::{self, Wake};
use std::time::{Duration, Instant};

/// A task may sleep.
const AWAITED: u32 = 1;

/// The number of an [`Epoch`] at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen(u32);

/// See the module's header. An epoch of zeros is number 0.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct Epoch {
    word: AtomicU32,
}

impl Epoch {
    /// Number 0.
    pub const fn new() -> Self {
        Self { word: AtomicU32::new(0) }
    }

    /// The number now. Changes before the raise to this number are visible to the caller.
    #[inline]
    pub fn seen(&self) -> Seen {
        Seen(self.word.load(Acquire) >> 1)
    }

    /// Raises the number, and wakes all waiters.
    #[inline]
    pub fn raise(&self) {
        let mut word = self.word.load(Relaxed);
        while let Err(found) =
            self.word.compare_exchange_weak(word, (word | AWAITED).wrapping_add(1), AcqRel, Relaxed)
        {
            word = found;
        }
        if word & AWAITED != 0 {
            futex::wake_all(&self.word);
        }
    }

    /// Waits until the number is another one than `seen`, at most `limit`. True: it is. False: the time is
    /// up, or a signal was handled; a caller that wants to wait on looks at its own conditions first.
    pub fn wait(&self, seen: Seen, limit: Option<Duration>) -> bool {
        if self.seen() != seen {
            return true;
        }
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        loop {
            let word = self.word.load(Acquire);
            if Seen(word >> 1) != seen {
                return true;
            }
            if word & AWAITED == 0
                && self.word.compare_exchange(word, word | AWAITED, Relaxed, Relaxed).is_err()
            {
                continue;
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if futex::wait(&self.word, word | AWAITED, left) != Wake::Look {
                return self.seen() != seen;
            }
        }
    }
}
