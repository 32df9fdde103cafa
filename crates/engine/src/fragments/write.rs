//! Staged pages are written to disk, and over their copies on flash if their fragments are mapped (SCE §3.2,
//! figure 2: "write requests invalidate page validity bitmaps and are passed to backing device"; §4.2:
//! write-through if mapped).
//!
//! Invariant: while a page is being written it is not valid on flash. It becomes valid only when both writes
//! are done.

use super::points;
use super::shared::{Locked, Shared, WRITES_COUNTED};
use super::versions::StampedCopy;
use crate::TierError;
use crate::buffer::AlignedBuffer;
use crate::disk::{BATCH, Staged, WRITERS};
use crate::error::flash_error;
use arrayvec::ArrayVec;
use entresol_core::{PageId, WritePath};
use entresol_device::Io;

/// Most pages that are written at once: [`BATCH`] of those that were staged.
pub(super) const PAGES_MAX: usize = 64;
const _: () = assert!(
    WRITERS * BATCH <= WRITES_COUNTED && BATCH <= PAGES_MAX,
    "no write waits for another of its fragment"
);

/// The path of a page of a batch and, for a write-through, the expected version of its copy.
struct Path {
    page: PageId,
    path: WritePath,
    copy: Option<StampedCopy>,
}

type Paths = ArrayVec<Path, PAGES_MAX>;

impl Shared {
    pub(super) fn write(&self, staged: &[Staged<'_>]) -> Result<(), TierError> {
        let mut paths: Paths = if self.is_running() {
            let known = staged.iter().map(|staged| staged.page).filter(|page| self.has_place(*page));
            self.with(|state| known.map(|page| state.begin_write(page)).collect())
        } else {
            points::OFF_WRITE.reach();
            Paths::new()
        };
        let on_disk =
            self.behind.disk.write_all::<PAGES_MAX>(staged.iter().map(|staged| (staged.page, staged.bytes)));
        let mut on_flash = on_disk.is_ok();
        if on_flash {
            let written = self.write_through(staged, &mut paths);
            on_flash = written.is_ok();
            if let Err(error) = written {
                points::WRITE_THROUGH_FAILED.reach();
                self.switch_off(&error);
            }
        }
        if !paths.is_empty() {
            self.step(|state| {
                for Path { page, path, copy } in &paths {
                    if let Some(copy) = copy {
                        state.versions.prove(copy.slot, copy.proof);
                    }
                    state.cache.write_done(*page, *path, on_flash);
                }
            });
        }
        on_disk
    }

    /// Writes the pages with a write-through path over their copies.
    fn write_through(&self, staged: &[Staged<'_>], paths: &mut Paths) -> Result<(), TierError> {
        let mut copies = ArrayVec::<(u64, AlignedBuffer), PAGES_MAX>::new();
        for Path { page, copy, .. } in paths {
            let Some(copy) = copy else { continue };
            let staged =
                staged.iter().find(|staged| staged.page == *page).expect("it is one of the staged pages");
            let mut buffer = self.buffers.take(staged.bytes.len());
            buffer.copy_from_slice(staged.bytes);
            copy.proof = self.options.page_format.seal(&mut buffer, *page, copy.stamp);
            copies.push((self.offset(copy.slot), buffer));
        }
        if copies.is_empty() {
            return Ok(());
        }
        let mut ios = ArrayVec::<Io<'_>, PAGES_MAX>::new();
        ios.extend(copies.iter().map(|(offset, data)| Io::Write { offset: *offset, data }));
        let result = self.flash.run(&mut ios).map_err(flash_error);
        drop(ios);
        self.behind.tallies.flash_writes.add(copies.len());
        copies.into_iter().for_each(|(_, buffer)| self.buffers.give_back(buffer));
        result
    }
}

impl Locked<'_> {
    /// As [`Fragments::write`](entresol_core::Fragments::write). A write-through is counted.
    fn begin_write(&mut self, page: PageId) -> Path {
        let path = self.cache.write(page);
        let copy = match path {
            WritePath::Through(copy) => Some(self.versions.begin_write(copy)),
            WritePath::Around | WritePath::Wait => None,
        };
        Path { page, path, copy }
    }
}
