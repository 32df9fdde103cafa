//! The layout of a segment: a header, then named parts in the order in which they were planned.
//!
//! Every process makes the same plan from the same options. The header keeps a hash of it, so a process with
//! another plan is refused. A part is a handle: its place and its type. It belongs to one plan, and segments
//! made or attached with that plan resolve it ([`crate::Segment`]).

use crate::fronts::Seat;
use crate::header::HEADER_BYTES;
use crate::shareable::{HASH_START, Shareable, hash_bytes, hash_word};
use entresol_runtime::sync::Rank;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Each part begins at a multiple of this, so that no two parts share a cache line.
pub const PART_ALIGNMENT: usize = 64;
/// Largest alignment that a part may ask for: a page, to which any mapping is aligned.
pub const ALIGNMENT_MAX: usize = 4096;

/// The place of a part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Number of its plan, in this process.
    pub plan: u64,
    /// From the beginning of the segment.
    pub offset: usize,
    pub bytes: usize,
}

/// One `T`.
#[derive(Debug)]
pub struct Part<T> {
    pub(crate) place: Place,
    pub(crate) kind: PhantomData<fn() -> T>,
}

/// A number of `T`.
#[derive(Debug)]
pub struct SlicePart<T> {
    pub(crate) place: Place,
    pub(crate) count: usize,
    pub(crate) kind: PhantomData<fn() -> T>,
}

/// Bytes that are copied in and out.
#[derive(Clone, Copy, Debug)]
pub struct BytesPart {
    pub(crate) place: Place,
}

/// Areas of words, each with a latch.
#[derive(Clone, Copy, Debug)]
pub struct GuardedPart {
    /// One latch to [`PART_ALIGNMENT`] bytes.
    pub(crate) latches: Place,
    pub(crate) areas: Place,
    pub(crate) count: usize,
    /// Words of an area.
    pub(crate) words: usize,
    /// Words from an area to the next one.
    pub(crate) stride: usize,
    pub(crate) rank: Rank,
}

/// A table of processes.
#[derive(Debug)]
pub struct FrontsPart {
    pub(crate) seats: SlicePart<Seat>,
}

impl<T> Clone for Part<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Part<T> {}
impl<T> Clone for SlicePart<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for SlicePart<T> {}
impl Clone for FrontsPart {
    fn clone(&self) -> Self {
        *self
    }
}
impl Copy for FrontsPart {}

/// Areas of a [`GuardedPart`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Areas {
    /// How many, each with a latch of its own.
    pub count: usize,
    /// Words of 64 bits in each.
    pub words: usize,
    /// What each is aligned to, in bytes: a power of two, at most [`ALIGNMENT_MAX`].
    pub alignment: usize,
}

/// A line of the layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The part.
    pub name: &'static str,
    /// From the beginning of the segment.
    pub offset: usize,
    /// Without what follows for alignment.
    pub bytes: usize,
}

/// See the module's header.
#[derive(Debug)]
pub struct Plan {
    /// In this process; parts of another plan are not resolved.
    number: u64,
    configuration: u64,
    layout: u64,
    alignment: usize,
    rows: Vec<Row>,
    /// `None`: more than memory can have.
    bytes: Option<usize>,
}

impl Plan {
    /// A plan without parts. `configuration` is a hash of all options that processes must agree upon.
    pub fn new(configuration: u64) -> Self {
        static PLANS: AtomicU64 = AtomicU64::new(1);
        Self {
            number: PLANS.fetch_add(1, Relaxed),
            configuration,
            layout: HASH_START,
            alignment: PART_ALIGNMENT,
            rows: Vec::new(),
            bytes: Some(HEADER_BYTES),
        }
    }

    /// Adds one `T`.
    pub fn part<T: Shareable>(&mut self, name: &'static str) -> Part<T> {
        let place = self.place(name, Some(size_of::<T>()), align_of::<T>(), T::SHAPE);
        Part { place, kind: PhantomData }
    }

    /// Adds `count` of `T`.
    pub fn slice<T: Shareable>(&mut self, name: &'static str, count: usize) -> SlicePart<T> {
        let bytes = size_of::<T>().checked_mul(count);
        let place = self.place(name, bytes, align_of::<T>(), T::SHAPE);
        SlicePart { place, count, kind: PhantomData }
    }

    /// Adds an area of bytes, rounded up to whole words of 8.
    pub fn bytes(&mut self, name: &'static str, bytes: usize) -> BytesPart {
        let bytes = bytes.checked_next_multiple_of(size_of::<u64>());
        BytesPart { place: self.place(name, bytes, PART_ALIGNMENT, 1) }
    }

    /// Adds `words` words of 64 bits, guarded by a latch. Debug builds check the latch's `rank` against the
    /// locks that its taker holds.
    pub fn guarded(&mut self, name: &'static str, rank: Rank, words: usize) -> GuardedPart {
        self.guarded_areas(name, rank, Areas { count: 1, words, alignment: PART_ALIGNMENT })
    }

    /// Adds areas of words, each guarded by a latch of its own.
    ///
    /// # Panics
    /// If the alignment is none.
    pub fn guarded_areas(&mut self, name: &'static str, rank: Rank, areas: Areas) -> GuardedPart {
        let Areas { count, words, alignment } = areas;
        let latches = self.place(name, count.checked_mul(PART_ALIGNMENT), PART_ALIGNMENT, 2);
        let area = words.checked_mul(size_of::<u64>());
        let stride = area.and_then(|area| area.checked_next_multiple_of(alignment.max(PART_ALIGNMENT)));
        let bytes = stride.and_then(|stride| stride.checked_mul(count));
        let areas = self.place(name, bytes, alignment, 3);
        // Whatever did not fit is refused with the whole plan.
        let stride = stride.unwrap_or(0) / size_of::<u64>();
        GuardedPart { latches, areas, count, words, stride, rank }
    }

    /// Adds a table with room for `fronts` fronts and the back.
    pub fn fronts(&mut self, name: &'static str, fronts: u32) -> FrontsPart {
        FrontsPart { seats: self.slice(name, (fronts as usize).saturating_add(1)) }
    }

    /// Bytes of a segment of this plan, header and alignment included. `None`: more than memory can have.
    pub fn total_bytes(&self) -> Option<usize> {
        self.bytes.filter(|bytes| isize::try_from(*bytes).is_ok())
    }

    /// The alignment of a segment's memory, in bytes.
    pub fn alignment(&self) -> usize {
        self.alignment
    }

    /// The parts, in the order of their offsets. A guarded part has two rows: its latches and its areas.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn configuration(&self) -> u64 {
        self.configuration
    }

    /// A hash of names, offsets, sizes and kinds of all parts.
    pub(crate) fn layout(&self) -> u64 {
        self.layout
    }

    fn place(&mut self, name: &'static str, bytes: Option<usize>, alignment: usize, shape: u64) -> Place {
        let is_possible = alignment.is_power_of_two() && alignment <= ALIGNMENT_MAX;
        assert!(is_possible, "part {name:?} is to be aligned to {alignment} bytes, at most {ALIGNMENT_MAX}");
        let alignment = alignment.max(PART_ALIGNMENT);
        let offset = self.bytes.and_then(|end| end.checked_next_multiple_of(alignment));
        self.bytes = offset.zip(bytes).and_then(|(offset, bytes)| offset.checked_add(bytes));
        self.alignment = self.alignment.max(alignment);
        let (offset, bytes) = (offset.unwrap_or(0), bytes.unwrap_or(0));
        self.rows.push(Row { name, offset, bytes });
        self.layout = hash_bytes(self.layout, name.as_bytes());
        for word in [name.len(), offset, bytes] {
            self.layout = hash_word(self.layout, word as u64);
        }
        self.layout = hash_word(self.layout, shape);
        Place { plan: self.number, offset, bytes }
    }
}
