//! The caches that are tortured.

use entresol_core::{Mode, PolicyKind};
use entresol_format::PageFormat;
use std::fmt;

/// A policy in a mode, and whose pages it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// The policy.
    pub policy: PolicyKind,
    /// The mode.
    pub mode: Mode,
    /// Whose pages.
    pub page_format: PageFormat,
}

impl Cache {
    pub(super) const fn raw(policy: PolicyKind, mode: Mode) -> Self {
        Self { policy, mode, page_format: PageFormat::Raw }
    }

    const fn postgres(policy: PolicyKind, page_format: PageFormat) -> Self {
        Self { policy, mode: Mode::WriteBack, page_format }
    }

    /// Bytes of a page.
    pub(super) fn page_bytes(&self) -> usize {
        self.page_format.page_bytes().unwrap_or(4096)
    }
}

impl fmt::Display for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.policy.name(), self.mode.name(), self.page_format.name())
    }
}

/// The log policies, in which pages of others survive a crash, and policies that open cold. PostgreSQL's
/// pages only where its log is not needed to repeat what the disk has not.
pub const CACHES: [Cache; 11] = [
    Cache::raw(PolicyKind::Face, Mode::WriteBack),
    Cache::raw(PolicyKind::FaceGr, Mode::WriteBack),
    Cache::raw(PolicyKind::FaceGsc, Mode::WriteBack),
    Cache::raw(PolicyKind::Face, Mode::WriteThrough),
    Cache::raw(PolicyKind::FaceGr, Mode::WriteThrough),
    Cache::raw(PolicyKind::FaceGsc, Mode::WriteThrough),
    Cache::raw(PolicyKind::Lru, Mode::WriteThrough),
    Cache::raw(PolicyKind::Flashcache, Mode::WriteAround),
    Cache::postgres(PolicyKind::Face, PageFormat::PostgresChecksums),
    Cache::postgres(PolicyKind::FaceGr, PageFormat::Postgres),
    Cache::postgres(PolicyKind::FaceGsc, PageFormat::PostgresChecksums),
];
