//! The tasks that write staged pages to flash: their loop. What a write is, the placement says ([`Writes`]).

use super::Floor;
use super::budget::WriteBudget;
use super::failures::Failures;
use crate::TierError;
use crate::access::{BoardRef, Signals};
use crate::buffer::AlignedBuffer;
use entresol_core::WritePages;
use entresol_runtime::now;
use entresol_shm::Gone;
use std::sync::Arc;

/// The writes of a placement.
pub(crate) trait Writes {
    type Job;

    /// The next write; its pages in `pages`.
    fn next(&self, pages: &mut WritePages) -> Result<Option<Self::Job>, Gone>;

    /// Writes the pages of a job, and says so to the partition. `scratch` is made when it is first needed.
    fn carry_out(
        &self,
        job: Self::Job,
        pages: &WritePages,
        scratch: &mut AlignedBuffer,
    ) -> Result<(), TierError>;
}

/// What a writer's loop needs.
pub(crate) struct WriterLoop {
    signals: Arc<Signals>,
    board: BoardRef,
    failures: Arc<Failures>,
    budget: Arc<WriteBudget>,
}

impl WriterLoop {
    pub(crate) fn new(floor: &Floor) -> Self {
        Self {
            signals: floor.access.signals.clone(),
            board: floor.access.board.clone(),
            failures: floor.failures.clone(),
            budget: floor.budget.clone(),
        }
    }

    /// Does write jobs until the tier stops.
    pub(crate) fn run(&self, writes: &impl Writes) {
        let mut scratch = AlignedBuffer::new(0);
        let mut pages = WritePages::new();
        loop {
            let seen = self.signals.writes.epoch();
            let Some(under_way) = self.failures.begin_job() else { return };
            let next = match writes.next(&mut pages) {
                Ok(next) => next,
                Err(gone) => return self.failures.fail(gone.into()),
            };
            let Some(job) = next else {
                drop(under_way);
                self.signals.writes.wait(seen);
                continue;
            };
            // There may be more: another writer looks.
            self.signals.writes.notify_one();
            let begin = now();
            if let Err(error) = writes.carry_out(job, &pages, &mut scratch) {
                return self.failures.fail(error);
            }
            self.board.tallies.writes_took.ends(begin);
            self.board.tallies.flash_writes.add(pages.iter().filter(|page| page.page.is_some()).count());
            self.budget.look();
            self.signals.job_is_done();
        }
    }
}
