//! Why a segment is refused: what and where, what was expected and found, and what to do.

use std::io;
use thiserror::Error;

/// Why a segment was not made or attached. Nothing was changed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// The operating system refuses.
    #[error("{place}: cannot {action}: {source}")]
    Io {
        /// Where.
        place: String,
        /// The step that failed.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The plan does not fit any memory.
    #[error(
        "{place}: the parts of the segment need more bytes than memory can have; configure a smaller cache"
    )]
    TooLarge {
        /// Where.
        place: String,
    },
    /// The machine has too little memory. (It would end other processes to make room.)
    #[error(
        "{place}: the segment needs {expected} bytes of memory, and {found} are available; configure a smaller \
         cache"
    )]
    Memory {
        /// Where.
        place: String,
        /// Bytes needed.
        expected: u64,
        /// Bytes available.
        found: u64,
    },
    /// The memory is something else, or a segment that its maker has not published yet.
    #[error(
        "{place}: no published segment is there (it begins with {found:#018x}, expected {expected:#018x}); \
         start the cache's server first, and check the path"
    )]
    NotASegment {
        /// Where.
        place: String,
        /// The magic of a segment.
        expected: u64,
        /// The first word.
        found: u64,
    },
    /// The memory is shorter than a header, or than the header says.
    #[error("{place}: the segment has {found} bytes, expected {expected}; restart the cache's server")]
    Size {
        /// Where.
        place: String,
        /// Bytes of the plan, or of the header.
        expected: u64,
        /// Bytes found.
        found: u64,
    },
    /// A segment of another version.
    #[error(
        "{place}: a segment of version {found}, expected version {expected}; run the same release here as \
         the cache's server does"
    )]
    Version {
        /// Where.
        place: String,
        /// The version of this program.
        expected: u32,
        /// The version found.
        found: u32,
    },
    /// The segment was made with other options.
    #[error(
        "{place}: the segment was made with other options (their hash is {found:#018x}, expected \
         {expected:#018x}); give this program the options of the cache's server"
    )]
    Configuration {
        /// Where.
        place: String,
        /// The hash of this program's options.
        expected: u64,
        /// The hash in the segment.
        found: u64,
    },
    /// The segment has other parts.
    #[error(
        "{place}: the segment is laid out in another way (the layout's hash is {found:#018x}, expected \
         {expected:#018x}); run the same build here as the cache's server does"
    )]
    Layout {
        /// Where.
        place: String,
        /// The hash of this program's plan.
        expected: u64,
        /// The hash in the segment.
        found: u64,
    },
    /// The memory is not aligned as the plan needs it.
    #[error("{place}: the memory is not aligned to {expected} bytes")]
    Alignment {
        /// Where.
        place: String,
        /// The alignment needed.
        expected: usize,
    },
}

impl SegmentError {
    pub(crate) fn io(place: &str, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { place: place.to_owned(), action, source }
    }
}
