//! Atomic words for shared structures: the standard library's. With the feature `shuttle` each access to a
//! word is also a point at which another task may run. The layout is the same in both builds, so whatever is
//! built of these words can be laid out in a segment, and is modelled as it is.

pub use std::sync::atomic::Ordering;

#[cfg(feature = "shuttle")]
pub use modelled::{AtomicU32, AtomicU64};
#[cfg(not(feature = "shuttle"))]
pub use std::sync::atomic::{AtomicU32, AtomicU64};

/// The word that the kernel knows.
#[cfg(not(feature = "shuttle"))]
pub(crate) fn raw(word: &AtomicU32) -> &std::sync::atomic::AtomicU32 {
    word
}

#[cfg(feature = "shuttle")]
pub(crate) use modelled::raw;

#[cfg(feature = "shuttle")]
mod modelled {
    use super::Ordering;
    use std::sync::atomic;

    /// Another task may run here. Every access to one of shuttle's own atomics is such a point.
    fn switch() {
        shuttle::sync::atomic::AtomicBool::new(false).load(Ordering::SeqCst);
    }

    macro_rules! modelled {
        ($name:ident, $value:ty) => {
            /// An atomic word whose accesses are points at which another task may run.
            #[repr(transparent)]
            #[derive(Debug, Default)]
            pub struct $name(atomic::$name);

            impl $name {
                /// A word with this value.
                pub const fn new(value: $value) -> Self {
                    Self(atomic::$name::new(value))
                }
                /// See the standard library's.
                pub fn load(&self, order: Ordering) -> $value {
                    switch();
                    self.0.load(order)
                }
                /// See the standard library's.
                pub fn store(&self, value: $value, order: Ordering) {
                    switch();
                    self.0.store(value, order);
                }
                /// See the standard library's.
                pub fn swap(&self, value: $value, order: Ordering) -> $value {
                    switch();
                    self.0.swap(value, order)
                }
                /// See the standard library's.
                pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                    switch();
                    self.0.fetch_add(value, order)
                }
                /// See the standard library's.
                pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                    switch();
                    self.0.fetch_sub(value, order)
                }
                /// See the standard library's.
                pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                    switch();
                    self.0.fetch_max(value, order)
                }
                /// See the standard library's.
                pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                    switch();
                    self.0.fetch_or(value, order)
                }
                /// See the standard library's.
                pub fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                    switch();
                    self.0.fetch_and(value, order)
                }
                /// See the standard library's.
                ///
                /// # Errors
                /// The value found, if it is not `current`.
                pub fn compare_exchange(
                    &self,
                    current: $value,
                    new: $value,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$value, $value> {
                    switch();
                    self.0.compare_exchange(current, new, success, failure)
                }
                /// See the standard library's.
                ///
                /// # Errors
                /// The value found, if it is not `current`.
                pub fn compare_exchange_weak(
                    &self,
                    current: $value,
                    new: $value,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$value, $value> {
                    self.compare_exchange(current, new, success, failure)
                }
            }
        };
    }

    modelled!(AtomicU32, u32);
    modelled!(AtomicU64, u64);

    /// The word without the points.
    pub(crate) fn raw(word: &AtomicU32) -> &atomic::AtomicU32 {
        &word.0
    }
}
