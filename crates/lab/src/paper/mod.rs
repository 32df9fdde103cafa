//! What the papers measured and claim: a folder for each paper, with its numbers as constants, the evidence
//! that its claims are judged by, and its claims as values ([`Claim`]). How to add a claim: [`claim`].
//!
//! Invariant: a number stands here only if the text of the paper at hand states it. What a figure merely
//! draws is represented by the ratios that the text names.

pub mod claim;
pub mod face;
pub mod rw;
pub mod sbp;
pub mod sce;
pub mod three_layer;
mod tolerance;
mod verdict;

pub use claim::{Claim, Judged, Statement, judged};
pub use tolerance::Tolerance;
pub use verdict::{Check, Outcome, Verdict};

/// Printed with every result: what the numbers are and are not.
pub const NOT_A_TPC_RESULT: &str = "TPC-C workload, not a TPC result";
