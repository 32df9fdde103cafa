//! Reads and writes of a part of a page.
//!
//! A page of which the disk cannot read a sector is in no cache. Then the part alone is read or written, so
//! that an unreadable sector is an error of those requests only that need it, and can be written again: a
//! power failure makes some in the writes that it cuts off.

use super::{Piece, Volume, VolumeError};
use entresol_core::PageId;
use entresol_engine::{PageCache, TierError};
use std::cell::Cell;

impl Volume {
    pub(super) fn read_part(
        &self,
        tier: &dyn PageCache,
        piece: &Piece,
        bytes: &mut [u8],
    ) -> Result<(), VolumeError> {
        self.with_page(|page| {
            match self.read_whole(tier, PageId(piece.page), page, false) {
                Ok(()) => bytes.copy_from_slice(&page[piece.within..][..bytes.len()]),
                Err(TierError::Unreadable { .. }) => self.direct.read(self.offset_of(piece), bytes)?,
                Err(error) => return Err(error.into()),
            }
            Ok(())
        })
    }

    /// With memory for a page, whose bytes are arbitrary.
    fn with_page<T>(&self, act: impl FnOnce(&mut [u8]) -> T) -> T {
        let mut page = self.pages.take(self.page_bytes as usize);
        let done = act(&mut page);
        self.pages.give_back(page);
        done
    }

    /// With the page held.
    pub(super) fn write_part(
        &self,
        tier: &dyn PageCache,
        piece: &Piece,
        bytes: &[u8],
    ) -> Result<(), VolumeError> {
        self.with_page(|page| self.write_part_within(tier, piece, bytes, page))
    }

    /// `page` is memory for the whole page.
    fn write_part_within(
        &self,
        tier: &dyn PageCache,
        piece: &Piece,
        bytes: &[u8],
        page: &mut [u8],
    ) -> Result<(), VolumeError> {
        let id = PageId(piece.page);
        match tier.fetch(id, page) {
            Err(TierError::Unreadable { .. }) => {
                // No older copy is found after a crash, and no read that began before enters the cache.
                tier.forget(id, id)?;
                tier.flush()?;
                let written = self.direct.write(self.offset_of(piece), bytes);
                // The cache does not know of this write, and may be given the page by the next reader. Also
                // after a failure: the disk may have carried it out.
                self.direct.flush(Some(tier))?;
                tier.forget(id, id)?;
                written?;
            }
            Err(error) => return Err(error.into()),
            Ok(_) => {
                page[piece.within..][..bytes.len()].copy_from_slice(bytes);
                tier.write_pages(id, page)?;
            }
        }
        Ok(())
    }

    /// As [`Volume::write_part`], but past the flash: the bytes alone are written to disk, so that a power
    /// failure harms no others of the page. False: the page is newer in the cache, or lost, and is written as
    /// usual.
    pub(super) fn write_part_around(
        &self,
        tier: &dyn PageCache,
        piece: &Piece,
        bytes: &[u8],
    ) -> Result<bool, VolumeError> {
        let (pages, id) = (piece.page..piece.page + 1, PageId(piece.page));
        let stays = Cell::new(!tier.lost_among(id, id)?.is_empty());
        if !stays.get() {
            let around = self.keeping_out(tier, &pages, || {
                let write = |_| self.direct.write(self.offset_of(piece), bytes);
                stays.set(!self.without_copies(tier, &pages, write)?.is_empty());
                Ok(())
            });
            // The disk refuses it: the flash may have room.
            stays.set(stays.get() || around.is_err());
        }
        if stays.get() {
            self.write_part(tier, piece, bytes)?;
        }
        Ok(!stays.get())
    }

    fn offset_of(&self, piece: &Piece) -> u64 {
        piece.page * self.page_bytes + piece.within as u64
    }
}
