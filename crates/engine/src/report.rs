//! The report of an open: what was found, what it cost, and notices for the owner.

use std::time::Duration;

/// The findings of an open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// The cache was recovered with pages in it.
    pub warm: bool,
    /// Pages in it that are the newest version on flash.
    pub entries: u64,
    /// Dirty pages among these.
    pub dirty: u64,
    /// Directory segments read.
    pub segments_read: u64,
    /// Group summaries read.
    pub summaries_read: u64,
    /// Pages whose content was read, because the write of their group may not have been complete.
    pub pages_verified: u64,
    /// Groups, or pages of an unfinished group, whose write was not complete. They count as never written.
    pub torn: u64,
    /// Bytes read from flash.
    pub bytes_read: u64,
    /// Time taken.
    pub duration: Duration,
    /// Messages for the owner, in sentences.
    pub notices: Vec<String>,
}

impl OpenReport {
    /// The directory that was read is not used.
    pub(crate) fn forget_directory(&mut self) {
        let notices = std::mem::take(&mut self.notices);
        *self = Self { notices, bytes_read: self.bytes_read, ..Self::default() };
    }
}
