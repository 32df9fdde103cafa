//! A latch between processes: a futex word that names its holder.
//!
//! | word | state |
//! |---|---|
//! | 0 | free |
//! | 2 × holder | held, no task sleeps |
//! | 2 × holder + 1 | held, a task may sleep |
//! | 2³² − 1 | gone |
//!
//! The holder is a part of the word, not a word of its own. Otherwise a process could die between the two
//! stores, and the latch would have no holder.
//!
//! Invariants:
//!
//! - A task sleeps only on a word that says so ("a task may sleep"). The holder that frees such a word wakes
//!   one. A task that has slept takes the latch with that mark, because others may sleep as well.
//! - "Gone" is final. A holder that is still alive may finish its section, and no task follows it.
//!
//! Not fair, not recursive: sections are short, and a task that takes a latch twice waits for ever.

use crate::atomic::AtomicU32;
use crate::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::futex;
use std::marker::PhantomData;
use std::num::NonZeroU32;
use thiserror::Error;

const FREE: u32 = 0;
const GONE: u32 = u32::MAX;
/// A task may sleep.
const AWAITED: u32 = 1;

/// Looks at a held latch before the caller sleeps.
const SPINS: u32 = if cfg!(feature = "shuttle") { 1 } else { 100 };

/// Largest number of a [`Holder`].
pub const HOLDER_MAX: u32 = (1 << 31) - 2;

/// The holder of a latch: a front or the back, by the number of its seat ([`crate::Fronts`]) plus one.
/// Threads of a process may share a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Holder(NonZeroU32);

impl Holder {
    /// The holder with this number, from 1 to [`HOLDER_MAX`].
    pub const fn new(number: u32) -> Option<Self> {
        match NonZeroU32::new(number) {
            Some(number) if number.get() <= HOLDER_MAX => Some(Self(number)),
            _ => None,
        }
    }

    /// Its number.
    pub const fn number(self) -> u32 {
        self.0.get()
    }

    const fn word(self) -> u32 {
        self.0.get() << 1
    }
}

/// The latch, or the memory that it guards, was given up for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "the cache's shared memory was given up, because a process died in the middle of a change; attach again \
     when the cache has been reopened"
)]
pub struct Gone;

/// See the module's header. A latch of zeros is free.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct Latch {
    word: AtomicU32,
}

impl Latch {
    /// A free latch.
    pub const fn new() -> Self {
        Self { word: AtomicU32::new(FREE) }
    }

    /// Takes the latch; waits while another task holds it.
    ///
    /// # Errors
    /// [`Gone`]: it was poisoned, before or while the caller waited.
    #[inline]
    pub fn lock(&self, me: Holder) -> Result<LatchGuard<'_>, Gone> {
        self.lock_while(me, || true)
    }

    /// As [`Latch::lock`]. `may_come`: whether the latch may still become free. It is asked after waits in
    /// vain.
    ///
    /// # Errors
    /// [`Gone`]: also if `may_come` says no.
    #[inline]
    pub(crate) fn lock_while(&self, me: Holder, may_come: impl Fn() -> bool) -> Result<LatchGuard<'_>, Gone> {
        if self.word.compare_exchange(FREE, me.word(), Acquire, Relaxed).is_err() {
            self.lock_slow(me, &may_come)?;
        }
        Ok(LatchGuard::new(self, me))
    }

    /// Takes the latch if it is free. `None`: it is held. Never waits.
    ///
    /// # Errors
    /// [`Gone`]: it was poisoned.
    #[inline]
    pub fn try_lock(&self, me: Holder) -> Result<Option<LatchGuard<'_>>, Gone> {
        match self.word.compare_exchange(FREE, me.word(), Acquire, Relaxed) {
            Ok(_) => Ok(Some(LatchGuard::new(self, me))),
            Err(GONE) => Err(Gone),
            Err(_) => Ok(None),
        }
    }

    /// Gives the latch up for good: no task gets it any more, and all waiters are told. A live holder keeps
    /// it until it releases it.
    pub fn poison(&self) {
        if self.word.swap(GONE, Release) != GONE {
            futex::wake_all(&self.word);
        }
    }

    /// The holder of the latch now. `None`: it is free or gone.
    pub fn holder(&self) -> Option<Holder> {
        match self.word.load(Acquire) {
            GONE => None,
            word => Holder::new(word >> 1),
        }
    }

    /// Whether it was poisoned.
    pub fn is_gone(&self) -> bool {
        self.word.load(Acquire) == GONE
    }

    #[cold]
    fn lock_slow(&self, me: Holder, may_come: &dyn Fn() -> bool) -> Result<(), Gone> {
        let mut mine = me.word();
        let mut word = self.spin();
        loop {
            if word == GONE {
                return Err(Gone);
            }
            if word == FREE {
                match self.word.compare_exchange(FREE, mine, Acquire, Relaxed) {
                    Ok(_) => return Ok(()),
                    Err(found) => word = found,
                }
                continue;
            }
            if word & AWAITED == 0
                && let Err(found) = self.word.compare_exchange(word, word | AWAITED, Relaxed, Relaxed)
            {
                word = found;
                continue;
            }
            let seen = word | AWAITED;
            futex::wait(&self.word, seen, None);
            mine = me.word() | AWAITED;
            word = self.spin();
            if word == seen && !may_come() {
                return Err(Gone);
            }
        }
    }

    /// Looks for a moment whether the latch becomes free; not if others sleep already.
    fn spin(&self) -> u32 {
        let mut word = self.word.load(Relaxed);
        for _ in 0..SPINS {
            if word == FREE || word & AWAITED != 0 {
                break;
            }
            std::hint::spin_loop();
            word = self.word.load(Relaxed);
        }
        word
    }

    #[inline]
    fn unlock(&self, me: Holder) {
        if let Err(found) = self.word.compare_exchange(me.word(), FREE, Release, Relaxed) {
            self.unlock_slow(me, found);
        }
    }

    #[cold]
    fn unlock_slow(&self, me: Holder, found: u32) {
        debug_assert!(found == GONE || found == me.word() | AWAITED, "released by {me:?}, found {found:#x}");
        // Fails if it is gone.
        if found == me.word() | AWAITED && self.word.compare_exchange(found, FREE, Release, Relaxed).is_ok() {
            futex::wake_one(&self.word);
        }
    }
}

/// Holds a [`Latch`] until dropped. If its holder panics meanwhile, the latch is poisoned instead.
#[derive(Debug)]
#[must_use = "the latch is released when the guard is dropped"]
pub struct LatchGuard<'a> {
    latch: &'a Latch,
    me: Holder,
    was_panicking: bool,
    /// Not `Send`: whether the holder panics is asked of the thread.
    _here: PhantomData<*const ()>,
}

impl<'a> LatchGuard<'a> {
    #[inline]
    fn new(latch: &'a Latch, me: Holder) -> Self {
        Self { latch, me, was_panicking: std::thread::panicking(), _here: PhantomData }
    }
}

impl Drop for LatchGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.was_panicking && std::thread::panicking() {
            self.latch.poison();
        } else {
            self.latch.unlock(self.me);
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    fn holder(number: u32) -> Holder {
        Holder::new(number).expect("a small number")
    }

    /// 1. A holder frees the latch, and is killed before it wakes the one that sleeps.
    /// 2. The sleeper looks by itself, and takes it.
    #[test]
    fn a_wake_up_that_a_dead_process_owes_is_not_missed_for_ever() {
        let latch = Latch::new();
        std::mem::forget(latch.lock(holder(1)));
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| latch.lock(holder(2)).is_ok());
            while latch.word.load(Relaxed) != holder(1).word() | AWAITED {
                std::thread::yield_now();
            }
            latch.word.store(FREE, Release);
            assert!(sleeper.join().expect("it does not panic"));
        });
    }

    #[test]
    fn a_word_names_its_holder() {
        let latch = Latch::new();
        for number in [1, 2, HOLDER_MAX] {
            let guard = latch.lock(holder(number)).expect("nobody poisons it");
            assert_eq!(latch.holder(), Some(holder(number)));
            latch.word.fetch_or(AWAITED, Relaxed);
            assert_eq!(latch.holder(), Some(holder(number)));
            assert!(!latch.is_gone(), "holder {number}");
            drop(guard);
            assert_eq!(latch.holder(), None);
        }
        assert_eq!((Holder::new(0), Holder::new(HOLDER_MAX + 1)), (None, None));
        latch.poison();
        assert_eq!((latch.holder(), latch.is_gone()), (None, true));
    }
}
