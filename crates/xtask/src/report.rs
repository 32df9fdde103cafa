//! Means, and the content of the JSON file.

use anyhow::{Context, Result};
use serde::Serialize;
use std::fs;
use std::path::Path;

/// The mean of some runs, with the standard deviation of one.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Mean {
    pub mean: f64,
    pub deviation: f64,
    pub runs: usize,
}

impl Mean {
    pub(crate) fn of(values: &[f64]) -> Self {
        let runs = values.len();
        let mean = values.iter().sum::<f64>() / runs.max(1) as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = if runs > 1 { (squares / (runs - 1) as f64).sqrt() } else { 0.0 };
        Mean { mean, deviation, runs }
    }
}

/// Writes `what` as JSON, if a file is named.
pub(crate) fn write_json(file: Option<&Path>, what: &impl Serialize) -> Result<()> {
    let Some(file) = file else { return Ok(()) };
    let text = serde_json::to_string_pretty(what)?;
    fs::write(file, text + "\n").with_context(|| format!("{} cannot be written", file.display()))
}
