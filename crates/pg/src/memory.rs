//! The memory that the postmaster has mapped for the cache: a board of counters of this door, and then the
//! engine's segment.
//!
//! It is part of PostgreSQL's own shared memory, not a file. So PostgreSQL's crash rule covers it: after a
//! crash the postmaster ends all processes, and makes new memory, before it starts any other; a new
//! postmaster refuses to start while a process of an older one has the old memory. Nobody can go on with a
//! segment of an older back, and none is left behind when the postmaster is killed.
#![allow(unsafe_code)] // this module makes references and segments of PostgreSQL's memory, as its parts say

use entresol_engine::SegmentMemory;
use entresol_shm::{NewSegment, Plan, Segment, SegmentError};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes for the board, before the segment.
pub(crate) const BOARD_BYTES: usize = 4096;
/// What the memory is aligned to: as the segment needs it for direct I/O.
pub(crate) const ALIGNMENT: usize = 4096;

/// A counter in shared memory.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct Tally(AtomicU64);

impl Tally {
    /// Counts.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }

    /// The sum.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// What this door counts, in all processes. A board of zeros is a new one.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Board {
    pub misses: Tally,
    pub staged_dirty: Tally,
    pub staged_clean: Tally,
    pub refused_clean: Tally,
    pub disk_only: Tally,
    pub pulled: Tally,
    pub forgets: Tally,
    pub cuts: Tally,
    pub retired: Tally,
    pub flushes: Tally,
    pub checkpoints: Tally,
    pub no_file: Tally,
    pub past_end: Tally,
    pub space_waits: Tally,
    pub file_syncs: Tally,
}

const _: () = assert!(size_of::<Board>() <= BOARD_BYTES);

/// Memory from the postmaster. Invariant: [`Shared::new`]'s caller has promised what it says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shared {
    base: NonNull<u8>,
    bytes: usize,
    /// In the worker, which finds no older segment: it runs once in the life of this memory.
    is_worker: bool,
}

// SAFETY: it is an address in memory that is mapped for the whole life of the process; what is there is
// accessed by atomic words and through segments only.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// `bytes` bytes from `base` on, zeros when the postmaster has mapped them.
    ///
    /// # Safety
    /// The memory is readable and writable until the end of the process, shared with all processes of the
    /// server and used for nothing else, aligned to [`ALIGNMENT`], and longer than [`BOARD_BYTES`].
    pub unsafe fn new(base: NonNull<u8>, bytes: usize, is_worker: bool) -> Self {
        Self { base, bytes, is_worker }
    }

    /// The counters.
    pub fn board(&self) -> &'static Board {
        // SAFETY: the memory is there as long as the process, aligned, and any bytes are atomic words.
        unsafe { self.base.cast::<Board>().as_ref() }
    }

    fn segment(&self) -> (NonNull<u8>, usize) {
        // SAFETY: the memory is longer than the board.
        (unsafe { self.base.add(BOARD_BYTES) }, self.bytes - BOARD_BYTES)
    }
}

impl SegmentMemory for Shared {
    fn name(&self) -> String {
        "PostgreSQL's shared memory".to_owned()
    }

    fn create(&self, plan: &Plan) -> Result<NewSegment, SegmentError> {
        let (base, bytes) = self.segment();
        // SAFETY: what `new` was promised; the part behind the board is the segment's alone.
        unsafe { Segment::create_over(base, bytes, plan) }
    }

    fn attach(&self, plan: &Plan) -> Result<Option<Segment>, SegmentError> {
        if self.is_worker {
            return Ok(None);
        }
        let (base, bytes) = self.segment();
        // SAFETY: as above; the memory was initialized by the kernel, with zeros.
        unsafe { Segment::attach_over(base, bytes, plan) }.map(Some)
    }
}
