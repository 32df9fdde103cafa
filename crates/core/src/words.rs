//! Words of the index. Its changes are made under the partition's latch, and a reader without the latch may
//! meet each of them half-way ([`crate::Unlatched`]). So every word is atomic. With the feature `shuttle`
//! each access is also a point at which another task may run.

use std::sync::atomic::Ordering::Relaxed;
pub(crate) use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Another task may run here.
#[cfg(feature = "shuttle")]
fn point() {
    shuttle::sync::atomic::AtomicBool::new(false).load(Ordering::SeqCst);
}

#[cfg(not(feature = "shuttle"))]
#[inline(always)]
const fn point() {}

/// The value of a word, in no order with other words.
#[inline(always)]
pub(crate) fn load(word: &AtomicU32) -> u32 {
    load_in(word, Relaxed)
}

/// The value of a word.
#[inline(always)]
pub(crate) fn load_in(word: &AtomicU32, order: Ordering) -> u32 {
    point();
    word.load(order)
}

/// Gives a word a value, in no order with other words.
#[inline(always)]
pub(crate) fn store(word: &AtomicU32, value: u32) {
    store_in(word, value, Relaxed);
}

/// Gives a word a value.
#[inline(always)]
pub(crate) fn store_in(word: &AtomicU32, value: u32, order: Ordering) {
    point();
    word.store(value, order);
}

/// Sets `bits` of a word that readers set bits of, too. A word that has them is not written, so that it stays
/// in the caches of all cores.
#[inline(always)]
pub(crate) fn set_bits(word: &AtomicU32, bits: u32) {
    if load(word) & bits != bits {
        point();
        word.fetch_or(bits, Relaxed);
    }
}

/// Takes `bits` of such a word away.
#[inline(always)]
pub(crate) fn take_bits(word: &AtomicU32, bits: u32) {
    if load(word) & bits != 0 {
        point();
        word.fetch_and(!bits, Relaxed);
    }
}
