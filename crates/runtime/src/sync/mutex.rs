//! Data that the latch guards: the guards come from `lock_api`.

use super::RwLatch;
use super::rank::Rank;
use parking_lot::lock_api;
use std::fmt;

/// The lock of [`Mutex`]: an [`RwLatch`] that is only ever taken exclusively.
#[derive(Debug)]
pub struct RawMutex(RwLatch);

#[allow(unsafe_code)]
// SAFETY: the latch lets one exclusive holder in at a time, and taking synchronises (acquire) with releasing
// (release).
unsafe impl lock_api::RawMutex for RawMutex {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self = panic!("a lock has a rank");
    type GuardMarker = lock_api::GuardSend;

    #[cfg_attr(debug_assertions, track_caller)]
    fn lock(&self) {
        self.0.lock_exclusive();
    }
    #[cfg_attr(debug_assertions, track_caller)]
    fn try_lock(&self) -> bool {
        self.0.try_lock_exclusive()
    }
    unsafe fn unlock(&self) {
        self.0.unlock_exclusive();
    }
    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

#[allow(unsafe_code)]
// SAFETY: the latch lets in either one exclusive holder or shared ones, and taking synchronises with
// releasing.
unsafe impl lock_api::RawRwLock for RwLatch {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self = panic!("a lock has a rank");
    type GuardMarker = lock_api::GuardSend;

    #[cfg_attr(debug_assertions, track_caller)]
    fn lock_shared(&self) {
        RwLatch::lock_shared(self);
    }
    #[cfg_attr(debug_assertions, track_caller)]
    fn try_lock_shared(&self) -> bool {
        RwLatch::try_lock_shared(self)
    }
    unsafe fn unlock_shared(&self) {
        RwLatch::unlock_shared(self);
    }
    #[cfg_attr(debug_assertions, track_caller)]
    fn lock_exclusive(&self) {
        RwLatch::lock_exclusive(self);
    }
    #[cfg_attr(debug_assertions, track_caller)]
    fn try_lock_exclusive(&self) -> bool {
        RwLatch::try_lock_exclusive(self)
    }
    unsafe fn unlock_exclusive(&self) {
        RwLatch::unlock_exclusive(self);
    }
    fn is_locked(&self) -> bool {
        RwLatch::is_locked(self)
    }
}

#[allow(unsafe_code)]
// SAFETY: a downgrade keeps the hold and only turns it into a shared one.
unsafe impl lock_api::RawRwLockDowngrade for RwLatch {
    unsafe fn downgrade(&self) {
        RwLatch::downgrade(self);
    }
}

/// Mutual exclusion around a `T`.
pub struct Mutex<T: ?Sized>(lock_api::Mutex<RawMutex, T>);
/// Holds a [`Mutex`] until dropped.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;
/// Holds a [`Mutex`], shows a part of its data.
pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawMutex, T>;
/// Many readers or one writer around a `T`.
pub struct RwLock<T: ?Sized>(lock_api::RwLock<RwLatch, T>);
/// Holds an [`RwLock`] shared until dropped.
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RwLatch, T>;
/// Holds an [`RwLock`] exclusively until dropped.
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RwLatch, T>;

impl<T> Mutex<T> {
    /// A free mutex.
    pub const fn new(rank: Rank, value: T) -> Self {
        Self(lock_api::Mutex::from_raw(RawMutex(RwLatch::new(rank)), value))
    }

    /// The data; the mutex is gone.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Takes the mutex; waits while another task holds it.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock()
    }

    /// Takes the mutex if it is free; never waits.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock()
    }

    /// The data of a mutex that no other task can reach.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T> RwLock<T> {
    /// A free lock.
    pub const fn new(rank: Rank, value: T) -> Self {
        Self(lock_api::RwLock::from_raw(RwLatch::new(rank), value))
    }

    /// The data; the lock is gone.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Takes the lock shared; waits while another task holds it exclusively or waits for it.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read()
    }

    /// Takes the lock exclusively; waits while another task holds it.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write()
    }

    /// Takes the lock shared if no task holds it exclusively or waits for it; never waits.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.0.try_read()
    }

    /// Takes the lock exclusively if it is free; never waits.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        self.0.try_write()
    }

    /// The data of a lock that no other task can reach.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
