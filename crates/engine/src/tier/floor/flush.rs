//! A flush of staging: everything that was evicted and forgotten before is durable on flash when it returns.
//! The caller carries out the writes itself, if no other task does: it would only wait for another one.

use super::Floor;
use super::failures::{Failures, PanicGuard};
use super::staged::StagedPages;
use super::writers::{Turn, WriterLoop, Writes};
use crate::TierError;
use crate::access::Directory;
use crate::buffer::AlignedBuffer;
use crate::disk::DiskPages;
use entresol_core::{Extent, FlushGoal, Position, WritePages};
use entresol_runtime::sync::{Rank, TinyMutex};
use std::sync::Arc;

/// See the module's header.
pub(crate) struct StagedFlush<W> {
    directory: Arc<Directory>,
    disk: Arc<DiskPages>,
    staged: Arc<StagedPages>,
    failures: Arc<Failures>,
    writer: Arc<W>,
    writers: WriterLoop,
    /// Memory for callers' writes, at most [`SCRATCH_MAX`].
    scratch: TinyMutex<Vec<AlignedBuffer>>,
}

/// Memory that is kept for writes: as many are seldom under way at once.
const SCRATCH_MAX: usize = 2;

impl<W: Writes> StagedFlush<W> {
    pub(crate) fn new(floor: &Floor, writer: &Arc<W>) -> Self {
        Self {
            directory: floor.access.directory.clone(),
            disk: floor.disk.clone(),
            staged: floor.staged.clone(),
            failures: floor.failures.clone(),
            writer: writer.clone(),
            writers: WriterLoop::new(floor),
            scratch: TinyMutex::new(Rank::FlushBuffer, Vec::with_capacity(SCRATCH_MAX)),
        }
    }

    /// Everything that was handed down before is durable on flash, and all records of forgotten pages that
    /// need not wait. `needs_group`: the summary of the group that is open at this position has no room for
    /// more records.
    pub(crate) fn flush(&self, needs_group: impl Fn(Position) -> bool) -> Result<(), TierError> {
        let mut goal = self.directory.with(|partition| FlushGoal::begin(partition, Extent::Flushed))?;
        match self.staged.reach(&mut goal, needs_group, || self.writes_one())? {
            true => Ok(()),
            false => self.disk.sync(),
        }
    }

    /// Carries out a write that is due. False: there is none.
    fn writes_one(&self) -> bool {
        let _guard = PanicGuard(&self.failures);
        let (mut scratch, mut pages) = (AlignedBuffer::new(0), WritePages::new());
        let turn = self.writers.one(&*self.writer, &mut pages, &mut scratch, |scratch| {
            if let Some(kept) = self.scratch.lock().pop() {
                *scratch = kept;
            }
        });
        let mut kept = self.scratch.lock();
        if !scratch.is_empty() && kept.len() < SCRATCH_MAX {
            kept.push(scratch);
        }
        turn != Turn::Nothing
    }
}
