//! The elements of a buffer of Python (NumPy, Arrow, array), read in place and without the interpreter's
//! lock.
//!
//! Invariant: the buffer is exported for as long as its elements are read, so its memory stays where it is.
//! Another thread of Python may change elements meanwhile: they are loaded as atomic words, and each value is
//! one that was there.

use pyo3::buffer::{Element, PyBuffer};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// The elements of a buffer.
pub(crate) struct Elements<'b, T> {
    first: NonNull<T>,
    count: usize,
    exported: PhantomData<&'b PyBuffer<T>>,
}

impl<'b, T: Element> Elements<'b, T> {
    /// Those of `buffer`, which is called `name` and must have `count`.
    pub fn of(buffer: &'b PyBuffer<T>, name: &str, count: usize) -> Result<Self, String> {
        let slice = buffer.as_slice_ptr().ok_or_else(|| format!("{name}: is not one piece of memory"))?;
        let found = slice.len();
        if found != count {
            return Err(format!("{name}: has {found} elements, and pages has {count}"));
        }
        Ok(Self { first: slice.cast(), count, exported: PhantomData })
    }

    /// Where element `at` is.
    fn place(&self, at: usize) -> *mut T {
        assert!(at < self.count, "element {at} of {}", self.count);
        // SAFETY: the element is within the buffer.
        unsafe { self.first.add(at) }.as_ptr()
    }
}

impl Elements<'_, u64> {
    /// Element `at`.
    pub fn get(&self, at: usize) -> u64 {
        // SAFETY: the place is valid while the buffer is exported, and a typed buffer is aligned. A relaxed
        // load of a word is allowed for memory that may only be read.
        unsafe { AtomicU64::from_ptr(self.place(at)) }.load(Ordering::Relaxed)
    }
}

impl Elements<'_, u8> {
    /// Element `at`.
    pub fn get(&self, at: usize) -> u8 {
        // SAFETY: as for words.
        unsafe { AtomicU8::from_ptr(self.place(at)) }.load(Ordering::Relaxed)
    }
}
