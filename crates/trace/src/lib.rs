//! Traces of page references: the input of a simulation, and a recording of an experiment.
//!
//! Invariant: a [`Trace`] is dense. Its pages are numbered 0, 1, 2 … in the order of their first appearance,
//! so that a simulator indexes arrays and never hashes; [`Trace::pages`] leads back to the numbers of the
//! source.
#![forbid(unsafe_code)]

mod builder;
mod columns;
mod compact;
mod error;
mod format;
pub mod generate;
mod info;
mod input;
mod numbering;
mod options;
mod read;
mod record;
mod relations;
mod request;
mod sample;
mod spool;
mod trace;
mod write;

pub use builder::{Misfit, TraceBuilder};
pub use columns::{Column, Columns, Layout, OpWords, Separator, Unit};
pub use error::{Place, TraceError};
pub use format::Format;
pub use info::{Info, RelationInfo, Reuse, WorkingSet};
pub use options::{ReadOptions, Stream, Watch};
pub use read::{files_of, read, read_from, read_samples, read_samples_from};
pub use record::Recorder;
pub use relations::{RelationId, Relations};
pub use request::{Op, Request};
pub use sample::{Counted, RATE_MIN, Sample, SampledTrace};
pub use spool::Spool;
pub use trace::{Chunk, Trace};
pub use write::{Compression, Losses, WRITABLE, write};

/// The examples of README.md are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
