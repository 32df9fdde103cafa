//! Reads and writes of adjacent pages, for an owner without a buffer pool: what a block device's client asks
//! for. Pages of a run share requests to the disk, and a flush where each page would make one.
//!
//! Invariant: each page is read and written as [`Layer::fetch`](crate::Layer::fetch) and
//! [`Layer::evict`](crate::Layer::evict) would, in any order.

use super::back::Back;
use crate::TierError;
use crate::api::{Served, Source, Victim};
use crate::front::{Found, ReadTicket};
use arrayvec::ArrayVec;
use entresol_core::{Lsn, Mode, PageId, mutant};
use entresol_format::PageFormat;

/// Most pages that share requests.
pub(super) const RUN_PAGES_MAX: usize = 64;

/// Adjacent pages that only the disk has: the place of the first one in the buffer, and their tickets.
struct Absent {
    at: usize,
    tickets: ArrayVec<ReadTicket, RUN_PAGES_MAX>,
    /// They are offered to the cache.
    populates: bool,
}

impl Back {
    /// Reads pages from `first` on. With `populates`, what only the disk had is offered to the cache.
    pub(crate) fn read_pages(
        &self,
        first: PageId,
        buffer: &mut [u8],
        populates: bool,
    ) -> Result<Served, TierError> {
        self.check_run(buffer)?;
        let some_bytes = RUN_PAGES_MAX * self.front.page_bytes();
        let mut served = Served::default();
        for (at, some) in buffer.chunks_mut(some_bytes).enumerate() {
            self.read_some(PageId(first.0 + (at * RUN_PAGES_MAX) as u64), some, populates, &mut served)?;
        }
        Ok(served)
    }

    fn read_some(
        &self,
        first: PageId,
        buffer: &mut [u8],
        populates: bool,
        served: &mut Served,
    ) -> Result<(), TierError> {
        let page_bytes = self.front.page_bytes();
        let mut absent = Absent { at: 0, tickets: ArrayVec::new(), populates };
        let (pages, mut next) = (buffer.len() / page_bytes, 0);
        while next < pages {
            let at = next;
            let fetched =
                self.front.fetch_run(PageId(first.0 + at as u64), &mut buffer[at * page_bytes..])?;
            next += fetched.max(1);
            if fetched > 0 {
                served.flash += fetched as u64;
                self.read_absent(first, &mut absent, buffer)?;
                continue;
            }
            let page = PageId(first.0 + at as u64);
            let bytes = &mut buffer[at * page_bytes..][..page_bytes];
            let ticket = match self.look_up(page, bytes)? {
                Found::OnDisk(ticket) => Some(ticket),
                Found::Here(fetched) => {
                    served.count(fetched.source);
                    None
                }
                // A second look, which deals with it.
                Found::Damaged { .. } => {
                    served.count(self.fetch(page, bytes)?.source);
                    None
                }
            };
            match ticket {
                Some(ticket) => {
                    if absent.tickets.is_empty() || mutant!("run-of-pages-misplaced") {
                        absent.at = at;
                    }
                    absent.tickets.push(ticket);
                    served.count(Source::Disk);
                }
                None => self.read_absent(first, &mut absent, buffer)?,
            }
        }
        self.read_absent(first, &mut absent, buffer)
    }

    /// Reads these pages from disk and offers them to the cache; none are left.
    fn read_absent(&self, first: PageId, absent: &mut Absent, buffer: &mut [u8]) -> Result<(), TierError> {
        let page_bytes = self.front.page_bytes();
        let tickets = std::mem::take(&mut absent.tickets);
        let pages = |count| (0..count).map(|at| PageId(first.0 + (absent.at + at) as u64));
        let bytes = &mut buffer[absent.at * page_bytes..][..tickets.len() * page_bytes];
        let is_run = tickets.len() > 1 && self.front.options.page_format != PageFormat::Native;
        let is_read = is_run
            && self.disk.read_run(PageId(first.0 + absent.at as u64), bytes).is_ok()
            && self.disk.prove_kept(pages(tickets.len())).is_ok();
        for (page, bytes) in pages(tickets.len()).zip(bytes.chunks_exact_mut(page_bytes)) {
            // One by one, so that the error names the page.
            if !is_read {
                self.disk.read(page, bytes)?;
            }
        }
        self.front.tallies().disk_reads.add(tickets.len());
        if !absent.populates {
            return Ok(());
        }
        for ((page, ticket), bytes) in pages(tickets.len()).zip(&tickets).zip(bytes.chunks_exact(page_bytes))
        {
            self.front.populate_for_reader(page, *ticket, bytes)?;
        }
        Ok(())
    }

    /// Writes changed pages from `first` on.
    pub(crate) fn write_pages(&self, first: PageId, data: &[u8]) -> Result<(), TierError> {
        self.check_run(data)?;
        let page_bytes = self.front.page_bytes();
        let pages = data.chunks_exact(page_bytes).enumerate();
        let pages: Vec<(PageId, &[u8])> =
            pages.map(|(at, bytes)| (PageId(first.0 + at as u64), bytes)).collect();
        pages.iter().try_for_each(|(page, bytes)| self.disk.check_victim(*page, bytes))?;
        let options = &self.front.options;
        let (is_to_disk, around) = match options.mode {
            Mode::WriteBack => (false, false),
            mode => (self.through.is_some(), mode != Mode::WriteThrough),
        };
        for some in pages.chunks(RUN_PAGES_MAX) {
            if is_to_disk && self.front.check_running()? {
                self.write_through_all(some, around)?;
                some.iter().for_each(|_| self.front.tallies().evicted(true, true));
                continue;
            }
            if self.through.is_some() && !self.front.check_running()? {
                self.write_run_to_disk(some)?;
                some.iter().for_each(|_| self.front.tallies().evicted(true, true));
                continue;
            }
            for (page, bytes) in some {
                let victim = Victim { page: *page, lsn: Lsn(0), dirty: true, fdirty: true };
                self.evict(victim, bytes)?;
            }
        }
        Ok(())
    }

    /// Writes pages that need no seal to disk.
    pub(super) fn write_run_to_disk(&self, pages: &[(PageId, &[u8])]) -> Result<(), TierError> {
        if let [(page, data)] = pages {
            return self.write_to_disk(*page, data);
        }
        let written = self.disk.write_all::<RUN_PAGES_MAX>(pages.iter().copied());
        self.wrote_to_disk(pages.len());
        written
    }

    pub(super) fn check_run(&self, bytes: &[u8]) -> Result<(), TierError> {
        if bytes.len().is_multiple_of(self.front.page_bytes()) {
            return Ok(());
        }
        self.disk.check_length(bytes)
    }
}
