//! Results as a person reads them: one model of a report, shown in a terminal ([`terminal::render`]) or as a
//! self-contained page ([`html::render`]).
//!
//! Invariant: a report is built once, from results alone, and both forms show that same model; neither
//! computes a number.

mod advice;
pub mod html;
mod log_kept;
mod model;
mod mrc;
mod reproduction;
mod restart;
mod simulation;
mod svg;
pub mod terminal;
mod text;
mod tpcc;

pub use advice::advice_report;
pub use model::{
    Axis, Bar, BarChart, BarGroup, Block, Chart, Column, Line, LineChart, Report, Section, Table,
};
pub use mrc::mrc_report;
pub use reproduction::reproduction_report;
pub use restart::restart_report;
pub use simulation::simulation_report;
pub(crate) use text::{NONE, decimal, or_none};
pub use text::{amount, seconds, size_of, time_of, whole};
pub use tpcc::tpcc_report;

use serde::Serialize;

/// Results as the command writes them: a JSON array, indented, with a newline at the end.
pub fn json<T: Serialize>(results: &[T]) -> serde_json::Result<Vec<u8>> {
    json_object(results)
}

/// One result as the command writes it: JSON, indented, with a newline at the end.
pub fn json_object<T: Serialize + ?Sized>(result: &T) -> serde_json::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(result)?;
    bytes.push(b'\n');
    Ok(bytes)
}
