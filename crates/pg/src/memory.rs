//! The memory that the postmaster has mapped for the cache: a board of counters of this door, counters for
//! each object, and then the engine's segment.
//!
//! It is part of PostgreSQL's own shared memory, not a file. So PostgreSQL's crash rule covers it: after a
//! crash the postmaster ends all processes, and makes new memory, before it starts any other; a new
//! postmaster refuses to start while a process of an older one has the old memory. No process can use a
//! segment of an older back, and none remains when the postmaster is killed.
#![allow(unsafe_code)] // this module makes references and segments of PostgreSQL's memory, as its parts say

use crate::benefit::Hour;
use crate::budget::Around;
use crate::gate::{Gate, Word};
use crate::notes::{Noted, NotesBoard};
use crate::now::Now;
use crate::types::{BACKEND_KINDS, EntBackend, EntIo, EntStat, PRESENT, latency};
use crate::wal::LogBoard;
use entresol_engine::{DURATION_BUCKETS, DurationTally, Durations, SegmentMemory};
use entresol_format::checksum;
use entresol_objects::{Locator, ObjectId};
use entresol_shm::{NewSegment, Plan, Segment, SegmentError};
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes for the board, before the segment.
pub(crate) const BOARD_BYTES: usize = 16_384;
/// The alignment of the memory: the segment's, for direct I/O.
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

/// The values of monotonic counters at the reset: subtracted from their present values.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Baseline {
    stats: [[Tally; 8]; 6],
    durations: [[Tally; DURATION_BUCKETS + 1]; latency::ROWS],
}

impl Baseline {
    /// The counters are as in `stat` and `durations` now.
    pub fn set(&self, mut stat: EntStat, durations: &[Durations; latency::ROWS]) {
        for (tally, value) in self.stats.as_flattened().iter().zip(stat.values_mut()) {
            tally.0.store(*value, Relaxed);
        }
        for (tallies, durations) in self.durations.iter().zip(durations) {
            let values = durations.buckets.iter().chain([&durations.total_us]);
            tallies.iter().zip(values).for_each(|(tally, value)| tally.0.store(*value, Relaxed));
        }
    }

    /// The counts of `stat` since the reset. Present values stay.
    pub fn since(&self, stat: &mut EntStat) {
        let tallies = self.stats.as_flattened();
        for ((value, tally), name) in stat.values_mut().into_iter().zip(tallies).zip(EntStat::FIELDS) {
            if !PRESENT.contains(name) {
                *value = value.saturating_sub(tally.get());
            }
        }
    }

    /// The durations at the reset.
    pub fn durations(&self, row: usize) -> Durations {
        let tallies = &self.durations[row];
        Durations {
            buckets: std::array::from_fn(|at| tallies[at].get()),
            total_us: tallies[DURATION_BUCKETS].get(),
        }
    }
}

const _: () = assert!(EntStat::FIELDS.len() <= 8 * 6);

/// What processes of one kind did.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct BackendTally {
    pub hits: Tally,
    pub misses: Tally,
    pub staged_dirty: Tally,
    pub staged_clean: Tally,
    pub refused: Tally,
    /// Of the hits, those from memory.
    pub staging_hits: Tally,
    /// What reads from the cache took, while the process measures.
    pub read_us: Tally,
}

impl BackendTally {
    pub fn read(&self) -> EntBackend {
        EntBackend {
            hits: self.hits.get(),
            misses: self.misses.get(),
            staged_dirty: self.staged_dirty.get(),
            staged_clean: self.staged_clean.get(),
            refused: self.refused.get(),
        }
    }

    /// The reads.
    pub fn read_io(&self) -> EntIo {
        let hits = self.staging_hits.get();
        let reads = self.hits.get().saturating_sub(hits);
        EntIo { reads, read_us: self.read_us.get(), hits, ..EntIo::default() }
    }

    /// Begins anew.
    pub fn reset(&self) {
        let Self { hits, misses, staged_dirty, staged_clean, refused, staging_hits, read_us } = self;
        for tally in [hits, misses, staged_dirty, staged_clean, refused, staging_hits, read_us] {
            tally.0.store(0, Relaxed);
        }
    }
}

/// What this door counts, in all processes. A board of zeros is a new one.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Board {
    pub async_hits: Tally,
    pub async_rejected: Tally,
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
    pub destages: Tally,
    pub no_file: Tally,
    pub past_end: Tally,
    pub space_waits: Tally,
    pub file_syncs: Tally,
    pub written_through: Tally,
    pub kept_out: Tally,
    pub over_budget: Tally,
    pub around: Around,
    pub notes: NotesBoard,
    pub log: LogBoard,
    /// By the number of the kind.
    pub backends: [BackendTally; BACKEND_KINDS],
    pub took: [DurationTally; latency::MEASURED],
    pub baseline: Baseline,
    pub flash: Descriptor,
    pub hour: Hour,
    pub gate: Gate,
    pub now: Now,
}

/// The worker's descriptor of the flash, for the other processes: they read the device that it writes, even
/// if the path changes.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct Descriptor(AtomicU64);

impl Descriptor {
    /// Descriptor `number` of process `process`, until that ends.
    pub fn set(&self, process: u32, number: i32) {
        let number = number.cast_unsigned();
        self.0.store(u64::from(process) << 32 | u64::from(number), Relaxed);
    }

    /// Its path. `None`: it is not known.
    pub fn path(&self) -> Option<PathBuf> {
        let word = self.0.load(Relaxed);
        (word != 0).then(|| format!("/proc/{}/fd/{}", word >> 32, word as u32).into())
    }
}

const _: () = assert!(size_of::<Board>() <= BOARD_BYTES);

/// The counters of one object: a fork of a relation.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct ObjectTally {
    /// A checksum of the fork's name, never 0: the number may be another fork's later.
    name: AtomicU64,
    pub hits: Tally,
    pub misses: Tally,
    pub staged_dirty: Tally,
    pub staged_clean: Tally,
    /// Not dropped with the counts: it must not be missed.
    pub noted: Noted,
}

impl ObjectTally {
    /// Of the fork with this name. The counts of an earlier one are dropped. (Two processes may drop it, and
    /// lose a count that a third one has made in between.)
    fn of(&self, name: u64) -> &Self {
        if self.name.load(Relaxed) != name {
            self.reset();
            self.name.store(name, Relaxed);
        }
        self
    }

    /// Begins anew.
    pub fn reset(&self) {
        for tally in [&self.hits, &self.misses, &self.staged_dirty, &self.staged_clean] {
            tally.0.store(0, Relaxed);
        }
    }
}

/// Bytes of the counters of so many objects.
fn tallies_bytes(objects: u32) -> usize {
    (objects as usize * size_of::<ObjectTally>()).next_multiple_of(ALIGNMENT)
}

/// Bytes of the words of so many processes at the gate.
fn words_bytes(processes: u32) -> usize {
    (processes as usize * size_of::<Word>()).next_multiple_of(ALIGNMENT)
}

/// Bytes before the segment of a cache with so many objects and processes.
pub(crate) fn front_bytes(objects: u32, processes: u32) -> usize {
    BOARD_BYTES + tallies_bytes(objects) + words_bytes(processes)
}

/// Memory from the postmaster. Invariant: the promises of [`Shared::new`]'s caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shared {
    base: NonNull<u8>,
    bytes: usize,
    objects: u32,
    processes: u32,
    /// In the worker, which finds no older segment: a new one replaces it while no process uses it.
    is_worker: bool,
}

// SAFETY: it is an address in memory that is mapped for the whole life of the process; its content is
// accessed by atomic words and through segments only.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// `bytes` bytes from `base` on, zeros when the postmaster has mapped them.
    ///
    /// # Safety
    /// The memory is readable and writable until the end of the process, shared with all processes of the
    /// server and used for nothing else, aligned to [`ALIGNMENT`], and has at least as many bytes as
    /// [`front_bytes`] of `objects` and `processes`.
    pub unsafe fn new(
        base: NonNull<u8>,
        bytes: usize,
        (objects, processes): (u32, u32),
        is_worker: bool,
    ) -> Self {
        Self { base, bytes, objects, processes, is_worker }
    }

    /// Bytes that a segment may have.
    pub fn segment_room(&self) -> usize {
        self.segment().1
    }

    /// The words of the processes at the gate.
    pub fn words(&self) -> &'static [Word] {
        let at = BOARD_BYTES + tallies_bytes(self.objects);
        // SAFETY: the memory is there as long as the process, has so many words after the counters, and any
        // bytes are atomic words. The lengths before keep the alignment.
        unsafe {
            std::slice::from_raw_parts(self.base.add(at).cast::<Word>().as_ptr(), self.processes as usize)
        }
    }

    /// Objects that the memory has counters for.
    pub fn objects(&self) -> u32 {
        self.objects
    }

    /// The counters.
    pub fn board(&self) -> &'static Board {
        // SAFETY: the memory is there as long as the process, aligned, and any bytes are atomic words.
        unsafe { self.base.cast::<Board>().as_ref() }
    }

    /// The counters of the object with this number, which is called `locator`. `None`: there is no such
    /// object.
    pub fn tally(&self, object: ObjectId, locator: &Locator) -> Option<&'static ObjectTally> {
        if object.0 >= self.objects {
            return None;
        }
        let at = BOARD_BYTES + object.0 as usize * size_of::<ObjectTally>();
        // SAFETY: the memory is there as long as the process, has so many objects after the board, and any
        // bytes are atomic words. The board's length and the struct's keep the alignment.
        let tally: &'static ObjectTally = unsafe { self.base.add(at).cast::<ObjectTally>().as_ref() };
        Some(tally.of(u64::from(checksum::of(locator)) + 1))
    }

    fn segment(&self) -> (NonNull<u8>, usize) {
        let before = front_bytes(self.objects, self.processes);
        // SAFETY: the memory has more bytes than these.
        (unsafe { self.base.add(before) }, self.bytes - before)
    }
}

impl SegmentMemory for Shared {
    fn name(&self) -> String {
        "PostgreSQL's shared memory".to_owned()
    }

    fn create(&self, plan: &Plan) -> Result<NewSegment, SegmentError> {
        let (base, bytes) = self.segment();
        // SAFETY: the promises of `new`'s caller; the part after the board is the segment's alone.
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
