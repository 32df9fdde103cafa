//! Bytes that any process may copy in and out at any time, without a latch.
//!
//! A copy that meets another one is torn: some of its words are old, some new. That is not undefined
//! behaviour, because the words are atomic. A reader proves its copy, by a checksum or by a word that was
//! published after the copy.

use crate::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::mapping::{Mapping, Shared};
use crate::plan::Place;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, fence};

/// Bytes of a word.
const WORD: usize = size_of::<u64>();

/// An area of bytes. Offsets and lengths are multiples of 8.
#[derive(Clone, Debug)]
pub struct Bytes {
    words: Shared<[Word]>,
}

/// A word that is not a point of shuttle's: a copy would have hundreds of them.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct Word(AtomicU64);

// SAFETY: an atomic word, for which every value has a meaning.
#[allow(unsafe_code)]
unsafe impl crate::Shareable for Word {
    const SHAPE: u64 = 4;
}

impl Bytes {
    pub(crate) fn new(words: Shared<[Word]>) -> Self {
        Self { words }
    }

    /// The first `length` bytes of a file, a multiple of 8, without a plan. The file has them, and its room:
    /// a page that cannot be had is a signal (SIGBUS), which ends the program.
    ///
    /// # Errors
    /// If the file cannot be mapped.
    pub fn of_file(file: impl AsFd, length: usize) -> io::Result<Self> {
        let memory = Arc::new(Mapping::of_file(file, length)?);
        let words = length / WORD;
        Ok(Self::new(Shared::many(&memory, &Place { plan: 0, offset: 0, bytes: words * WORD }, words)))
    }

    /// Bytes of the area.
    pub fn length(&self) -> usize {
        self.words.len() * WORD
    }

    /// Copies `bytes` to `offset`. A task that sees any of them sees the atomic words that the caller has
    /// written before. A task that sees a word that the caller writes with `Release` after it sees all of
    /// them.
    ///
    /// # Panics
    /// If offset or length is not a multiple of 8, or the area ends before.
    pub fn copy_in(&self, offset: usize, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<WORD>();
        assert!(rest.is_empty(), "{} bytes are copied, not a multiple of {WORD}", bytes.len());
        fence(Release);
        for (word, bytes) in self.range(offset, words.len()).iter().zip(words) {
            word.0.store(u64::from_le_bytes(*bytes), Relaxed);
        }
    }

    /// Copies from `offset` into `bytes`. Atomic words that are read after it are not older than the copy.
    ///
    /// # Panics
    /// If offset or length is not a multiple of 8, or the area ends before.
    pub fn copy_out(&self, offset: usize, bytes: &mut [u8]) {
        let length = bytes.len();
        let (words, rest) = bytes.as_chunks_mut::<WORD>();
        assert!(rest.is_empty(), "{length} bytes are copied, not a multiple of {WORD}");
        for (word, bytes) in self.range(offset, words.len()).iter().zip(words) {
            *bytes = word.0.load(Relaxed).to_le_bytes();
        }
        fence(Acquire);
    }

    fn range(&self, offset: usize, words: usize) -> &[Word] {
        assert!(offset.is_multiple_of(WORD), "a copy at {offset}, not a multiple of {WORD}");
        &self.words[offset / WORD..][..words]
    }
}
