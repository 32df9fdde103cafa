//! The findings of a check, and how they are told.

use entresol_runtime::say::thousands;
use std::fmt;

/// The findings of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Broken invariants, in sentences.
    pub faults: Vec<String>,
    /// Notable findings that are allowed, e.g. after a crash.
    pub notices: Vec<String>,
    /// Groups whose summaries were compared.
    pub groups: u64,
    /// Segments that were compared with the summaries.
    pub segments: u64,
    /// Pages on flash that were read.
    pub pages: u64,
    /// Pages on disk that were compared.
    pub disk_pages: u64,
    /// Pages whose newest version on flash is marked dirty and yet is older than the disk's. This is not a
    /// fault if the cache was not shut down. An interrupted restart of the database leaves such pages,
    /// because it rebuilds pages from older images in the log; the next restart continues from there. Without
    /// such a restart it is a fault.
    pub older_than_disk: u64,
}

impl CheckReport {
    /// No invariant is broken.
    pub fn is_sound(&self) -> bool {
        self.faults.is_empty()
    }

    pub(super) fn fault(&mut self, sentence: String) {
        self.faults.push(sentence);
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { groups, segments, pages, disk_pages, older_than_disk, .. } = self;
        let [groups, segments, pages, disk_pages] = [groups, segments, pages, disk_pages].map(thousands);
        writeln!(
            f,
            "checked {groups} groups, {segments} segments, {pages} pages on flash, {disk_pages} pages on disk"
        )?;
        if *older_than_disk > 0 {
            writeln!(
                f,
                "notice: {} pages are older than disk's, as a restart leaves them that was cut off while it \
                 rebuilt pages; restart the database",
                thousands(older_than_disk)
            )?;
        }
        self.notices.iter().try_for_each(|notice| writeln!(f, "notice: {notice}"))?;
        self.faults.iter().try_for_each(|fault| writeln!(f, "fault: {fault}"))?;
        writeln!(f, "{}", if self.is_sound() { "sound" } else { "NOT sound" })
    }
}
