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
//! A process may die in a change. The number is odd then for ever, and nobody waits for it.

use super::words::{AtomicU32, Ordering, fence, load, load_in, store, store_in};

/// A step under the latch begins.
#[inline(always)]
pub(crate) fn step_begins() {
    fence(Ordering::Release);
}

/// A change begins, unless one of the same step is under way. False: it is.
#[inline(always)]
pub(crate) fn change_begins(sequence: &AtomicU32) -> bool {
    let now = load(sequence);
    if now & 1 != 0 {
        return false;
    }
    store(sequence, now.wrapping_add(1));
    fence(Ordering::Release);
    true
}

/// The change that has begun is complete.
#[inline(always)]
pub(crate) fn change_ends(sequence: &AtomicU32) {
    store_in(sequence, load(sequence).wrapping_add(1), Ordering::Release);
}

/// The number from which a reader begins. `None`: a change is under way, or a process has died in it.
#[inline(always)]
pub(crate) fn read_begins(sequence: &AtomicU32) -> Option<u32> {
    let now = load_in(sequence, Ordering::Acquire);
    (now & 1 == 0).then_some(now)
}

/// Whether no change has met what was read since the number was `begun`.
#[inline(always)]
pub(crate) fn is_unchanged(sequence: &AtomicU32, begun: u32) -> bool {
    fence(Ordering::Acquire);
    load(sequence) == begun
}
