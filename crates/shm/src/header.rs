//! The first bytes of a segment.
#![allow(unsafe_code)] // in `shared_struct!`, which says why it is sound; the lint spares other crates

use crate::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::atomic::{AtomicU32, AtomicU64};
use crate::error::SegmentError;
use crate::plan::Plan;
use crate::shared_struct;

/// "ENTRSHM", then the version of the header itself.
const MAGIC: u64 = u64::from_le_bytes(*b"ENTRSHM1");
/// Version of a segment's content: parts, words and protocols. Raised with every change of them.
pub const SEGMENT_VERSION: u32 = 1;
/// Bytes before the first part.
pub(crate) const HEADER_BYTES: usize = 64;

shared_struct! {
    /// Written by the maker; the magic last, when all parts are ready to be used. Never changed then.
    #[derive(Debug)]
    pub(crate) struct Header {
        magic: AtomicU64,
        version: AtomicU32,
        reserved: AtomicU32,
        bytes: AtomicU64,
        configuration: AtomicU64,
        layout: AtomicU64,
        id: [AtomicU64; 2],
        reserved_too: AtomicU64,
    }
}

const _: () = assert!(size_of::<Header>() == HEADER_BYTES);

impl Header {
    /// Writes everything but the magic.
    pub(crate) fn format(&self, plan: &Plan, bytes: usize, id: u128) {
        self.version.store(SEGMENT_VERSION, Relaxed);
        self.bytes.store(bytes as u64, Relaxed);
        self.configuration.store(plan.configuration(), Relaxed);
        self.layout.store(plan.layout(), Relaxed);
        self.id[0].store(id as u64, Relaxed);
        self.id[1].store((id >> 64) as u64, Relaxed);
    }

    /// Lets others attach.
    pub(crate) fn publish(&self) {
        self.magic.store(MAGIC, Release);
    }

    pub(crate) fn id(&self) -> u128 {
        u128::from(self.id[0].load(Relaxed)) | u128::from(self.id[1].load(Relaxed)) << 64
    }

    /// Proves that this is the header of a segment of `plan` in `length` bytes of memory.
    pub(crate) fn validate(&self, place: &str, plan: &Plan, length: usize) -> Result<(), SegmentError> {
        let place = || place.to_owned();
        let found = self.magic.load(Acquire);
        if found != MAGIC {
            return Err(SegmentError::NotASegment { place: place(), expected: MAGIC, found });
        }
        let (expected, found) = (SEGMENT_VERSION, self.version.load(Relaxed));
        if found != expected {
            return Err(SegmentError::Version { place: place(), expected, found });
        }
        let (expected, found) = (plan.configuration(), self.configuration.load(Relaxed));
        if found != expected {
            return Err(SegmentError::Configuration { place: place(), expected, found });
        }
        let (expected, found) = (plan.layout(), self.layout.load(Relaxed));
        if found != expected {
            return Err(SegmentError::Layout { place: place(), expected, found });
        }
        let expected = plan.total_bytes().ok_or_else(|| SegmentError::TooLarge { place: place() })?;
        for found in [self.bytes.load(Relaxed), length as u64] {
            if found != expected as u64 {
                return Err(SegmentError::Size { place: place(), expected: expected as u64, found });
            }
        }
        Ok(())
    }
}
