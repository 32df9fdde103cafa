//! The parts of the locks: an atomic word and a tiny lock for the queue. With the feature `shuttle` both are
//! that library's, which tries the orders in which tasks can reach them (`tests/models.rs`).

#[cfg(not(feature = "shuttle"))]
pub(super) use parking_lot::Mutex as QueueLock;
#[cfg(not(feature = "shuttle"))]
pub(super) use std::sync::atomic::AtomicUsize;

#[cfg(feature = "shuttle")]
pub(super) use shuttle::sync::atomic::AtomicUsize;

/// Shuttle's mutex with the interface of `parking_lot`'s.
#[cfg(feature = "shuttle")]
#[derive(Debug)]
pub(super) struct QueueLock<T>(shuttle::sync::Mutex<T>);

#[cfg(feature = "shuttle")]
impl<T> QueueLock<T> {
    pub(super) const fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(super) fn lock(&self) -> shuttle::sync::MutexGuard<'_, T> {
        self.0.lock().expect("a task that panics ends the model")
    }
}
