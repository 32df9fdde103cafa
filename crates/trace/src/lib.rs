//! Traces of page references: what a simulation replays and what an experiment can record.
//!
//! Invariant: a [`Trace`] is dense. Its pages are numbered 0, 1, 2 … in the order of their first appearance, so that a
//! simulator indexes arrays and never hashes; [`Trace::pages`] leads back to the numbers of the source.
#![forbid(unsafe_code)]

mod error;
mod format;
mod options;
mod relations;
mod request;
mod trace;

pub use error::{Place, TraceError};
pub use format::Format;
pub use options::{ReadOptions, Stream};
pub use relations::{RelationId, Relations};
pub use request::{Op, Request};
pub use trace::Trace;
