//! Writes pages from flash to disk, counts them, and tells the buffer pool.

use super::above::Above;
use super::disk_trouble::DiskTrouble;
use crate::TierError;
use crate::TierOptions;
use crate::access::{Access, BoardRef};
use crate::disk::DiskPages;
use crate::to_disk::{Destages, write_sorted};
use arrayvec::ArrayVec;
use entresol_core::{GROUP_PAGES_MAX, Lsn, PageId};
use entresol_runtime::sync::{Rank, TinyMutex};
use std::sync::Arc;

/// Pages that the disk refuses, each with its error.
pub(crate) type Refused<'a> = ArrayVec<((PageId, &'a [u8]), TierError), GROUP_PAGES_MAX>;

/// Places of the table of the last destages.
const PLACES: usize = 4096;

/// See the module's header.
pub(crate) struct Destager {
    options: Arc<TierOptions>,
    board: BoardRef,
    disk: Arc<DiskPages>,
    trouble: Arc<DiskTrouble>,
    upstream: Arc<Above>,
    /// The versions that were destaged last, to count destages of a version that the disk already had: a
    /// frame's `dirty` may outlive the destage of its flash copy. Indexed by page; so the count is a lower
    /// bound.
    last: TinyMutex<Vec<(PageId, Lsn)>>,
}

impl Destager {
    pub(crate) fn new(
        access: &Arc<Access>,
        disk: &Arc<DiskPages>,
        trouble: &Arc<DiskTrouble>,
        upstream: &Arc<Above>,
    ) -> Self {
        let last = TinyMutex::new(Rank::Destaged, vec![(PageId(u64::MAX), Lsn(0)); PLACES]);
        Self {
            options: access.options.clone(),
            board: access.board.clone(),
            disk: disk.clone(),
            trouble: trouble.clone(),
            upstream: upstream.clone(),
            last,
        }
    }

    /// Writes pages to disk as one batch. Not synced.
    pub(crate) fn destage(&self, pages: &mut Destages<'_>) -> Result<(), TierError> {
        write_sorted(&self.disk, pages)?;
        self.trouble.took(pages.iter().map(|(page, _)| *page));
        self.board.tallies.disk_writes.add(pages.len());
        Ok(())
    }

    /// As [`Destager::destage`]. If the disk refuses the batch, and that is to be tried again, each page is
    /// written by itself: `pages` are those that it took then, and the others are returned, with the error of
    /// each.
    pub(crate) fn destage_some<'a>(&self, pages: &mut Destages<'a>) -> Result<Refused<'a>, TierError> {
        let mut refused = Refused::new();
        match self.destage(pages) {
            Err(error) if self.trouble.is_tried_again(&error) => {}
            destaged => return destaged.map(|()| refused),
        }
        let mut failed = Ok(());
        pages.retain(|page| match self.destage(&mut Destages::from_iter([*page])) {
            Ok(()) => true,
            Err(error) if self.trouble.is_tried_again(&error) => {
                refused.push((*page, error));
                false
            }
            Err(error) => {
                failed = Err(error);
                false
            }
        });
        failed.map(|()| refused)
    }

    /// As [`Destager::destage_some`], again and again until the disk has taken all pages, or the rest is to
    /// be kept on flash and `may_keep` allows that: these are returned. `None`: the tier ends meanwhile.
    pub(crate) fn destage_or_keep<'a>(
        &self,
        pages: &mut Destages<'a>,
        may_keep: impl Fn() -> Result<bool, TierError>,
    ) -> Result<Option<Destages<'a>>, TierError> {
        let mut refused = self.destage_some(pages)?;
        let Some((_, error)) = refused.first() else { return Ok(Some(Destages::new())) };
        let mut retry = self.trouble.retry(error);
        while !(retry.keeps(refused.iter().map(|((page, _), _)| *page)) && may_keep()?) {
            if !retry.pause() {
                return Ok(None);
            }
            let mut again: Destages<'_> = refused.drain(..).map(|(page, _)| page).collect();
            refused = self.destage_some(&mut again)?;
            pages.extend(again);
            match refused.last() {
                Some((_, error)) => retry.refused(error.clone()),
                None => break,
            }
        }
        Ok(Some(refused.into_iter().map(|(page, _)| page).collect()))
    }

    /// Tells the buffer pool that the disk has these versions.
    pub(crate) fn tell(&self, pages: &[(PageId, &[u8])]) {
        let upstream = self.upstream.get();
        for (id, data) in pages.iter().copied() {
            let lsn = self.options.page_format.lsn(data);
            if self.repeats(id, lsn) {
                self.board.tallies.redundant_destages.add(1);
            }
            if let Some(upstream) = &upstream {
                upstream.destaged(id, lsn);
            }
        }
    }

    /// Remembers a destage; says whether it was the last one of that page, too.
    fn repeats(&self, page: PageId, lsn: Lsn) -> bool {
        let place = (page.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize;
        let newest = &mut self.last.lock()[place];
        let repeated = *newest == (page, lsn);
        *newest = (page, lsn);
        repeated
    }
}
