//! The background tasks: dequeues, cleaning and pulls. Writes have tasks of their own: a dequeue that waits
//! for room in staging never stops the writes that make room.

use super::clean::Copies;
use super::shared::Shared;
use crate::TierError;
use crate::buffer::AlignedBuffer;
use entresol_core::Job;

impl Shared {
    /// Does everything but writes until the tier stops.
    pub(crate) fn background_task(&self) {
        let mut scratch = AlignedBuffer::new(self.config.group_pages as usize * self.page_bytes());
        loop {
            let seen = self.background.epoch();
            if self.state.is_stopped() {
                return;
            }
            let Some(job) = self.next_background() else {
                self.background.wait(seen);
                continue;
            };
            // There may be more: another task looks.
            self.background.notify_one();
            let done = match job {
                Job::PullVictims(pages) => {
                    self.pull(pages);
                    Ok(())
                }
                Job::Dequeue { ticket, pages, one_io } if self.is_log() => {
                    self.dequeue_group(ticket, &pages, one_io, &mut scratch)
                }
                Job::Dequeue { .. } | Job::Clean(_) => self.copy_some(job, &mut scratch),
                Job::Write { .. } => unreachable!("next_background gives no write jobs"),
            };
            if let Err(error) = done {
                self.fail(error);
                return;
            }
            self.job_is_done();
        }
    }

    /// The next job. Looking for one may already make room, where clean pages are dropped: then the writers
    /// are told.
    fn next_background(&self) -> Option<Job> {
        let (job, made_room) = self.with(|partition| {
            let valid = partition.occupancy().valid;
            (partition.next_background(), partition.occupancy().valid < valid)
        });
        if made_room {
            self.writes.notify_one();
        }
        job
    }

    fn pull(&self, pages: u32) {
        if let Some(upstream) = self.upstream() {
            self.tallies.pulled.add(upstream.pull_victims(pages as usize));
        }
    }

    /// Slot placement: copies the page of `first` to disk, together with others that are to go.
    fn copy_some(&self, first: Job, scratch: &mut [u8]) -> Result<(), TierError> {
        let mut copies = Copies::new(scratch.len() / self.page_bytes());
        copies.add(first);
        while copies.has_room() {
            match self.next_background() {
                Some(job) => copies.add(job),
                None => break,
            }
        }
        self.copy_to_disk(&copies, scratch)
    }
}
