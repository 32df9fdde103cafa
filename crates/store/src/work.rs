//! What one client's operations work with.

/// Buffers and counts of one client's operations.
#[derive(Default)]
pub(crate) struct Work {
    /// Log record under construction.
    pub(crate) record: Vec<u8>,
    /// Page accesses so far.
    pub(crate) fixes: u64,
}
