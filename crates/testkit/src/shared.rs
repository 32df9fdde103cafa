//! A memory region shared by several processes, under a lock that survives their death.
//!
//! Invariant: the bytes are accessed only through a [`Guard`], and at most one guard exists among all
//! processes. The lock is the kernel's (`flock`); the kernel frees it when its holder dies. While the lock is
//! held, the region contains the holder's process id. So the next holder learns that its predecessor died
//! while it held the lock.
#![allow(unsafe_code)] // maps memory; every block says why it is sound

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes before the region proper: the holder's id, then words that need no lock.
const HEADER_BYTES: usize = 4096;

/// Number of words that may be used without the lock.
pub const WORDS: usize = 8;

/// A file mapped into this process and others.
#[derive(Debug)]
pub struct SharedRegion {
    base: NonNull<u8>,
    length: usize,
    file: File,
}

impl SharedRegion {
    /// Makes a region of `bytes` zero bytes in a new file.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn create(path: &Path, bytes: usize) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        file.set_len((HEADER_BYTES + bytes) as u64)?;
        Self::map(file, 0)
    }

    /// Maps the region of another process, at `address` if that is free and not 0.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn open(path: &Path, address: usize) -> io::Result<Self> {
        Self::map(OpenOptions::new().read(true).write(true).open(path)?, address)
    }

    fn map(file: File, address: usize) -> io::Result<Self> {
        let length = file.metadata()?.len() as usize;
        let (protection, hint) =
            (ProtFlags::READ | ProtFlags::WRITE, std::ptr::without_provenance_mut(address));
        // SAFETY: without MAP_FIXED the kernel chooses addresses that nothing else of this process uses, and
        // the file is as long as the mapping and is never truncated.
        let base = unsafe { mmap(hint, length, protection, MapFlags::SHARED, &file, 0)? };
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Self { base, length, file })
    }

    /// The region's address in this process.
    pub fn address(&self) -> usize {
        self.base.addr().get()
    }

    fn header(&self, word: usize) -> &AtomicU64 {
        assert!(word <= WORDS, "the header has {WORDS} words");
        // SAFETY: the mapping is page-aligned and longer than the header, lives as long as `self`, and its
        // header is accessed as atomic words only, here and in other processes.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().cast::<u64>().add(word)) }
    }

    /// Word `0 .. WORDS`, for what needs no lock.
    pub fn word(&self, word: usize) -> &AtomicU64 {
        self.header(1 + word)
    }

    /// Waits for the lock.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn lock(&mut self) -> io::Result<Guard<'_>> {
        self.file.lock()?;
        let inherited = self.header(0).swap(std::process::id().into(), Ordering::SeqCst) != 0;
        Ok(Guard { region: self, inherited })
    }
}

impl Drop for SharedRegion {
    fn drop(&mut self) {
        // SAFETY: the mapping is this object's own, and guards borrow the object.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.length) };
        debug_assert!(unmapped.is_ok(), "a mapping can be unmapped");
    }
}

/// The lock, held.
#[derive(Debug)]
pub struct Guard<'a> {
    region: &'a mut SharedRegion,
    inherited: bool,
}

impl Guard<'_> {
    /// The last holder died with the lock, so its last change may be incomplete.
    pub fn is_inherited(&self) -> bool {
        self.inherited
    }

    /// The region without its header.
    pub fn bytes(&mut self) -> &mut [u8] {
        let length = self.region.length - HEADER_BYTES;
        // SAFETY: the bytes are in the mapping, after the header, and are initialized (a file's). `&mut self`
        // borrows the one guard that this process can have (`lock` takes `&mut SharedRegion`), and no other
        // process has one.
        unsafe { std::slice::from_raw_parts_mut(self.region.base.as_ptr().add(HEADER_BYTES), length) }
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.region.header(0).store(0, Ordering::SeqCst);
        let unlocked = self.region.file.unlock();
        debug_assert!(unlocked.is_ok(), "a lock that is held can be released");
    }
}
