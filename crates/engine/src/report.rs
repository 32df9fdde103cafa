//! The report of an open: what was found, what it cost, and notices for the owner.

use std::time::Duration;

/// What an open found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// The cache came back with pages in it.
    pub warm: bool,
    /// Pages in it that are the newest version on flash.
    pub entries: u64,
    /// Of these, newer than disk.
    pub dirty: u64,
    /// Directory segments read.
    pub segments_read: u64,
    /// Group summaries read.
    pub summaries_read: u64,
    /// Pages whose content was read, because their group may have been in the middle of being written.
    pub pages_verified: u64,
    /// Groups, or pages of an unfinished group, that were not written completely and so count as never
    /// written.
    pub torn: u64,
    /// Bytes read from flash.
    pub bytes_read: u64,
    /// Time taken.
    pub duration: Duration,
    /// What the owner should know, in sentences.
    pub notices: Vec<String>,
}

impl OpenReport {
    /// What was read is not used.
    pub(crate) fn forget_directory(&mut self) {
        let notices = std::mem::take(&mut self.notices);
        *self = Self { notices, bytes_read: self.bytes_read, ..Self::default() };
    }
}
