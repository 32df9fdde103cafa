//! Staging memory: one buffer for each group, with room for its pages and its summary, so that both are one
//! write.
//!
//! Invariants: a frame is filled only between the core's `evict` (or `restage`) and `staged`. A fetch proves
//! by the stamp, under the group's lock, that the frame holds the wanted version. A group's lock is held
//! across an I/O only when all its frames are complete, so no evictor waits for it.

use crate::buffer::AlignedBuffer;
use entresol_core::{Config, FrameId, PageId, Position, mutant};
use entresol_format::summary::{self, Entry};
use entresol_format::{BLOCK_BYTES, page};
use entresol_runtime::sync::{Rank, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A stamp that no page has.
const NOBODY: Position = Position(u64::MAX);

/// What a frame holds, for the group's summary.
#[derive(Clone, Copy)]
struct Content {
    position: Position,
    entry: Entry,
}

/// A group of frames.
pub(crate) struct GroupBuffer {
    bytes: AlignedBuffer,
    contents: Vec<Content>,
    page_bytes: usize,
}

impl GroupBuffer {
    fn range(&self, at: usize) -> std::ops::Range<usize> {
        at * self.page_bytes..(at + 1) * self.page_bytes
    }

    /// The page in frame `at` of the group.
    pub(crate) fn page(&self, at: usize) -> &[u8] {
        &self.bytes[self.range(at)]
    }

    /// Pages and summary.
    pub(crate) fn all(&self) -> &[u8] {
        &self.bytes
    }

    /// Writes the summary of the group that starts at `first` into the buffer.
    pub(crate) fn compose(&mut self, first: Position, head: &summary::Head) {
        let pages = self.contents.len() * self.page_bytes;
        let entries = self.contents.iter().enumerate();
        let entries =
            entries.map(|(at, content)| (content.position.0 == first.0 + at as u64).then_some(content.entry));
        summary::encode(&mut self.bytes[pages..], head, entries, &[]);
    }

    /// The summary's block.
    pub(crate) fn summary_block(&self) -> &[u8] {
        &self.bytes[self.contents.len() * self.page_bytes..]
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
    groups: Vec<RwLock<GroupBuffer>>,
    group_pages: usize,
}

impl Staging {
    pub(crate) fn new(config: &Config, page_bytes: u32) -> Self {
        let (group_pages, page_bytes) = (config.group_pages as usize, page_bytes as usize);
        let buffer = || {
            let mut buffer = GroupBuffer {
                bytes: AlignedBuffer::new(group_pages * page_bytes + BLOCK_BYTES),
                contents: vec![Content { position: NOBODY, entry: Entry::default() }; group_pages],
                page_bytes,
            };
            for at in 0..group_pages {
                let range = buffer.range(at);
                page::header_mut(&mut buffer.bytes[range]).generation.set(NOBODY.0);
            }
            RwLock::new(Rank::StagingBuffer, buffer)
        };
        Self { groups: (0..config.staging_groups).map(|_| buffer()).collect(), group_pages }
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

    /// Copies a page into `frame` and seals it.
    pub(crate) fn copy_in(&self, frame: FrameId, incoming: &Incoming<'_>) {
        let (group, at) = self.place(frame);
        let mut group = self.groups[group].write();
        let range = group.range(at);
        let bytes = &mut group.bytes[range];
        bytes.copy_from_slice(incoming.data);
        page::seal(bytes, incoming.page, incoming.stamp);
        let head = page::header(bytes);
        let entry = Entry {
            page: incoming.page,
            lsn: page::lsn(bytes),
            checksum: head.checksum.get(),
            dirty: incoming.dirty,
        };
        group.contents[at] = Content { position: incoming.position, entry };
    }

    /// Copies the version of `id` with `stamp` out of `frame`. False if another one is there by now, or not
    /// yet.
    pub(crate) fn copy_out(&self, frame: FrameId, id: PageId, stamp: Position, buffer: &mut [u8]) -> bool {
        let (group, at) = self.place(frame);
        let group = self.groups[group].read();
        let bytes = group.page(at);
        let head = page::header(bytes);
        let another = head.page.get() != id.0 || head.generation.get() != stamp.0;
        if another && !mutant!("reused-frame-not-noticed") {
            return false;
        }
        buffer.copy_from_slice(bytes);
        true
    }
}
