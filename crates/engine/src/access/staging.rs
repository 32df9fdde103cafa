//! Staging memory: one buffer for each group, with room for its summaries and its pages as they are on flash,
//! so that all is one write.
//!
//! Invariants: a frame is filled only between the core's `evict` (or `restage`) and `staged`. A fetch proves
//! by page and position, under the group's lock, that the frame holds the wanted version. A group's lock is
//! held across an I/O only when all its frames are complete, so no evictor waits for it.
//!
//! Where processes share the cache, the frames are in their segment ([`super::frames`]), and the back has
//! buffers for copies of them: what is written are the copies, after they were proved.

use super::content::{Content, NOBODY};
use super::frames::SharedFrames;
use crate::buffer::AlignedBuffer;
use crate::{TierError, TierOptions};
use entresol_core::{Forgotten, FrameId, PageId, Position, WritePage};
use entresol_format::summary::{self, Entry};
use entresol_format::{BLOCK_BYTES, PageFormat, StoredBase};
use entresol_runtime::sync::{Rank, RwLock, RwLockReadGuard, RwLockWriteGuard};
use entresol_shm::Gone;

/// A group of frames.
pub(crate) struct GroupBuffer {
    bytes: AlignedBuffer,
    contents: Vec<Content>,
    page_bytes: usize,
    /// Bytes before the pages.
    before: usize,
    /// What was flushed of the group that is in the buffer.
    flushed: Flushed,
}

/// The flushes of a group so far.
#[derive(Clone, Copy, Default)]
struct Flushed {
    /// The group.
    number: u64,
    /// Bit `i`: a part ends with entry `i`.
    ends: u128,
    /// Summaries written.
    summaries: u64,
}

/// A summary to be composed.
pub(crate) struct Composition<'a> {
    /// What it says besides its entries; without the ends of parts.
    pub head: summary::Head,
    /// First position of the group.
    pub first: Position,
    /// Which pages of the group are in staging and not forgotten.
    pub present: u128,
    /// Records of forgotten pages.
    pub stale: &'a [Forgotten],
    /// By place: the bases of dirty pages; empty if none are kept.
    pub bases: &'a [Option<StoredBase>],
}

impl GroupBuffer {
    fn range(&self, at: usize) -> std::ops::Range<usize> {
        self.before + at * self.page_bytes..self.before + (at + 1) * self.page_bytes
    }

    /// The page in frame `at` of the group.
    pub(crate) fn page(&self, at: usize) -> &[u8] {
        &self.bytes[self.range(at)]
    }

    /// The pages in these frames of the group.
    pub(crate) fn pages(&self, at: std::ops::Range<usize>) -> &[u8] {
        &self.bytes[self.before + at.start * self.page_bytes..self.before + at.end * self.page_bytes]
    }

    /// Pages and summaries, as they are on flash.
    pub(crate) fn all(&self) -> &[u8] {
        &self.bytes
    }

    /// Writes the summary of a group of which the head's `written` pages are or are being written into the
    /// buffer, into both copies. Returns the copy that is to be written, if not both are.
    pub(crate) fn compose(&mut self, what: &Composition<'_>) -> u64 {
        let number = what.head.group;
        if self.flushed.number != number {
            self.flushed = Flushed { number, ..Flushed::default() };
        }
        if let Some(last) = what.head.written.checked_sub(1) {
            self.flushed.ends |= 1 << last;
        }
        let revision = self.flushed.summaries;
        self.flushed.summaries += 1;
        let head = summary::Head { ends: self.flushed.ends, revision, ..what.head };
        let (first, present, written) = (what.first.0, what.present, what.head.written as usize);
        let entries = self.contents.iter().enumerate().map(|(at, content)| {
            let is_there = at < written && present >> at & 1 == 1 && content.position.0 == first + at as u64;
            is_there.then_some(Entry { base: what.bases.get(at).copied().flatten(), ..content.entry })
        });
        let after = self.before + self.contents.len() * self.page_bytes;
        summary::encode(&mut self.bytes[after..], &head, entries, what.stale);
        let (block, rest) = self.bytes.split_at_mut(self.before);
        block.copy_from_slice(&rest[after - self.before..][..self.before]);
        let alternates = self.before > 0 && what.head.written > 0;
        if alternates { revision % summary::COPIES } else { 0 }
    }

    /// The summary's block.
    pub(crate) fn summary_block(&self) -> &[u8] {
        &self.bytes[self.before + self.contents.len() * self.page_bytes..]
    }
}

/// A page to be copied into staging.
pub(crate) struct Incoming<'a> {
    pub page: PageId,
    pub dirty: bool,
    pub data: &'a [u8],
    pub position: Position,
    /// What to stamp into it.
    pub stamp: Position,
}

/// All groups of frames.
pub(crate) struct Staging {
    /// The frames. If they are shared, the back's copies of them; a front has none.
    groups: Vec<RwLock<GroupBuffer>>,
    shared: Option<SharedFrames>,
    group_pages: usize,
    page_format: PageFormat,
}

impl Staging {
    pub(crate) fn new(options: &TierOptions) -> Self {
        let (group_pages, page_bytes) = (options.group_pages as usize, options.page_bytes as usize);
        let before = (options.layout().summary_copies() as usize - 1) * BLOCK_BYTES;
        let buffer = || GroupBuffer {
            bytes: AlignedBuffer::new(before + group_pages * page_bytes + BLOCK_BYTES),
            contents: vec![Content { position: NOBODY, entry: Entry::default() }; group_pages],
            page_bytes,
            before,
            flushed: Flushed::default(),
        };
        let group = || RwLock::new(Rank::StagingBuffer, buffer());
        let groups = (0..options.staging_groups).map(|_| group()).collect();
        Self { groups, shared: None, group_pages, page_format: options.page_format }
    }

    /// Frames that processes share; `with_copies` for the back, which writes.
    pub(super) fn mapped(options: &TierOptions, shared: SharedFrames, with_copies: bool) -> Self {
        let own = match with_copies {
            true => Self::new(options),
            false => {
                let (group_pages, page_format) = (options.group_pages as usize, options.page_format);
                Self { groups: Vec::new(), shared: None, group_pages, page_format }
            }
        };
        Self { shared: Some(shared), ..own }
    }

    /// The frames that processes share, if they do.
    pub(crate) fn shared(&self) -> Option<&SharedFrames> {
        self.shared.as_ref()
    }

    /// Where processes share the frames: copies those of a write job, and proves that they are the pages
    /// which the directory means. `stamp` says what is stamped into the page at a position. Elsewhere the
    /// frames themselves are written.
    pub(crate) fn collect(
        &self,
        pages: &[WritePage],
        stamp: impl Fn(Position) -> Position,
    ) -> Result<(), TierError> {
        let Some(shared) = &self.shared else { return Ok(()) };
        for page in pages {
            // A batch of slots has pages of several groups.
            let mut copies = self.groups[self.place(page.frame).0].write();
            let (group, at) = shared.group(page.frame)?;
            let content = group.content(at);
            let range = copies.range(at);
            copies.bytes[range].copy_from_slice(group.page(at));
            drop(group);
            let entry = content.entry;
            let stamp = stamp(page.position);
            let proved = content.position == page.position
                && page.page.is_none_or(|id| id == entry.page)
                && self.page_format.verify(copies.page(at), entry.page, stamp, entry.checksum).is_ok();
            copies.contents[at] = match (proved, page.page) {
                (true, _) => content,
                (false, None) => Content { position: NOBODY, entry: Entry::default() },
                (false, Some(_)) => {
                    return Err(TierError::Gone("a page in the cache's shared memory was overwritten"));
                }
            };
        }
        Ok(())
    }

    fn place(&self, frame: FrameId) -> (usize, usize) {
        (frame.0 as usize / self.group_pages, frame.0 as usize % self.group_pages)
    }

    /// The group of `frame`, to read.
    pub(crate) fn group(&self, frame: FrameId) -> RwLockReadGuard<'_, GroupBuffer> {
        self.groups[self.place(frame).0].read()
    }

    /// The group of `frame`, to compose its summary.
    pub(crate) fn group_mut(&self, frame: FrameId) -> RwLockWriteGuard<'_, GroupBuffer> {
        self.groups[self.place(frame).0].write()
    }

    /// Copies a page into `frame` and seals it. Returns its checksum.
    pub(crate) fn copy_in(&self, frame: FrameId, incoming: &Incoming<'_>) -> Result<u32, Gone> {
        if let Some(shared) = &self.shared {
            let (mut group, at) = shared.group(frame)?;
            let content = self.fill(group.page_mut(at), incoming);
            group.set_content(at, &content);
            return Ok(content.entry.checksum);
        }
        let (group, at) = self.place(frame);
        let mut group = self.groups[group].write();
        let range = group.range(at);
        let content = self.fill(&mut group.bytes[range], incoming);
        group.contents[at] = content;
        Ok(content.entry.checksum)
    }

    fn fill(&self, bytes: &mut [u8], incoming: &Incoming<'_>) -> Content {
        let Incoming { page, dirty, data, position, stamp } = *incoming;
        #[cfg(feature = "hooks")]
        if self.shared.is_some() {
            bytes[..data.len() / 2].copy_from_slice(&data[..data.len() / 2]);
            crate::hooks::pass("group");
        }
        bytes.copy_from_slice(data);
        let checksum = self.page_format.seal(bytes, page, stamp);
        Content {
            position,
            entry: Entry { page, lsn: self.page_format.lsn(bytes), checksum, dirty, base: None },
        }
    }

    /// Copies the version of `id` at `position` out of `frame`, as its owner knows it. False if another one
    /// is there by now, or not yet.
    pub(crate) fn copy_out(
        &self,
        frame: FrameId,
        id: PageId,
        position: Position,
        buffer: &mut [u8],
    ) -> Result<bool, Gone> {
        let is_another = |content: &Content| content.entry.page != id || content.position != position;
        if let Some(shared) = &self.shared {
            let (group, at) = shared.group(frame)?;
            if is_another(&group.content(at)) {
                return Ok(false);
            }
            buffer.copy_from_slice(group.page(at));
            #[cfg(feature = "hooks")]
            crate::hooks::pass("copy");
        } else {
            let (group, at) = self.place(frame);
            let group = self.groups[group].read();
            if is_another(&group.contents[at]) {
                return Ok(false);
            }
            buffer.copy_from_slice(group.page(at));
        }
        self.page_format.unseal(buffer, id);
        Ok(true)
    }
}
