//! The threads of the real runtime: the operating system's or, with the feature `shuttle`, that library's,
//! which runs one thread at a time and explores schedules. Both have the same names.

#[cfg(not(feature = "shuttle"))]
pub(crate) use real::point;
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::thread::{Builder, JoinHandle, Thread, current, park, park_timeout, sleep, yield_now};

#[cfg(feature = "shuttle")]
pub(crate) use model::point;
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::thread::{
    Builder, JoinHandle, Thread, current, park, park_timeout, sleep, yield_now,
};

#[cfg(not(feature = "shuttle"))]
mod real {
    /// A point at which a model may switch threads: none here.
    #[inline]
    pub(crate) fn point() {}
}

#[cfg(feature = "shuttle")]
mod model {
    use shuttle::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    /// A point at which a model may switch threads: any access to one of its atomics.
    pub(crate) fn point() {
        AtomicUsize::new(0).load(SeqCst);
    }
}
