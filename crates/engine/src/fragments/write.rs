//! Staged pages go to disk, and over their copies on flash where their fragments are mapped (SCE §3.2, figure 2: "write
//! requests invalidate page validity bitmaps and are passed to backing device"; §4.2: write-through if mapped).
//!
//! Invariant: while a page is being written it is not valid on flash, and it becomes valid only when both writes are done.

use super::shared::Shared;
use crate::TierError;
use crate::buffer::AlignedBuffer;
use crate::disk::{BATCH, Staged, WRITERS};
use crate::tier::flash_error;
use arrayvec::ArrayVec;
use entresol_core::{PageId, WritePath};
use entresol_device::Io;
use entresol_format::page;

/// Writes of one fragment that the core can count.
const WRITES_COUNTED: usize = 255;
const _: () = assert!(WRITERS * BATCH <= WRITES_COUNTED, "no write waits for another of its fragment");

type Paths = ArrayVec<(PageId, WritePath), BATCH>;

impl Shared {
    pub(super) fn write(&self, staged: &[Staged<'_>]) -> Result<(), TierError> {
        let paths: Paths = if self.is_running() {
            let known = staged.iter().map(|staged| staged.page).filter(|page| self.has_place(*page));
            self.with(|cache| known.map(|page| (page, cache.write(page))).collect())
        } else {
            Paths::new()
        };
        self.behind.disk.write_all(staged)?;
        let on_flash = match self.write_through(staged, &paths) {
            Ok(()) => true,
            Err(error) => {
                self.switch_off(&error);
                false
            }
        };
        if !paths.is_empty() {
            self.step(|cache| paths.iter().for_each(|(page, path)| cache.write_done(*page, *path, on_flash)));
        }
        Ok(())
    }

    /// Writes those pages over their copies whose path leads there.
    fn write_through(&self, staged: &[Staged<'_>], paths: &Paths) -> Result<(), TierError> {
        let mut copies = ArrayVec::<(u64, AlignedBuffer), BATCH>::new();
        for (id, path) in paths {
            let WritePath::Through(copy) = path else { continue };
            let page =
                staged.iter().find(|staged| staged.page == *id).expect("it is one of the staged pages");
            let mut buffer = self.buffers.take();
            buffer.copy_from_slice(page.bytes);
            page::seal(&mut buffer, *id, self.stamp(*copy));
            copies.push((self.offset(*copy), buffer));
        }
        if copies.is_empty() {
            return Ok(());
        }
        let mut ios = ArrayVec::<Io<'_>, BATCH>::new();
        ios.extend(copies.iter().map(|(offset, data)| Io::Write { offset: *offset, data }));
        let result = self.flash.run(&mut ios).map_err(flash_error);
        drop(ios);
        self.behind.tallies.flash_writes.add(copies.len());
        copies.into_iter().for_each(|(_, buffer)| self.buffers.give_back(buffer));
        result
    }
}
