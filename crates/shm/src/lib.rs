//! One segment of memory that many processes share: a cache's fronts (processes that use it) and its back
//! (the process that writes).
//!
//! | module | what it has |
//! |---|---|
//! | [`Plan`] | the layout: a header and named parts, each at a fixed offset |
//! | [`Segment`] | the memory: a file, a memfd or memory of the caller, made or attached |
//! | [`Latch`], [`Guarded`] | mutual exclusion between processes; memory that a latch guards |
//! | [`Epoch`] | a number to wait on, with a time limit |
//! | [`Bytes`] | bytes that processes copy in and out without a lock |
//! | [`Fronts`], [`Watch`] | which processes use the segment, and which of them died |
//! | [`atomic`], [`shared_struct!`](crate::shared_struct) | the parts of a shared structure |
//!
//! Invariants:
//!
//! 1. Everything is addressed by offset. The segment has no pointer, so each process may map it at an address
//!    of its own.
//! 2. Words that processes share without a latch are atomic. A segment of zeros is valid. So no bit pattern
//!    that another process writes is undefined behaviour here: it is at worst a wrong number.
//! 3. Plain memory (`&mut [u64]`) is reached only through the guard of its latch.
//! 4. A process may die at any instruction. Nothing is repaired: a dead holder is *recognised*
//!    ([`Watch::find_dead`], [`Latch::holder`]), and the latch is then *poisoned*. From then on no task gets
//!    it.
//! 5. Without contention there is no system call: not for a lock, an unlock or a raise.
//!
//! All attached processes trust each other, as threads do. They share a pid namespace.
//!
//! Users need no `unsafe` code of their own, but for memory that they bring along ([`Segment::create_over`]).
#![deny(unsafe_code)] // except where memory is mapped and addressed; every block says why it is sound

pub mod atomic;
mod epoch;
mod error;
mod fronts;
mod futex;
mod guarded;
mod header;
mod latch;
mod mapping;
mod plan;
mod process;
mod segment;
mod shareable;
mod words;

pub use epoch::{Epoch, Seen};
pub use error::SegmentError;
#[cfg(feature = "shuttle")]
pub use fronts::Death;
pub use fronts::{Dead, Front, Fronts, SeatError, Watch};
pub use futex::{SystemCalls, system_calls};
pub use guarded::{Guard, Guarded};
pub use header::SEGMENT_VERSION;
pub use latch::{Gone, HOLDER_MAX, Holder, Latch, LatchGuard};
pub use mapping::Shared;
pub use plan::{
    ALIGNMENT_MAX, Areas, BytesPart, FrontsPart, GuardedPart, PART_ALIGNMENT, Part, Plan, Row, SlicePart,
};
pub use segment::{NewSegment, Segment};
pub use shareable::Shareable;
#[doc(hidden)]
pub use shareable::shape;
pub use words::Bytes;
