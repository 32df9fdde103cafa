//! The background tasks: dequeues, cleaning and pulls. Writes have tasks of their own: a dequeue that waits
//! for room in staging never stops the writes that make room. How pages get to disk, the placement says
//! ([`Destages`]).

use super::Floor;
use super::above::Above;
use super::budget::WriteBudget;
use super::causes::Causes;
use super::disk_trouble::DiskTrouble;
use super::failures::Failures;
use crate::TierError;
use crate::access::{self, BoardRef, Directory, FlashPages, Signals};
use crate::buffer::AlignedBuffer;
use entresol_core::{BackgroundJob, DequeuePages, Load};
use entresol_runtime::now;
use entresol_shm::Gone;
use std::sync::Arc;

/// How a placement carries out the jobs that bring pages to disk.
pub(crate) trait Destages: Send + Sync {
    /// How long the devices have been at work, for a policy that weighs costs, if that is known.
    fn load(&self) -> Option<Load>;

    /// Carries out `job`, a dequeue or a cleaning; the pages of a dequeue are in `pages`, which may be
    /// overwritten. `queue` has more jobs.
    fn carry_out(
        &self,
        job: BackgroundJob,
        pages: &mut DequeuePages,
        scratch: &mut [u8],
        queue: &BackgroundQueue,
    ) -> Result<(), TierError>;
}

/// See the module's header.
pub(crate) struct BackgroundQueue {
    directory: Arc<Directory>,
    flash_pages: Arc<FlashPages>,
    signals: Arc<Signals>,
    board: BoardRef,
    causes: Arc<Causes>,
    failures: Arc<Failures>,
    trouble: Arc<DiskTrouble>,
    budget: Arc<WriteBudget>,
    upstream: Arc<Above>,
    placement: Arc<dyn Destages>,
}

impl BackgroundQueue {
    pub(crate) fn new(floor: &Floor, placement: Arc<dyn Destages>) -> Self {
        Self {
            directory: floor.access.directory.clone(),
            flash_pages: floor.access.flash_pages.clone(),
            signals: floor.access.signals.clone(),
            board: floor.access.board.clone(),
            causes: floor.causes.clone(),
            failures: floor.failures.clone(),
            trouble: floor.trouble.clone(),
            budget: floor.budget.clone(),
            upstream: floor.upstream.clone(),
            placement,
        }
    }

    /// Does everything but writes until the tier stops.
    pub(crate) fn task(&self) {
        let mut scratch =
            AlignedBuffer::new(self.directory.config.group_pages as usize * self.flash_pages.page_bytes);
        let mut pages = DequeuePages::new();
        loop {
            let seen = self.signals.background.epoch();
            let Some(under_way) = self.failures.begin_job() else { return };
            let job = match self.next(&mut pages) {
                Ok(Some(job)) => job,
                Ok(None) => {
                    let mut has_settled = false;
                    let settle =
                        || self.causes.settle_dead_if_possible().map(|settled| has_settled = settled);
                    if let Err(error) = self.trouble.persist(settle) {
                        return self.failures.fail(error);
                    }
                    drop(under_way);
                    if !has_settled {
                        self.signals.background.wait(seen);
                    }
                    continue;
                }
                Err(gone) => return self.failures.fail(gone.into()),
            };
            // There may be more: another task looks.
            self.signals.background.notify_one();
            let begin = now();
            let done = match job {
                BackgroundJob::PullVictims(count) => {
                    self.pull(count);
                    Ok(())
                }
                BackgroundJob::Dequeue { .. } | BackgroundJob::Clean(_) => {
                    self.placement.carry_out(job, &mut pages, &mut scratch, self)
                }
            };
            if let Err(error) = done {
                self.failures.fail(error);
                return;
            }
            self.board.tallies.background_took.ends(begin);
            self.signals.job_is_done();
        }
    }

    /// The next job; the pages of a dequeue in `pages`. Looking for one may already make room, where clean
    /// pages are dropped: then the writers are told.
    pub(crate) fn next(&self, pages: &mut DequeuePages) -> Result<Option<BackgroundJob>, Gone> {
        let load = self.placement.load();
        let (job, made_room) = self.directory.with_objects(|partition, objects| {
            if let Some(load) = load {
                partition.observe(load);
            }
            if let Some(objects) = objects {
                access::drop_dead_of_next_dequeue(partition, objects);
            }
            let valid = partition.occupancy().valid;
            let job = partition.take_background(pages, self.budget.spares_writes());
            (job, partition.occupancy().valid < valid)
        })?;
        if made_room {
            self.signals.writes.notify_one();
        }
        Ok(job)
    }

    fn pull(&self, pages: u32) {
        if let Some(upstream) = self.upstream.get() {
            self.board.tallies.pulled.add(upstream.pull_victims(pages as usize));
        }
    }
}
