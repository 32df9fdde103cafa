//! Dequeues the group at the front of the ring: pages with a second chance return to staging, dirty pages go
//! to disk.
//!
//! A page that the disk refuses is restaged, too ([`crate::tier::floor::disk_trouble`]).
//!
//! Invariants: a dequeue is reported only when its destages are durable on disk. A damaged dirty page is
//! recorded as lost, durably, before the dequeue is reported ([`crate::tier::floor::lost`]); where that
//! cannot be, it stops the tier. A damaged clean page is dropped and counted; the disk has it.

use super::waves::Waves;
use crate::TierOptions;
use crate::access::{BoardRef, Directory, FlashPages, Incoming, RunState, Signals, Staging};
use crate::disk::{DiskPages, DurableNotes};
use crate::tier::floor::Floor;
use crate::tier::floor::above::Above;
use crate::tier::floor::background::{self, BackgroundQueue};
use crate::tier::floor::causes::Causes;
use crate::tier::floor::destager::Destager;
use crate::tier::floor::disk_trouble::DiskTrouble;
use crate::tier::floor::flash::Flash;
use crate::tier::floor::flash_reads::FlashReads;
use crate::tier::floor::lost::LostPages;
use crate::tier::floor::object_log::ObjectLog;
use crate::tier::floor::renewals::Renewals;
use crate::tier::floor::superblocks::Superblocks;
use crate::to_disk::{Destages, damaged};
use crate::{TierError, points};
use arrayvec::ArrayVec;
use entresol_core::{
    Admission, BackgroundJob, DequeuePage, DequeuePages, Fate, GROUP_PAGES_MAX, Generation, Load, Ticket,
};
use entresol_device::{BusyClock, Io};
use entresol_runtime::{Time, now};
use std::sync::Arc;

type Batch<'a> = ArrayVec<Io<'a>, GROUP_PAGES_MAX>;

/// What has left.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    All,
    /// The disk has refused the others, and they have positions again.
    AllButKept,
}

/// See the module's header.
pub(crate) struct Dequeuer {
    options: Arc<TierOptions>,
    directory: Arc<Directory>,
    flash_pages: Arc<FlashPages>,
    staging: Arc<Staging>,
    state: Arc<RunState>,
    signals: Arc<Signals>,
    board: BoardRef,
    flash: Arc<Flash>,
    reads: FlashReads,
    disk: Arc<DiskPages>,
    superblocks: Arc<Superblocks>,
    causes: Arc<Causes>,
    objects: Arc<ObjectLog>,
    renewals: Arc<Renewals>,
    destager: Arc<Destager>,
    waves: Waves,
    notes: Arc<DurableNotes>,
    upstream: Arc<Above>,
    lost: Arc<LostPages>,
    trouble: Arc<DiskTrouble>,
    /// Writes of groups to flash, and reads of those that are dequeued.
    work: Arc<BusyClock>,
    has_no_log_above: bool,
}

impl Dequeuer {
    pub(crate) fn new(floor: &Floor, work: &Arc<BusyClock>) -> Self {
        Self {
            options: floor.access.options.clone(),
            directory: floor.access.directory.clone(),
            flash_pages: floor.access.flash_pages.clone(),
            staging: floor.access.staging.clone(),
            state: floor.access.state.clone(),
            signals: floor.access.signals.clone(),
            board: floor.access.board.clone(),
            flash: floor.flash.clone(),
            reads: FlashReads::new(floor),
            disk: floor.disk.clone(),
            superblocks: floor.superblocks.clone(),
            causes: floor.causes.clone(),
            objects: floor.objects.clone(),
            renewals: floor.renewals.clone(),
            destager: floor.destager.clone(),
            waves: Waves::new(floor),
            notes: floor.notes.clone(),
            upstream: floor.upstream.clone(),
            lost: floor.lost.clone(),
            trouble: floor.trouble.clone(),
            work: work.clone(),
            has_no_log_above: floor.turns.is_some(),
        }
    }

    fn dequeue_group(
        &self,
        ticket: Ticket,
        pages: &[DequeuePage],
        one_io: bool,
        scratch: &mut [u8],
    ) -> Result<(), TierError> {
        let needed = |page: &DequeuePage| page.page.is_some() && page.fate != Fate::Drop;
        let mut whole: ArrayVec<(usize, DequeuePage), GROUP_PAGES_MAX> =
            pages.iter().copied().enumerate().filter(|(_, page)| needed(page)).collect();
        if let (Some(first), Some(last)) = (whole.first(), whole.last()) {
            self.read_group(&whole, (first.0, last.0), one_io, scratch)?;
            self.board.tallies.dequeue_reads.add(whole.len());
            self.drop_damaged(&mut whole, scratch)?;
            for (at, page) in &whole {
                let bytes = &mut scratch[self.flash_pages.range(*at)];
                self.options.page_format.unseal(bytes, page.page.expect("only pages were read"));
            }
        }
        let leaves_first = self.directory.in_log(|log| log.leaves_first(ticket))?;
        let mut have_stayed = pages.iter().any(|page| page.fate == Fate::SecondChance);
        if leaves_first {
            points::DEQUEUE_LEFT_FIRST.reach();
            let Some(left) = self.leave(ticket, &whole, scratch)? else { return Ok(()) };
            have_stayed |= left == Left::AllButKept;
            self.directory.in_log(|log| log.left(ticket))?;
            self.signals.progress.notify_all();
        }
        let bytes = |at: usize| &scratch[self.flash_pages.range(at)];
        for (at, page) in whole.iter().filter(|(_, page)| page.fate == Fate::SecondChance) {
            if !self.restage(ticket, page, bytes(*at))? {
                // The tier ends: the group stays as it is.
                return Ok(());
            }
        }
        if have_stayed {
            self.directory.in_log(|log| log.restaged(ticket))?;
        }
        if !leaves_first {
            let Some(left) = self.leave(ticket, &whole, scratch)? else { return Ok(()) };
            if left == Left::AllButKept {
                self.directory.in_log(|log| log.restaged(ticket))?;
            }
        }
        if !self.trouble.persist(|| self.make_sure(pages))? {
            return Ok(());
        }
        // Pages of it may be dead: after a crash they still are.
        self.objects.make_durable()?;
        self.directory.with(|partition| partition.dequeued(ticket))?;
        // Before the next step, which may take a sync of the disk: slots may be free.
        self.signals.job_is_done();
        self.trouble.persist(|| self.causes.settle_dead()).map(drop)
    }

    /// Those of the pages that leave are on disk durably. What the disk refuses is kept: it is restaged.
    /// `None`: the tier ends meanwhile, and the group stays as it is.
    fn leave(
        &self,
        ticket: Ticket,
        pages: &[(usize, DequeuePage)],
        scratch: &[u8],
    ) -> Result<Option<Left>, TierError> {
        let bytes = |at: usize| &scratch[self.flash_pages.range(at)];
        let copies = pages.iter().filter_map(|(at, page)| Some((page.to_clean()?.page, bytes(*at))));
        let mut destages: Destages<'_> = copies.collect();
        if destages.is_empty() {
            return Ok(Some(Left::All));
        }
        let may_keep = || Ok(self.directory.in_log(|log| log.keep(ticket))?);
        let Some(kept) = self.destager.destage_or_keep(&mut destages, may_keep)? else { return Ok(None) };
        if !destages.is_empty() {
            let wave = self.waves.join();
            let sync = || self.notes.sync(&self.disk, self.upstream.get().as_deref());
            if !self.trouble.persist(sync)? {
                return Ok(None);
            }
            // Only now: a renewal from before the sync would be that of a disk that lacks these pages.
            let asked = self.renewals.ask();
            wave.end();
            self.renewals.answer(asked)?;
            self.destager.tell(&destages);
        }
        for (page, data) in &kept {
            let (_, page) = pages.iter().find(|(_, one)| one.page == Some(*page)).expect("it was to leave");
            if !self.restage(ticket, page, data)? {
                return Ok(None);
            }
        }
        Ok(Some(if kept.is_empty() { Left::All } else { Left::AllButKept }))
    }

    /// In write-through without a log above: the disk has clean pages that leave durably. Nearly always a
    /// checkpoint has made them so; not while a write to disk is held, or a sync takes very long.
    fn make_sure(&self, pages: &[DequeuePage]) -> Result<(), TierError> {
        let last = pages.last().map(|page| page.generation);
        let Some(Generation::Exact(last)) = last else { return Ok(()) };
        let is_unsure = self.has_no_log_above && self.options.disk_may_lack();
        let must_sync = is_unsure && last >= self.superblocks.sure();
        if must_sync { self.disk.sync() } else { Ok(()) }
    }

    /// Reads the pages at the places `needed` of a group to the same places of `scratch`.
    fn read_group(
        &self,
        needed: &[(usize, DequeuePage)],
        (first, last): (usize, usize),
        one_io: bool,
        scratch: &mut [u8],
    ) -> Result<(), TierError> {
        let _work = self.work.start();
        let page_bytes = self.flash_pages.page_bytes;
        if one_io {
            let offset = self.flash.layout.slot_offset(needed[0].1.slot);
            let range = first * page_bytes..(last + 1) * page_bytes;
            return self.reads.read(&mut [Io::Read { offset, buffer: &mut scratch[range] }]);
        }
        let mut batch = Batch::new();
        let mut wanted = needed.iter().peekable();
        for (at, buffer) in scratch.chunks_exact_mut(page_bytes).enumerate() {
            if let Some((_, page)) = wanted.next_if(|(place, _)| *place == at) {
                batch.push(Io::Read { offset: self.flash.layout.slot_offset(page.slot), buffer });
            }
        }
        self.reads.read(&mut batch)
    }

    /// Takes out pages that are damaged. Dirty ones are lost, durably.
    fn drop_damaged(
        &self,
        pages: &mut ArrayVec<(usize, DequeuePage), GROUP_PAGES_MAX>,
        scratch: &mut [u8],
    ) -> Result<(), TierError> {
        let proofs: ArrayVec<u32, GROUP_PAGES_MAX> =
            self.directory.proofs(pages.iter().map(|(_, page)| page.slot))?;
        let mut proofs = proofs.into_iter();
        let (mut lost, mut failed) = (ArrayVec::<TierError, GROUP_PAGES_MAX>::new(), Ok(()));
        let until = self.reads.patience();
        pages.retain(|(at, page)| {
            let proof = proofs.next().expect("one for each page");
            let bytes = &mut scratch[self.flash_pages.range(*at)];
            let id = page.page.expect("only pages were read");
            let prove = |bytes: &[u8]| self.flash_pages.prove(bytes, id, page.slot, page.generation, proof);
            let mut proved = prove(bytes);
            if proved.is_err() && page.dirty && failed.is_ok() {
                let offset = self.flash.layout.slot_offset(page.slot);
                match self.reads.read_again_until((offset, bytes), until, prove) {
                    Ok(again) => proved = again,
                    Err(error) => failed = Err(error),
                }
            }
            match proved {
                Ok(()) => {}
                Err(fault) if page.dirty => {
                    points::DEQUEUE_DAMAGED_DIRTY.reach();
                    lost.push(damaged(id, page.slot, bytes, fault));
                }
                Err(_) => {
                    points::DEQUEUE_DAMAGED_CLEAN.reach();
                    self.board.tallies.damaged_clean.add(1);
                }
            }
            proved.is_ok()
        });
        failed?;
        self.lost.lose(&lost)
    }

    /// Gives a page its second chance; waits for room in staging, and for its turn. False if the tier ends
    /// meanwhile.
    fn restage(&self, ticket: Ticket, page: &DequeuePage, data: &[u8]) -> Result<bool, TierError> {
        let lsn = self.options.page_format.lsn(data);
        loop {
            let seen = self.signals.progress.epoch();
            if self.state.is_stopped() {
                return Ok(false);
            }
            let admission = self.directory.with_objects(|partition, objects| {
                // Only a log gives second chances.
                let Some(log) = partition.log_mut() else { return Admission::AlreadyThere };
                if let (Some(objects), Some(id)) = (objects, page.page) {
                    // It has died since the dequeue was planned: at its new position it would live again.
                    log.drop_dead_copies(id, |id, position| objects.is_dead(id, position));
                }
                log.restage(ticket, page, lsn)
            })?;
            match admission {
                Admission::AlreadyThere => {
                    points::DEQUEUE_OVERTAKEN.reach();
                    return Ok(true);
                }
                Admission::Full | Admission::Bypass { .. } => {
                    // The slots that it waits for may be released when pages are durably dead, and all
                    // background tasks, which see to that otherwise, may be waiting here.
                    let mut has_settled = false;
                    let settle =
                        || self.causes.settle_dead_if_possible().map(|settled| has_settled = settled);
                    if !self.trouble.persist(settle)? {
                        return Ok(false);
                    }
                    if !has_settled {
                        self.signals.await_progress(seen)?;
                    }
                }
                Admission::Stage { frame, position } => {
                    let id = page.page.expect("only pages get second chances");
                    let stamp = self.flash_pages.stamp(position);
                    let incoming = Incoming { page: id, dirty: page.dirty, data, position, stamp };
                    let proof = self.staging.copy_in(frame, &incoming)?;
                    let due = self.directory.with(|partition| {
                        partition.staged_with(frame, proof);
                        partition.write_due(frame)
                    })?;
                    if due {
                        self.signals.writes.notify_one();
                    }
                    self.board.tallies.second_chances.add(1);
                    return Ok(true);
                }
            }
        }
    }
}

impl background::Destages for Dequeuer {
    fn load(&self) -> Option<Load> {
        if !self.directory.config.policy.facts().weighs_costs {
            return None;
        }
        let times = [now().since(Time(0)), self.work.total(), self.disk.busy()?];
        let [now_ns, ring_busy_ns, disk_busy_ns] = times.map(|time| time.as_nanos() as u64);
        Some(Load { now_ns, ring_busy_ns, disk_busy_ns })
    }

    fn carry_out(
        &self,
        job: BackgroundJob,
        pages: &mut DequeuePages,
        scratch: &mut [u8],
        _: &BackgroundQueue,
    ) -> Result<(), TierError> {
        let BackgroundJob::Dequeue { ticket, one_io } = job else { unreachable!("a ring has no cleaner") };
        self.dequeue_group(ticket, pages, one_io, scratch)
    }
}
