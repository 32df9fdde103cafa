//! Copies dirty pages to disk, several at once. Reasons: their slot is needed (dequeue), too many pages are
//! dirty (cleaner), or a checkpoint runs.
//!
//! The core marks the slots busy, and no other task touches them meanwhile. Where a crash loses the whole
//! directory, the disk is not synced here: redo starts at the last checkpoint, which syncs (LC). Where slots
//! survive it, a page is durable on disk before it counts as clean, or its slot is emptied. A page that the
//! disk refuses stays ([`crate::tier::floor::disk_trouble`]), and a damaged one is recorded as lost first
//! ([`crate::tier::floor::lost`]).

use crate::TierOptions;
use crate::access::{BoardRef, Directory, FlashPages, Signals};
use crate::disk::{DiskPages, DurableNotes};
use crate::tier::floor::Floor;
use crate::tier::floor::above::Above;
use crate::tier::floor::background::{self, BackgroundQueue};
use crate::tier::floor::destager::Destager;
use crate::tier::floor::disk_trouble::DiskTrouble;
use crate::tier::floor::flash_reads::FlashReads;
use crate::tier::floor::lost::LostPages;
use crate::to_disk::{READS_MAX, read_what_is_there};
use crate::{TierError, points};
use arrayvec::ArrayVec;
use entresol_core::{BackgroundJob, CleanPage, DequeuePage, DequeuePages, Load, PageId, SlotId, Ticket};
use std::sync::Arc;

/// Most pages copied at once.
const COPIES_MAX: usize = READS_MAX;

/// Pages to copy, with the ticket where the slot is given up.
struct Copies {
    pages: ArrayVec<(CleanPage, Option<Ticket>), COPIES_MAX>,
    room: usize,
}

impl Copies {
    /// Room for `pages`, or as many as are sensible.
    fn new(pages: usize) -> Self {
        Self { pages: ArrayVec::new(), room: pages.min(COPIES_MAX) }
    }

    fn has_room(&self) -> bool {
        self.pages.len() < self.room
    }

    /// `pages`: those of the job, if it is a dequeue.
    fn add(&mut self, job: BackgroundJob, pages: &[DequeuePage]) {
        match job {
            BackgroundJob::Clean(page) => self.pages.push((page, None)),
            BackgroundJob::Dequeue { ticket, .. } => {
                assert_eq!(pages.len(), 1, "slot placement works page by page");
                let page = pages[0].to_clean().expect("slot placement dequeues what it destages");
                self.pages.push((page, Some(ticket)));
            }
            BackgroundJob::PullVictims(_) => unreachable!("slot placement pulls no victims"),
        }
    }
}

/// See the module's header.
pub(crate) struct Cleaner {
    options: Arc<TierOptions>,
    directory: Arc<Directory>,
    flash_pages: Arc<FlashPages>,
    signals: Arc<Signals>,
    board: BoardRef,
    reads: FlashReads,
    disk: Arc<DiskPages>,
    lost: Arc<LostPages>,
    trouble: Arc<DiskTrouble>,
    destager: Arc<Destager>,
    notes: Arc<DurableNotes>,
    upstream: Arc<Above>,
}

impl Cleaner {
    pub(crate) fn new(floor: &Floor) -> Self {
        Self {
            options: floor.access.options.clone(),
            directory: floor.access.directory.clone(),
            flash_pages: floor.access.flash_pages.clone(),
            signals: floor.access.signals.clone(),
            board: floor.access.board.clone(),
            reads: FlashReads::new(floor),
            disk: floor.disk.clone(),
            lost: floor.lost.clone(),
            trouble: floor.trouble.clone(),
            destager: floor.destager.clone(),
            notes: floor.notes.clone(),
            upstream: floor.upstream.clone(),
        }
    }

    fn copy_to_disk(&self, copies: &Copies, scratch: &mut [u8]) -> Result<(), TierError> {
        let wanted: ArrayVec<(PageId, SlotId), COPIES_MAX> =
            copies.pages.iter().map(|(page, _)| (page.page, page.slot)).collect();
        let proofs: ArrayVec<u32, COPIES_MAX> =
            self.directory.proofs(wanted.iter().map(|(_, slot)| *slot))?;
        let prove = |at: usize, data: &[u8]| {
            let page = &copies.pages[at].0;
            self.flash_pages.prove(data, page.page, page.slot, page.generation, proofs[at])
        };
        let (mut destages, faults) =
            read_what_is_there(&self.reads, self.flash_pages.format(), &wanted, scratch, prove)?;
        self.board.tallies.dequeue_reads.add(copies.pages.len());
        if !faults.is_empty() {
            points::COPY_DAMAGED.reach();
            self.lost.lose(&faults)?;
        }
        // If the tier ends meanwhile, the pages stay as they are.
        let Some(kept) = self.destager.destage_or_keep(&mut destages, || Ok(true))? else { return Ok(()) };
        if self.options.keeps_batches() && !self.trouble.persist(|| self.disk.sync())? {
            return Ok(());
        }
        let stays = |page: &CleanPage| kept.iter().any(|(kept, _)| *kept == page.page);
        self.directory.with(|partition| {
            for (page, ticket) in &copies.pages {
                match (ticket, stays(page)) {
                    (Some(ticket), true) => partition.slots_mut().into_iter().for_each(|s| s.stays(*ticket)),
                    (Some(ticket), false) => partition.dequeued(*ticket),
                    (None, true) => partition.clean_failed(page),
                    (None, false) => partition.cleaned(page),
                }
            }
        })?;
        self.destager.tell(&destages);
        let written = destages.iter().map(|(page, data)| (*page, self.options.page_format.lsn(data)));
        self.notes.add(&self.disk, self.upstream.get().as_deref(), written)
    }

    /// Copies every page that is dirty now to disk. Pages that become dirty meanwhile may be copied, too.
    pub(crate) fn sweep_all(&self, scratch: &mut [u8]) -> Result<(), TierError> {
        let mut from = SlotId(0);
        loop {
            let seen = self.signals.progress.epoch();
            if !self.signals.check_running()? {
                return Ok(());
            }
            let mut copies = Copies::new(scratch.len() / self.flash_pages.page_bytes);
            let mut end = false;
            let mut busy = false;
            while copies.has_room() {
                match self.directory.with(|partition| partition.slots_mut()?.sweep(from))? {
                    None => end = true,
                    Some(Err(slot)) => (from, busy) = (slot, true),
                    Some(Ok(page)) => {
                        copies.pages.push((page, None));
                        from = SlotId(page.slot.0 + 1);
                        continue;
                    }
                }
                break;
            }
            if !copies.pages.is_empty() {
                self.copy_to_disk(&copies, scratch)?;
                self.signals.job_is_done();
            } else if busy {
                self.signals.await_progress(seen)?;
            }
            if end {
                return Ok(());
            }
        }
    }
}

impl background::Destages for Cleaner {
    fn load(&self) -> Option<Load> {
        None
    }

    /// Copies the page of `first` to disk, together with others that are to go.
    fn carry_out(
        &self,
        first: BackgroundJob,
        pages: &mut DequeuePages,
        scratch: &mut [u8],
        queue: &BackgroundQueue,
    ) -> Result<(), TierError> {
        let mut copies = Copies::new(scratch.len() / self.flash_pages.page_bytes);
        copies.add(first, pages);
        while copies.has_room() {
            match queue.next(pages)? {
                Some(job) => copies.add(job, pages),
                None => break,
            }
        }
        self.copy_to_disk(&copies, scratch)
    }
}
