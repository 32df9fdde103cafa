//! The memory of a segment in this process, and typed references into it.
#![allow(unsafe_code)] // maps and addresses memory; every block says why it is sound

use crate::plan::Place;
use crate::shareable::Shareable;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::Arc;

/// Readable and writable memory that lives as long as this object.
///
/// Invariant: the memory is accessed as atomic words, or by the holder of an area's latch.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
    /// Mapped here, to be unmapped at the end.
    is_own: bool,
}

// SAFETY: the memory is not bound to a thread, and is accessed as the invariant says.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` bytes of a file, which has as many.
    pub(crate) fn of_file(file: impl AsFd, bytes: usize) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: without MAP_FIXED the kernel chooses addresses that nothing else of this process uses. The
        // file has these bytes: the caller has asked. No program makes a segment's file shorter (a memfd is
        // sealed, a file is written by this crate alone); a program that did would end the others with a
        // signal, which is not undefined behaviour.
        let base = unsafe { mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, file, 0)? };
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Self { base, bytes, is_own: true })
    }

    /// Memory of the caller.
    ///
    /// # Safety
    /// `bytes` bytes from `base` are readable, writable and initialized as long as the result lives, and are
    /// accessed through mappings of this crate only, by whatever process.
    pub(crate) unsafe fn of_caller(base: NonNull<u8>, bytes: usize) -> Self {
        Self { base, bytes, is_own: false }
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sets all bytes to zero.
    ///
    /// # Safety
    /// No other code accesses the memory meanwhile.
    pub(crate) unsafe fn clear(&self) {
        // SAFETY: the memory is writable and the caller's alone.
        unsafe { self.base.write_bytes(0, self.bytes) };
    }

    /// The address of `place`, in which a part of `bytes` bytes is expected.
    ///
    /// # Panics
    /// If the part is not in this memory.
    pub(crate) fn address(&self, place: &Place, bytes: Option<usize>) -> NonNull<u8> {
        let end = place.offset.checked_add(place.bytes);
        let is_inside = end.is_some_and(|end| end <= self.bytes) && bytes == Some(place.bytes);
        assert!(is_inside, "the part at {} of {} bytes was planned later", place.offset, self.bytes);
        // SAFETY: the offset is within the memory, or just after it for a part without bytes.
        unsafe { self.base.add(place.offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.is_own {
            // SAFETY: the mapping is this object's own, and what refers to it keeps the object alive.
            let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
            debug_assert!(unmapped.is_ok(), "a mapping can be unmapped");
        }
    }
}

/// A reference to a part of a segment, which stays mapped as long as it lives.
#[derive(Debug)]
pub struct Shared<T: ?Sized> {
    memory: Arc<Mapping>,
    value: NonNull<T>,
}

// SAFETY: it is a shared reference (`T: Sync`) together with an owner of the memory, which may be dropped
// anywhere.
unsafe impl<T: ?Sized + Sync> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Sync> Sync for Shared<T> {}

impl<T: Shareable> Shared<T> {
    /// The `T` at `place`.
    pub(crate) fn one(memory: &Arc<Mapping>, place: &Place) -> Self {
        let value = memory.address(place, Some(size_of::<T>())).cast();
        assert!(value.is_aligned(), "a segment is aligned as its plan says");
        Self { memory: memory.clone(), value }
    }
}

impl<T: Shareable> Shared<[T]> {
    /// `count` of `T` at `place`.
    pub(crate) fn many(memory: &Arc<Mapping>, place: &Place, count: usize) -> Self {
        let first: NonNull<T> = memory.address(place, size_of::<T>().checked_mul(count)).cast();
        assert!(first.is_aligned(), "a segment is aligned as its plan says");
        Self { memory: memory.clone(), value: NonNull::slice_from_raw_parts(first, count) }
    }
}

impl<T: ?Sized> Deref for Shared<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: made by `one` and `many` alone, for shareable types: the value is in the memory, aligned,
        // any bytes are valid, and others change it through atomic words only. The memory lives as long as
        // `self`. Parts of a plan do not overlap, so it is no area that a latch guards.
        unsafe { self.value.as_ref() }
    }
}

impl<T: ?Sized> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self { memory: self.memory.clone(), value: self.value }
    }
}
