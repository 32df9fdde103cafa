//! A mutex for a few instructions.

use super::Rank;
use super::held::{Tag, TagHold};
use super::rank::Wait;
use std::ops::{Deref, DerefMut};

/// `parking_lot`'s mutex with a rank. Its waiters stop the OS thread, so nothing may park while it is held.
/// A simulation does not preempt a task that takes it.
#[derive(Debug)]
pub struct TinyMutex<T: ?Sized> {
    tag: Tag,
    inner: parking_lot::Mutex<T>,
}

/// Holds a [`TinyMutex`] until dropped.
#[derive(Debug)]
pub struct TinyMutexGuard<'a, T: ?Sized> {
    inner: parking_lot::MutexGuard<'a, T>,
    _held: TagHold<'a>,
}

impl<T> TinyMutex<T> {
    /// A free mutex.
    pub const fn new(rank: Rank, value: T) -> Self {
        Self { tag: Tag::new(rank, Wait::Blocks), inner: parking_lot::Mutex::new(value) }
    }

    /// The data; the mutex is gone.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }
}

impl<T: ?Sized> TinyMutex<T> {
    /// Takes the mutex; waits while another task holds it.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn lock(&self) -> TinyMutexGuard<'_, T> {
        self.tag.may_wait();
        let inner = self.inner.lock();
        TinyMutexGuard { inner, _held: self.tag.hold() }
    }

    /// Takes the mutex if it is free.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn try_lock(&self) -> Option<TinyMutexGuard<'_, T>> {
        let inner = self.inner.try_lock()?;
        Some(TinyMutexGuard { inner, _held: self.tag.hold() })
    }

    /// The data of a mutex that no other task can reach.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }
}

impl<T: ?Sized> Deref for TinyMutexGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for TinyMutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}
