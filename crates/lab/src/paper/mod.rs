//! What the papers measured and claim, as constants with their sources, and the claims as functions over our results.
//!
//! Invariant: a number stands here only if the text of the paper at hand states it. What a figure merely draws is
//! represented by the ratios that the text names.

pub mod face;
pub mod restart_claims;
pub mod rw;
pub mod sbp;
pub mod sce;
pub mod three_layer;
pub mod tpcc_claims;
pub(crate) mod verdict;

pub use verdict::{Outcome, Verdict};

/// Printed with every result: what the numbers are and are not.
pub const NOT_A_TPC_RESULT: &str = "TPC-C workload, not a TPC result";
