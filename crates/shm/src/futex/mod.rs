//! Sleeping on a word of shared memory, and waking the sleepers.
//!
//! A call of `wait` may return early: because of a signal, of a wake-up meant for an older value, or because
//! [`SLICE`] is over. Every caller looks at the word again, in a loop.
//!
//! The slices bound the harm of a process that dies between its change of a word and the wake-up that it
//! owes:
//! 1. A unlocks, which frees the word, and is killed before it wakes B. Or it wakes B, and B is killed.
//! 2. C sleeps on the word, too. The word does not say so any more, so no later unlock wakes C.
//! 3. C wakes by itself when its slice is over, and takes the latch.

#[cfg(feature = "shuttle")]
mod modelled;

#[cfg(not(feature = "shuttle"))]
pub(crate) use kernel::{wait, wake_all, wake_one};
#[cfg(feature = "shuttle")]
pub(crate) use modelled::{wait, wake_all, wake_one};

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Longest sleep without a look at the word.
#[cfg_attr(feature = "shuttle", allow(dead_code))]
const SLICE: Duration = Duration::from_millis(100);

static SLEEPS: AtomicU64 = AtomicU64::new(0);
static WAKES: AtomicU64 = AtomicU64::new(0);
static WOKEN: AtomicU64 = AtomicU64::new(0);

/// System calls that a process has made for latches and epochs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SystemCalls {
    /// To sleep.
    pub sleeps: u64,
    /// To wake others.
    pub wakes: u64,
    /// Sleepers that were woken by them.
    pub woken: u64,
}

/// The system calls that this process has made for latches and epochs. Without contention there are none.
pub fn system_calls() -> SystemCalls {
    SystemCalls { sleeps: SLEEPS.load(Relaxed), wakes: WAKES.load(Relaxed), woken: WOKEN.load(Relaxed) }
}

/// Why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// The caller was woken, the word had another value, or the slice is over.
    Look,
    /// A signal was handled.
    Signal,
    /// The caller's limit is over.
    TimeUp,
}

#[cfg(not(feature = "shuttle"))]
mod kernel {
    use super::{SLEEPS, SLICE, WAKES, WOKEN, Wake};
    use crate::atomic::{AtomicU32, raw};
    use rustix::io::Errno;
    use rustix::thread::futex::{self, Flags};
    use std::sync::atomic::Ordering::Relaxed;
    use std::time::Duration;

    /// Never `FUTEX_PRIVATE_FLAG`: the kernel then finds a word by its address in one process alone.
    const SHARED: Flags = Flags::empty();

    /// Sleeps while `word` is `expected`, at most `limit`.
    pub(crate) fn wait(word: &AtomicU32, expected: u32, limit: Option<Duration>) -> Wake {
        SLEEPS.fetch_add(1, Relaxed);
        let slice = limit.map_or(SLICE, |limit| limit.min(SLICE));
        let slice = slice.try_into().expect("a tenth of a second is a time for the kernel");
        match futex::wait(raw(word), SHARED, expected, Some(&slice)) {
            Err(Errno::INTR) => Wake::Signal,
            Err(Errno::TIMEDOUT) if limit.is_some_and(|limit| limit <= SLICE) => Wake::TimeUp,
            // Nothing else can be wrong with an aligned word of this process; the caller looks at it again.
            Ok(()) | Err(_) => Wake::Look,
        }
    }

    /// Wakes one that sleeps on `word`.
    pub(crate) fn wake_one(word: &AtomicU32) {
        wake(word, 1);
    }

    /// Wakes all that sleep on `word`.
    pub(crate) fn wake_all(word: &AtomicU32) {
        // The kernel takes the number as a signed one.
        wake(word, i32::MAX as u32);
    }

    fn wake(word: &AtomicU32, count: u32) {
        WAKES.fetch_add(1, Relaxed);
        // It can fail only for an address that is not mapped, and a reference is.
        let woken = futex::wake(raw(word), SHARED, count);
        debug_assert!(woken.is_ok(), "{woken:?}");
        WOKEN.fetch_add(woken.unwrap_or(0) as u64, Relaxed);
    }
}
