//! Generated traces: known distributions, and a model of TPC-C.
//!
//! Invariant: the same parameters and seed give the same trace, in every release.

mod loops;
mod mix;
mod pareto;
mod source;
mod tpcc;
mod zipf;

pub use loops::Loops;
pub use mix::{Mix, Popularity, Scans};
pub use source::{Source, Take, write_as_made};
pub use tpcc::TpccModel;

use crate::TraceError;
use entresol_runtime::rng::Rng;

/// Most references of a generated trace: 16 bytes of memory each, if it is not written as it is made.
pub const REFERENCES_MAX: u64 = 1_000_000_000;

/// A random number in 0 (included) to 1 (not included), with 53 bits.
fn unit(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

fn refuse<T>(sentence: String) -> Result<T, TraceError> {
    Err(TraceError::Option(sentence))
}

fn check_references(references: u64) -> Result<(), TraceError> {
    match (1..=REFERENCES_MAX).contains(&references) {
        true => Ok(()),
        false => refuse(format!("{references} references are not possible; 1 to {REFERENCES_MAX} are")),
    }
}

fn check_share(what: &str, share: f64) -> Result<(), TraceError> {
    match (0.0..=1.0).contains(&share) {
        true => Ok(()),
        false => refuse(format!("a share of {share} of {what} is not possible; 0 to 1 are")),
    }
}

/// When references happen: at a steady rate, or without times.
fn time_us(references_per_s: Option<f64>, index: u64) -> Option<u64> {
    references_per_s.map(|rate| (index as f64 / rate * 1e6) as u64)
}

fn check_rate(references_per_s: Option<f64>) -> Result<(), TraceError> {
    match references_per_s {
        Some(rate) if !(rate.is_finite() && (0.001..=1e9).contains(&rate)) => {
            refuse(format!("{rate} references a second are not possible; 0.001 to 1000000000 are"))
        }
        _ => Ok(()),
    }
}
