//! The caches that are tortured.

use super::files::FILE_PAGES;
use entresol_core::{Cache as Flash, Mode, Placement, PolicyKind};
use entresol_format::PageFormat;
use std::fmt;

/// A policy in a mode, and whose pages it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// The policy. `None`: SCE's fragments.
    pub policy: Option<PolicyKind>,
    /// The mode.
    pub mode: Mode,
    /// Whose pages.
    pub page_format: PageFormat,
    /// Its pages are of objects, which are retired and cut.
    pub objects: bool,
    /// It is behind the block door, and so many of the client's pages are one of the cache's.
    pub door: Option<u64>,
}

/// What is special in a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It is flushed and forgets.
    Raw,
    /// Some pages go around it.
    Postgres,
    /// Pages die as a whole.
    Objects,
    /// It is behind the block door.
    Door,
    /// What is in its slots survives a crash; behind the door, too.
    Kept,
    /// What is in its slots survives a shutdown; behind the door, too.
    AtShutdown,
}

impl Cache {
    /// Whether this is special in it.
    pub fn is_of(&self, kind: Kind) -> bool {
        match kind {
            Kind::Objects => self.objects,
            Kind::Door => self.door.is_some(),
            Kind::Kept => self.keeps_slots(),
            Kind::AtShutdown => self.keeps_slots_at_shutdown(),
            _ if self.objects || self.door.is_some() || self.keeps_slots() => false,
            Kind::Raw => self.page_format == PageFormat::Raw,
            Kind::Postgres => self.page_format != PageFormat::Raw,
        }
    }

    pub(super) const fn raw(policy: PolicyKind, mode: Mode) -> Self {
        Self { policy: Some(policy), mode, page_format: PageFormat::Raw, objects: false, door: None }
    }

    const fn postgres(policy: PolicyKind, page_format: PageFormat) -> Self {
        Self { policy: Some(policy), mode: Mode::WriteBack, page_format, objects: false, door: None }
    }

    const fn fragments() -> Self {
        let mode = Flash::Fragments.usual_mode();
        Self { policy: None, mode, page_format: PageFormat::Raw, objects: false, door: None }
    }

    const fn of_objects(self) -> Self {
        Self { objects: true, ..self }
    }

    const fn behind_the_door(self, pages: u64) -> Self {
        Self { door: Some(pages), ..self }
    }

    /// The number of a page in its object, if it has one.
    pub(super) fn number(&self, page: u64) -> u64 {
        if self.objects { page % FILE_PAGES } else { page }
    }

    /// It learns which pages to keep out.
    pub(super) fn learns(&self) -> bool {
        let learns = |policy: PolicyKind| self.keeps_slots() && policy == PolicyKind::ReuseSlots;
        self.policy.is_some_and(|policy| policy.keeps_out() || learns(policy))
    }

    /// What is in its slots survives a shutdown, at least.
    pub(super) fn slots_survive(&self) -> bool {
        let may = |policy: PolicyKind| policy.may_keep_slots_in(self.mode);
        self.page_format == PageFormat::Raw && self.policy.is_some_and(may)
    }

    /// What is in its slots survives a crash.
    pub fn keeps_slots(&self) -> bool {
        self.slots_survive() && self.mode == Mode::WriteBack
    }

    /// What is in its slots survives a shutdown, and no crash.
    pub fn keeps_slots_at_shutdown(&self) -> bool {
        self.slots_survive() && self.mode != Mode::WriteBack
    }

    /// Pages that it has read from disk may enter whatever they are.
    pub(super) fn populates(&self) -> bool {
        self.policy.is_none_or(|policy| policy.populates())
    }

    /// Its directory is in a log on flash, and survives.
    pub fn is_log(&self) -> bool {
        self.policy.is_some_and(|policy| policy.placement() == Placement::Log)
    }

    /// The modes that it may be opened in.
    pub(super) fn modes(&self) -> &[Mode] {
        match self.page_format == PageFormat::Raw && self.is_log() {
            true => &[Mode::WriteBack, Mode::WriteThrough],
            false if self.keeps_slots_at_shutdown() => &[Mode::WriteThrough, Mode::WriteAround],
            false => std::slice::from_ref(&self.mode),
        }
    }

    /// Slots on flash, and how many are a group. Behind the door pages are larger and fewer.
    pub(super) fn slots(&self) -> (u32, u32) {
        if self.door.is_some() { (48, 2) } else { (80, 4) }
    }

    /// Bytes of a page of the cache.
    pub(super) fn tier_page_bytes(&self) -> u32 {
        (self.page_bytes() as u64 * self.door.unwrap_or(1)) as u32
    }

    /// Bytes of a page of the client.
    pub(super) fn page_bytes(&self) -> usize {
        self.page_format.page_bytes().unwrap_or(4096)
    }
}

impl fmt::Display for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let objects = if self.objects { " objects" } else { "" };
        let door = self.door.map_or(String::new(), |pages| format!(" behind the door, {pages} pages in one"));
        let name = self.policy.map_or(Flash::Fragments, Flash::Policy).name();
        write!(f, "{name} {} {}{objects}{door}", self.mode.name(), self.page_format.name())
    }
}

/// The log policies, in which pages of others survive a crash, and policies with slots. PostgreSQL's
/// pages only where its log is not needed to repeat what the disk has not.
pub const CACHES: [Cache; 43] = [
    Cache::raw(PolicyKind::Face, Mode::WriteBack),
    Cache::raw(PolicyKind::FaceGr, Mode::WriteBack),
    Cache::raw(PolicyKind::FaceGsc, Mode::WriteBack),
    Cache::raw(PolicyKind::Face, Mode::WriteThrough),
    Cache::raw(PolicyKind::FaceGr, Mode::WriteThrough),
    Cache::raw(PolicyKind::FaceGsc, Mode::WriteThrough),
    Cache::raw(PolicyKind::Lru, Mode::WriteThrough),
    Cache::raw(PolicyKind::Flashcache, Mode::WriteAround),
    Cache::raw(PolicyKind::ReuseSlots, Mode::WriteThrough),
    Cache::raw(PolicyKind::Tac, Mode::WriteThrough),
    Cache::postgres(PolicyKind::Face, PageFormat::PostgresChecksums),
    Cache::postgres(PolicyKind::FaceGr, PageFormat::Postgres),
    Cache::postgres(PolicyKind::FaceGsc, PageFormat::PostgresChecksums),
    Cache::raw(PolicyKind::Face, Mode::WriteBack).of_objects(),
    Cache::raw(PolicyKind::FaceGsc, Mode::WriteBack).of_objects(),
    Cache::raw(PolicyKind::FaceGr, Mode::WriteThrough).of_objects(),
    Cache::postgres(PolicyKind::FaceGsc, PageFormat::Postgres).of_objects(),
    Cache::raw(PolicyKind::Reuse, Mode::WriteBack),
    Cache::raw(PolicyKind::Reuse, Mode::WriteThrough),
    Cache::postgres(PolicyKind::Reuse, PageFormat::Postgres),
    Cache::raw(PolicyKind::Reuse, Mode::WriteBack).of_objects(),
    Cache::postgres(PolicyKind::Reuse, PageFormat::PostgresChecksums).of_objects(),
    Cache::raw(PolicyKind::FaceGsc, Mode::WriteBack).behind_the_door(2),
    Cache::raw(PolicyKind::FaceGsc, Mode::WriteThrough).behind_the_door(4),
    Cache::raw(PolicyKind::Face, Mode::WriteBack).behind_the_door(4),
    Cache::raw(PolicyKind::FaceGr, Mode::WriteThrough).behind_the_door(2),
    Cache::raw(PolicyKind::Reuse, Mode::WriteBack).behind_the_door(2),
    Cache::raw(PolicyKind::Reuse, Mode::WriteThrough).behind_the_door(4),
    Cache::raw(PolicyKind::ReuseSlots, Mode::WriteThrough).behind_the_door(2),
    Cache::raw(PolicyKind::Lru, Mode::WriteThrough).behind_the_door(2),
    Cache::raw(PolicyKind::Flashcache, Mode::WriteAround).behind_the_door(2),
    Cache::raw(PolicyKind::Tac, Mode::WriteThrough).behind_the_door(2),
    Cache::raw(PolicyKind::ReuseSlots, Mode::WriteThrough).behind_the_door(4),
    Cache::raw(PolicyKind::Lc, Mode::WriteBack),
    Cache::raw(PolicyKind::ReuseSlots, Mode::WriteBack),
    Cache::raw(PolicyKind::S3Fifo, Mode::WriteBack),
    Cache::raw(PolicyKind::Clock, Mode::WriteBack),
    Cache::raw(PolicyKind::Lc, Mode::WriteBack).behind_the_door(2),
    Cache::raw(PolicyKind::ReuseSlots, Mode::WriteBack).behind_the_door(2),
    Cache::raw(PolicyKind::S3Fifo, Mode::WriteBack).behind_the_door(4),
    Cache::raw(PolicyKind::Lru, Mode::WriteBack).behind_the_door(2),
    Cache::fragments().behind_the_door(2),
    Cache::fragments().behind_the_door(4),
];
