//! The sequence number of words that are changed under a latch, and read without it: odd while a change is
//! under way. A reader takes the number, reads the words, and looks at the number again. If it is the same
//! and even, no change has met the reads.
//!
//! The order in memory, of a change:
//!
//! 1. the odd number, then a release fence, then the words;
//! 2. the words, then the even number with `Release`.
//!
//! That of a reader:
//!
//! 3. the number with `Acquire`, then the words: a reader of the even number sees all words of the change;
//! 4. the words, then an acquire fence, then the number: a reader of a word that was written after the fence
//!    of 1 sees the odd number, or a later one.
//!
//! Words that belong to no chain are written without a number. So each step under the latch begins with a
//! release fence ([`step_begins`]): a reader of such a word sees the numbers of all earlier steps.
//!
//! A process may die in a change. Then the number stays odd, and no reader waits for it.

use super::words::{AtomicU32, Ordering, fence, load, load_in, store, store_in};

/// A step under the latch begins.
#[inline(always)]
pub(crate) fn step_begins() {
    fence(Ordering::Release);
}

/// A sequence number in its place.
#[derive(Clone, Copy)]
pub(crate) struct Sequence<'r>(pub &'r AtomicU32);

/// A change that has begun here, and ends here. `None`: one is under way that ends later.
pub(crate) type Begun = Option<u32>;

impl Sequence<'_> {
    /// A change begins, unless one of the same step is under way.
    #[inline(always)]
    pub(crate) fn change_begins(self) -> Begun {
        let now = load(self.0);
        if now & 1 != 0 {
            return None;
        }
        store(self.0, now.wrapping_add(1));
        fence(Ordering::Release);
        Some(now)
    }

    /// What has begun is complete.
    #[inline(always)]
    pub(crate) fn change_ends(self, begun: Begun) {
        if let Some(begun) = begun {
            store_in(self.0, begun.wrapping_add(2), Ordering::Release);
        }
    }

    /// The number from which a reader begins. `None`: a change is under way, or a process has died in it.
    #[inline(always)]
    pub(crate) fn read_begins(self) -> Option<u32> {
        let now = load_in(self.0, Ordering::Acquire);
        (now & 1 == 0).then_some(now)
    }

    /// Whether no change has met what was read since the number was `begun`.
    #[inline(always)]
    pub(crate) fn is_unchanged(self, begun: u32) -> bool {
        fence(Ordering::Acquire);
        load(self.0) == begun
    }
}

/// `cargo +nightly miri test -p entresol-core --lib sequence` lets each load give any value that the memory
/// order allows, with `MIRIFLAGS="-Zmiri-many-seeds=0..32 -Zmiri-preemption-rate=0.2"`.
#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::thread;

    const CHANGES: u32 = if cfg!(miri) { 20 } else { 100_000 };
    const READS: u32 = if cfg!(miri) { 40 } else { 100_000 };

    #[test]
    fn a_read_that_no_change_has_met_is_whole_and_as_new_as_its_number() {
        let [number, one, two] = [0, 0, 0].map(AtomicU32::new);
        let sequence = Sequence(&number);
        thread::scope(|scope| {
            scope.spawn(|| {
                for value in 1..=CHANGES {
                    step_begins();
                    let begun = sequence.change_begins();
                    assert!(sequence.change_begins().is_none(), "it is a part of the change under way");
                    store(&one, value);
                    store(&two, value);
                    sequence.change_ends(begun);
                }
            });
            for _ in 0..READS {
                let Some(begun) = sequence.read_begins() else { continue };
                let values = (load(&one), load(&two));
                if sequence.is_unchanged(begun) {
                    assert_eq!(values, (begun / 2, begun / 2));
                }
            }
        });
    }

    /// 1. A slot leaves its chain, in a change.
    /// 2. In a later step of another task the slot gets another page, without a number.
    /// 3. A reader that is still in the chain sees that page. It must see that the slot had left, too.
    #[test]
    fn a_word_of_a_later_step_tells_of_the_changes_before_it() {
        let rounds = if cfg!(miri) { 1 } else { 2000 };
        for _ in 0..rounds {
            let [number, chain, page] = [0, 0, 0].map(AtomicU32::new);
            let (sequence, latch) = (Sequence(&number), Mutex::new(false));
            let begun = sequence.read_begins().expect("no change is under way");
            thread::scope(|scope| {
                scope.spawn(|| {
                    let mut has_left = latch.lock().expect("no task panics");
                    step_begins();
                    let begun = sequence.change_begins();
                    store(&chain, 1);
                    sequence.change_ends(begun);
                    *has_left = true;
                });
                scope.spawn(|| {
                    loop {
                        let has_left = latch.lock().expect("no task panics");
                        if *has_left {
                            step_begins();
                            return store(&page, 1);
                        }
                        drop(has_left);
                        thread::yield_now();
                    }
                });
                while load(&page) == 0 {
                    thread::yield_now();
                }
                assert!(!sequence.is_unchanged(begun), "the slot had left the chain before");
            });
        }
    }
}
