//! Reads and writes of adjacent pages past the flash, for an owner who knows that the cache would not pay: a
//! long stream, or a flash device that is slower than the disk.
//!
//! Invariants:
//!
//! - A read serves no older version than the cache had when it began. Pages that the disk lacks, or may lack
//!   after a crash, come from the cache.
//! - A write leaves no older version on flash, not even one for a crash to find. A page that is dirty in the
//!   cache is written there: of its version on flash there is no other copy.

use super::back::Back;
use crate::api::{Served, Victim};
use crate::front::Found;
use crate::{Source, TierError};
use entresol_core::{Lsn, PageId, mutant};

impl Back {
    /// As [`Back::read_pages`]; one request to the disk reads all pages, if that may be, and nothing enters
    /// the cache.
    pub(crate) fn read_around(&self, first: PageId, buffer: &mut [u8]) -> Result<Served, TierError> {
        self.check_run(buffer)?;
        if buffer.is_empty() || !self.front.check_running()? {
            return self.read_pages(first, buffer, false);
        }
        let page_bytes = self.front.page_bytes();
        let pages = (buffer.len() / page_bytes) as u64;
        let newer = self.newer_than_disk(first, pages)?;
        let ids = || (first.0..first.0 + pages).map(PageId);
        let is_read = (newer.len() as u64) < pages
            && self.disk.read_run(first, buffer).is_ok()
            && self.disk.prove_kept(ids()).is_ok();
        if !is_read {
            // One by one, so that an error names its page.
            return self.read_pages(first, buffer, false);
        }
        let mut served = Served { disk: pages - newer.len() as u64, ..Served::default() };
        self.front.tallies().disk_reads.add(served.disk as usize);
        // After the disk: a page that leaves the cache meanwhile is on disk by then.
        for page in newer {
            let bytes = &mut buffer[(page.0 - first.0) as usize * page_bytes..][..page_bytes];
            let source = match self.look_up(page, bytes)? {
                Found::Here(fetched) => fetched.source,
                Found::OnDisk(_) => {
                    self.disk.read(page, bytes)?;
                    self.front.tallies().disk_reads.add(1);
                    Source::Disk
                }
                // A second look, which deals with it.
                Found::Damaged { .. } => self.fetch(page, bytes)?.source,
            };
            served.count(source);
        }
        Ok(served)
    }

    /// Which of these pages the disk lacks, or may lack after a crash.
    fn newer_than_disk(&self, first: PageId, pages: u64) -> Result<Vec<PageId>, TierError> {
        let is_unsure_possible = self.is_log() && self.front.options.disk_may_lack();
        let sure = is_unsure_possible.then(|| self.superblocks.sure());
        let mut newer = Vec::new();
        for page in (first.0..first.0 + pages).map(PageId) {
            // After the look at the cache: a page that has left it, and is on its way to disk.
            let is_newer = self.front.may_be_newer(page, sure)?
                || self.through.as_ref().is_some_and(|through| through.shows(page));
            if is_newer && !mutant!("read-past-dirty-pages") {
                newer.push(page);
            }
        }
        Ok(newer)
    }

    /// As [`Back::write_pages`]; pages of which the cache has no dirty copy go to disk alone, adjacent ones
    /// in one request. Returns how many did. The caller sees to it that nobody else writes them meanwhile.
    pub(crate) fn write_around(&self, first: PageId, data: &[u8]) -> Result<u64, TierError> {
        self.check_run(data)?;
        if self.through.is_none() || !self.front.check_running()? {
            return self.write_pages(first, data).map(|()| 0);
        }
        let page_bytes = self.front.page_bytes();
        let pages: Vec<(PageId, &[u8])> =
            (first.0..).map(PageId).zip(data.chunks_exact(page_bytes)).collect();
        pages.iter().try_for_each(|(page, bytes)| self.disk.check_victim(*page, bytes))?;
        let mut around = 0;
        let mut rest = &pages[..];
        while let Some((page, _)) = rest.first() {
            let stays = |page: PageId| {
                self.front.is_dirty(page).unwrap_or(true) && !mutant!("write-past-dirty-pages")
            };
            let in_cache = stays(*page);
            let alike = rest.iter().take_while(|(page, _)| stays(*page) == in_cache);
            let count = alike.take(super::runs::RUN_PAGES_MAX).count();
            let (run, later) = rest.split_at(count);
            if in_cache {
                for (page, bytes) in run {
                    self.evict(Victim { page: *page, lsn: Lsn(0), dirty: true, fdirty: true }, bytes)?;
                }
            } else {
                let at = (run[0].0.0 - first.0) as usize * page_bytes;
                self.write_run_around(run, &data[at..at + run.len() * page_bytes])?;
                around += run.len() as u64;
            }
            rest = later;
        }
        Ok(around)
    }
}
