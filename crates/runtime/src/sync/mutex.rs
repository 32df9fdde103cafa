//! Data behind the latch: the guards come from `lock_api`.

use super::RwLatch;
use parking_lot::lock_api;

/// The lock of [`Mutex`]: an [`RwLatch`] that is only ever taken exclusively.
#[derive(Debug)]
pub struct RawMutex(RwLatch);

#[allow(unsafe_code)]
// SAFETY: the latch lets one exclusive holder in at a time, and taking synchronises (acquire) with releasing
// (release).
unsafe impl lock_api::RawMutex for RawMutex {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self = RawMutex(RwLatch::new());
    type GuardMarker = lock_api::GuardSend;

    fn lock(&self) {
        self.0.lock_exclusive();
    }
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
    const INIT: Self = RwLatch::new();
    type GuardMarker = lock_api::GuardSend;

    fn lock_shared(&self) {
        RwLatch::lock_shared(self);
    }
    fn try_lock_shared(&self) -> bool {
        RwLatch::try_lock_shared(self)
    }
    unsafe fn unlock_shared(&self) {
        RwLatch::unlock_shared(self);
    }
    fn lock_exclusive(&self) {
        RwLatch::lock_exclusive(self);
    }
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

/// Mutual exclusion around a `T`: `lock`, `try_lock`, `into_inner`, `get_mut`.
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;
/// Holds a [`Mutex`] until dropped.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;
/// Holds a [`Mutex`], shows a part of its data.
pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawMutex, T>;
/// Many readers or one writer around a `T`: `read`, `write`, `try_read`, `try_write`.
pub type RwLock<T> = lock_api::RwLock<RwLatch, T>;
/// Holds an [`RwLock`] shared until dropped.
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RwLatch, T>;
/// Holds an [`RwLock`] exclusively until dropped.
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RwLatch, T>;
