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

/// What a write that is complete has brought.
#[derive(Clone, Copy)]
pub(crate) struct Brought {
    /// Pages are on flash that were not, or records are durable: there may be room, and jobs for all tasks.
    pub is_news: bool,
    /// Another write may be due that was not while this one was under way.
    pub more: bool,
}

impl Brought {
    pub(crate) const ALL: Self = Self { is_news: true, more: true };
}

/// What became of a task's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// No write is due.
    Nothing,
    Written,
    /// The tier does not run any more.
    Ended,
}

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
    ) -> Result<Brought, TierError>;
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
            // There may be more: another writer looks.
            match self.one(writes, &mut pages, &mut scratch, |_| self.signals.writes.notify_one()) {
                Turn::Nothing => _ = self.signals.writes.wait(seen),
                Turn::Written => {}
                Turn::Ended => return,
            }
        }
    }

    /// Carries out a write, if one is due: for a task that would wait for it otherwise. `begins` is called
    /// when there is one, and may bring memory.
    pub(crate) fn one(
        &self,
        writes: &impl Writes,
        pages: &mut WritePages,
        scratch: &mut AlignedBuffer,
        begins: impl FnOnce(&mut AlignedBuffer),
    ) -> Turn {
        let Some(_under_way) = self.failures.begin_job() else { return Turn::Ended };
        let job = match writes.next(pages) {
            Ok(Some(job)) => job,
            Ok(None) => return Turn::Nothing,
            Err(gone) => {
                self.failures.fail(gone.into());
                return Turn::Ended;
            }
        };
        begins(scratch);
        let begin = now();
        let brought = match writes.carry_out(job, pages, scratch) {
            Ok(brought) => brought,
            Err(error) => {
                self.failures.fail(error);
                return Turn::Ended;
            }
        };
        self.board.tallies.writes_took.ends(begin);
        self.board.tallies.flash_writes.add(pages.iter().filter(|page| page.page.is_some()).count());
        self.budget.look();
        self.signals.write_is_done(brought.is_news, brought.more);
        Turn::Written
    }
}
