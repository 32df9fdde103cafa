//! The gate of the cache: a change of the cache as a whole waits until no process uses it.
//!
//! The gate has a number, the *generation* of the cache: even while the gate is open, odd while it is closed.
//! Each process has a word, which is 1 while it uses the cache.
//!
//! 1. A process sets its word, and then looks at the number. If that is not the generation which it has
//!    attached, it takes its word back, and attaches anew.
//! 2. The worker makes the number odd, and then looks at the words until all are 0.
//!
//! Both are sequentially consistent. So either the process sees the odd number, or the worker sees its word.
//! A process that is killed leaves its word: then the postmaster ends all processes, and makes new memory.

use std::sync::atomic::Ordering::{Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Of a process. It has a cache line of its own.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Word(AtomicU32);

/// In shared memory. Zeros: open, in generation 0.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct Gate(AtomicU64);

/// A process uses the cache, until this is dropped.
pub(crate) struct Inside<'a>(&'a Word);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.0.store(0, Release);
    }
}

impl Gate {
    /// The generation; odd: the gate is closed.
    pub fn generation(&self) -> u64 {
        self.0.load(SeqCst)
    }

    /// Whether it is closed.
    pub fn is_closed(&self) -> bool {
        self.generation() % 2 == 1
    }

    /// Lets the process with this word use the cache of `generation`. `None`: it is another one now, or the
    /// gate is closed.
    pub fn enter<'a>(&self, word: &'a Word, generation: u64) -> Option<Inside<'a>> {
        // Processes that try again and again do not hold up the change that they wait for.
        if self.generation() != generation {
            return None;
        }
        word.0.swap(1, SeqCst);
        let inside = Inside(word);
        (generation.is_multiple_of(2) && self.generation() == generation).then_some(inside)
    }

    /// No process enters any more.
    pub fn close(&self) {
        self.0.fetch_or(1, SeqCst);
    }

    /// Whether all processes have left, after [`close`](Self::close).
    pub fn is_empty(&self, words: &[Word]) -> bool {
        words.iter().all(|word| word.0.load(SeqCst) == 0)
    }

    /// Processes enter again: another cache, or the same one.
    pub fn open(&self, is_another: bool) {
        match is_another {
            true => self.0.fetch_add(1, SeqCst),
            false => self.0.fetch_and(!1, SeqCst),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    #[test]
    fn a_generation_is_entered_by_those_that_attached_it() {
        let (gate, words) = (Gate::default(), [Word::default(), Word::default()]);
        let inside = gate.enter(&words[0], 0).expect("it is open");
        gate.close();
        assert!(gate.enter(&words[1], 0).is_none() && !gate.is_empty(&words));
        drop(inside);
        assert!(gate.is_empty(&words) && gate.is_closed());
        assert!(gate.enter(&words[1], 1).is_none(), "an odd number is none");
        gate.open(false);
        assert!(gate.enter(&words[1], 0).is_some());
        gate.close();
        gate.open(true);
        assert!(gate.enter(&words[1], 0).is_none() && gate.enter(&words[1], 2).is_some());
        assert!(gate.is_empty(&words));
    }

    /// No process is in the cache while it is changed.
    #[test]
    fn a_change_is_alone() {
        let (gate, words) = (Gate::default(), [Word::default(), Word::default(), Word::default()]);
        let (is_changing, ends) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            for word in &words {
                scope.spawn(|| {
                    while !ends.load(SeqCst) {
                        let generation = gate.generation();
                        if let Some(_inside) = gate.enter(word, generation) {
                            assert!(!is_changing.load(SeqCst));
                        }
                        thread::yield_now();
                    }
                });
            }
            for _ in 0..200 {
                gate.close();
                while !gate.is_empty(&words) {
                    thread::yield_now();
                }
                is_changing.store(true, SeqCst);
                thread::yield_now();
                is_changing.store(false, SeqCst);
                gate.open(true);
            }
            ends.store(true, SeqCst);
        });
        assert_eq!(gate.generation(), 400);
    }
}
