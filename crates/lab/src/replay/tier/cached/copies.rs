//! Copies of pages from flash to disk, several at once: with slot placement those that the partition names,
//! and with a log those that need more of the owner's log than it keeps.

use super::super::super::pool::{Order, Pool};
use super::Cached;
use entresol_core::{CleanPage, Cleaning, DequeuePage, Job, PageId, Ticket};
use entresol_runtime::Time;

/// Most pages that one task copies at once, as in the engine.
pub(super) const COPIES_MAX: usize = 32;

impl Cached<'_> {
    /// Slot placement: copies `first` to disk together with others that are to go.
    pub(super) fn copy_some(
        &mut self,
        first: CleanPage,
        ticket: Option<Ticket>,
        now: Time,
        pool: &mut Pool<impl Order>,
    ) {
        let mut copies = std::mem::take(&mut self.copies);
        copies.push((first, ticket));
        let most = COPIES_MAX.min(self.config.group_pages as usize);
        while copies.len() < most {
            match self.partition.next_background() {
                None => break,
                Some(Job::Dequeue { ticket, pages, .. }) => {
                    copies.push((copy_of(&pages[0]), Some(ticket)));
                }
                Some(Job::Clean(page)) => copies.push((page, None)),
                Some(Job::Write { .. } | Job::PullVictims(_)) => {
                    unreachable!("slot placement has no other background jobs")
                }
            }
        }
        self.copy(&mut copies, now, pool);
        self.copies = copies;
    }

    /// Copies these pages to disk, those of them that are dequeued with their tickets.
    fn copy(
        &mut self,
        copies: &mut Vec<(CleanPage, Option<Ticket>)>,
        now: Time,
        pool: &mut Pool<impl Order>,
    ) {
        let mut read = now;
        for (page, _) in &*copies {
            self.metrics.dequeue_reads += 1;
            read = read.max(self.flash.read(now, u64::from(page.slot.0), 1));
            self.destage(page.slot, pool);
        }
        let done = self.disk.write_batch(read);
        for (page, ticket) in copies.drain(..) {
            self.destages.push(done);
            match ticket {
                Some(ticket) => self.partition.dequeued(ticket),
                None => self.partition.cleaned(&page),
            }
        }
    }

    /// Of the pages with a base before this checkpoint of the owner, copies one in `parts` to disk, in the
    /// order of the disk. Those in staging have a slot afterwards, and are among them. Returns how many.
    pub(super) fn copy_based_before(
        &mut self,
        number: u64,
        parts: u32,
        now: Time,
        pool: &mut Pool<impl Order>,
    ) -> u64 {
        let behind =
            self.partition.log_mut().filter(|log| log.keeps_bases()).map_or(0, |log| log.behind(number));
        if behind == 0 {
            return 0;
        }
        if parts == 1 {
            self.partition.close_group();
            self.work(now, pool);
        }
        let slots = self.config.slots;
        let Some(log) = self.partition.log_mut() else { return 0 };
        let mut pages: Vec<PageId> = log.dirty_based_before(0..slots, number).collect();
        pages.sort_unstable();
        pages.truncate(behind.div_ceil(parts) as usize);
        let (mut copies, mut count) = (std::mem::take(&mut self.copies), 0);
        for some in pages.chunks(COPIES_MAX) {
            for page in some {
                // Others are clean by now, or leave with their group.
                if let Cleaning::Copy(copy) = self.partition.clean(*page) {
                    copies.push((copy, None));
                }
            }
            count += copies.len() as u64;
            self.copy(&mut copies, now, pool);
            self.work(now, pool);
        }
        self.copies = copies;
        count
    }
}

/// The copy that a dequeue of slot placement is.
pub(super) fn copy_of(page: &DequeuePage) -> CleanPage {
    page.to_clean().expect("slot placement dequeues what it destages")
}
