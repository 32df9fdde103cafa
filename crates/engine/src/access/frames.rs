//! Staging frames in a segment that processes share: an area with a latch for each group.
//!
//! Invariants:
//!
//! - A page is copied in and out under its group's latch.
//! - The back writes nothing from here to flash. It copies pages out, proves them, and writes its own copies
//!   ([`super::Staging::collect`]). So a process that dies or scribbles cannot tear what is written.

use super::content::{Content, NOBODY};
use crate::TierOptions;
use entresol_core::{FrameId, Lsn, PageId, Position};
use entresol_format::summary::Entry;
use entresol_shm::{Areas, Gone, Guard, Guarded, Holder, PART_ALIGNMENT};
use zerocopy::IntoBytes;

/// Words of a [`Content`]: position, page, LSN, and the checksum with a bit for "dirty" above it.
const CONTENT_WORDS: usize = 4;
/// The bit of a dirty page.
const DIRTY: u64 = 1 << 32;
/// The bit of a frame that has had a page: words of zeros are those of none.
const FILLED: u64 = 1 << 33;

/// See the module's header.
pub(crate) struct SharedFrames {
    areas: Guarded,
    me: Holder,
    group_pages: usize,
    page_bytes: usize,
}

/// A group, with its latch.
pub(super) struct SharedGroup<'a> {
    words: Guard<'a>,
    page_bytes: usize,
    /// Words before the pages.
    before: usize,
}

/// The areas of a cache with these options.
pub(super) fn areas_of(options: &TierOptions) -> Areas {
    let pages = options.group_pages as usize;
    let words = pages * CONTENT_WORDS + pages * options.page_bytes as usize / size_of::<u64>();
    Areas { count: options.staging_groups as usize, words, alignment: PART_ALIGNMENT }
}

impl SharedFrames {
    pub(super) fn new(areas: Guarded, me: Holder, options: &TierOptions) -> Self {
        let (group_pages, page_bytes) = (options.group_pages as usize, options.page_bytes as usize);
        Self { areas, me, group_pages, page_bytes }
    }

    /// The group of `frame`, and the frame's place in it.
    pub(super) fn group(&self, frame: FrameId) -> Result<(SharedGroup<'_>, usize), Gone> {
        let (group, at) = (frame.0 as usize / self.group_pages, frame.0 as usize % self.group_pages);
        let words = self.areas.lock_area(group, self.me)?;
        let before = self.group_pages * CONTENT_WORDS;
        Ok((SharedGroup { words, page_bytes: self.page_bytes, before }, at))
    }

    /// Whether `holder` holds a group's latch.
    pub(crate) fn is_held_by(&self, holder: Holder) -> bool {
        self.areas.is_held_by(holder)
    }

    /// Gives all groups up.
    pub(crate) fn poison(&self) {
        self.areas.poison();
    }
}

impl SharedGroup<'_> {
    fn pages(&self, at: usize) -> std::ops::Range<usize> {
        let words = self.page_bytes / size_of::<u64>();
        self.before + at * words..self.before + (at + 1) * words
    }

    /// The page in frame `at`.
    pub(super) fn page(&self, at: usize) -> &[u8] {
        self.words[self.pages(at)].as_bytes()
    }

    /// The page in frame `at`, to be changed.
    pub(super) fn page_mut(&mut self, at: usize) -> &mut [u8] {
        let range = self.pages(at);
        self.words[range].as_mut_bytes()
    }

    /// What frame `at` holds.
    pub(super) fn content(&self, at: usize) -> Content {
        let words = &self.words[at * CONTENT_WORDS..][..CONTENT_WORDS];
        let (position, page, lsn, rest) = (words[0], words[1], words[2], words[3]);
        let position = if rest & FILLED == 0 { NOBODY } else { Position(position) };
        let (checksum, dirty) = (rest as u32, rest & DIRTY != 0);
        Content { position, entry: Entry { page: PageId(page), lsn: Lsn(lsn), checksum, dirty, base: None } }
    }

    pub(super) fn set_content(&mut self, at: usize, content: &Content) {
        let Content { position, entry } = content;
        let rest = u64::from(entry.checksum) | if entry.dirty { DIRTY } else { 0 } | FILLED;
        let words = [position.0, entry.page.0, entry.lsn.0, rest];
        self.words[at * CONTENT_WORDS..][..CONTENT_WORDS].copy_from_slice(&words);
    }
}
