//! Locks over `park` and `unpark`, one implementation for both runtimes.
//!
//! * [`Mutex`], [`RwLock`]: data with a lock (the guards are `lock_api`'s).
//! * [`RwLatch`]: a shared/exclusive latch without data, with `try_` variants and downgrade.
//! * [`Condvar`]: waits for a condition on a [`Mutex`].
//! * [`Semaphore`]: a count of permits.
//! * [`Begun`]: work that one call begins and a later one ends.
//! * [`TinyMutex`]: a plain mutex, for a few instructions between which nothing parks.
//!
//! Each is made with its [`Rank`], its place in the order of all locks. Debug builds keep a list of what each
//! task holds, and panic when a task takes a lock out of order; release builds keep nothing.
//!
//! Rules that all of them keep:
//! 1. Free of contention, taking and releasing is one compare-and-swap each, without allocation.
//! 2. Waiters queue first in, first out. A released lock may be taken by the first task that tries, but a
//!    waiter that was woken in vain once gets the next release handed over: no waiter starves. Readers queue
//!    after a waiting writer.
//! 3. Releasing never parks and never unwinds, so guards may be dropped anywhere.
//! 4. The queue's own tiny lock is never held across a park.
//! 5. Before a lock is taken that a task may have to wait for, a simulation may preempt the caller
//!    ([`crate::may_preempt`]).
//! 6. A waiter that is unwound (a simulation that is halted) leaves the queue, and passes on what it had been
//!    granted.
//!
//! No poisoning. A task that takes a lock it already holds waits for ever (in a debug build it panics).
//!
//! A [`TinyMutex`], or a lock of another library, may be used between parks, never across one: a simulated
//! task that parks while it holds one blocks the OS thread of all others. Debug builds assert it of a
//! [`TinyMutex`].

mod begun;
mod condvar;
pub(crate) mod held;
mod latch;
mod mutex;
mod prim;
mod rank;
mod semaphore;
mod tiny;

pub use begun::Begun;
pub use condvar::Condvar;
pub use held::{Hold, allocation_is_forbidden, allowing_allocation, assert_nothing_held};
pub use latch::RwLatch;
pub use mutex::{MappedMutexGuard, Mutex, MutexGuard, RawMutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use rank::{Nesting, Rank, Wait};
pub use semaphore::{Semaphore, SemaphorePermit};
pub use tiny::{TinyMutex, TinyMutexGuard};
