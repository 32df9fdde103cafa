//! Writes past the flash whose pages have copies there. The copies are made void first, durably: one worker
//! does that for all such writes of a connection that have come meanwhile, with one flush of flash, and
//! carries the writes out, all at once.
//!
//! Invariant: a request that is here is carried out: by the worker that [`Work::Voids`](super::job::Work)
//! brings, or by another one, to which that worker gives it.

use super::Shared;
use super::hits::Hits;
use super::job::{Job, Work};
use entresol_runtime::sync::{Mutex, Rank};
use std::collections::VecDeque;
use std::io::Result;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Most writes that are carried out at once.
const WRITES_MAX: usize = 32;

/// See the module's header.
pub(super) struct Voids(Mutex<State>);

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    /// A worker carries them out, or is to begin.
    is_begun: bool,
}

impl Voids {
    pub fn new() -> Self {
        Self(Mutex::new(Rank::RequestQueue, State::default()))
    }

    /// The writes that are next, of one connection. None: the worker ends.
    fn next(&self) -> Vec<Job> {
        let mut state = self.0.lock();
        let mut jobs: Vec<Job> = Vec::new();
        while jobs.len() < WRITES_MAX
            && let Some(job) = state.waiting.front()
            && jobs.first().is_none_or(|first| job.is_of_connection_of(first))
        {
            jobs.extend(state.waiting.pop_front());
        }
        state.is_begun = !jobs.is_empty();
        jobs
    }
}

impl Shared {
    /// A write past the flash may begin when copies of its pages are void.
    pub(super) fn push_void(&self, job: Job) {
        let mut state = self.voids.0.lock();
        state.waiting.push_back(job);
        let is_begun = std::mem::replace(&mut state.is_begun, true);
        drop(state);
        if !is_begun {
            self.queue.push(Work::Voids);
        }
    }

    /// See the module's header. `own`: what the worker carries writes out with, made when it is first needed.
    /// Writes that panic are the end of their connection.
    pub(super) fn carry_out_voids<'a>(self: &'a Arc<Self>, own: &mut Option<Hits<'a>>) {
        loop {
            let jobs = self.voids.next();
            let Some(connection) = jobs.first().map(Job::connection) else { return };
            let hits = own.get_or_insert_with(|| Hits::new(self));
            let done = catch_unwind(AssertUnwindSafe(|| self.carry_out_void(jobs, hits)));
            if !matches!(done, Ok(Ok(()))) {
                connection.cut();
                // A ring that cannot be waited for keeps its requests, and their memory, for good.
                *own = None;
            } else {
                connection.send(hits.replies());
            }
        }
    }

    fn carry_out_void<'a>(&'a self, jobs: Vec<Job>, hits: &mut Hits<'a>) -> Result<()> {
        self.volume.void_copies(jobs.iter().filter_map(Job::is_small_write));
        for job in jobs {
            if let Err(job) = hits.take_past(job) {
                self.queue.push(job);
            }
        }
        hits.begin();
        while !hits.is_idle() {
            hits.wait(None)?;
        }
        Ok(())
    }
}
