//! What a check reports.

use thiserror::Error;

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{what}: expected {expected}, found {found}")]
pub struct Violation {
    /// Which one, and where.
    pub what: String,
    /// What should hold.
    pub expected: String,
    /// What does.
    pub found: String,
}

/// Two values that must be equal. `what` is only made into words if they are not.
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
