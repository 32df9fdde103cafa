//! The report of a check.

use thiserror::Error;

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{what}: expected {expected}, found {found}")]
pub struct Violation {
    /// The invariant, and where it is broken.
    pub what: String,
    /// The expected value.
    pub expected: String,
    /// The value found.
    pub found: String,
}

/// Compares two values that must be equal. `what` is formatted only if they differ.
pub(crate) fn same<T: PartialEq + std::fmt::Debug, W: std::fmt::Display>(
    what: impl FnOnce() -> W,
    expected: T,
    found: T,
) -> Result<(), Violation> {
    if expected == found {
        return Ok(());
    }
    let what = what().to_string();
    Err(Violation { what, expected: format!("{expected:?}"), found: format!("{found:?}") })
}
