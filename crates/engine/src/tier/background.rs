//! The background tasks: dequeues, cleaning and pulls. Writes have tasks of their own: a dequeue that waits
//! for room in staging never stops the writes that make room.

use super::back::Back;
use super::clean::Copies;
use crate::TierError;
use crate::buffer::AlignedBuffer;
use crate::front::Front;
use entresol_core::{BackgroundJob, DequeuePages, Load};
use entresol_runtime::{Time, now};
use entresol_shm::Gone;
use std::sync::atomic::Ordering::Relaxed;

impl Back {
    /// Does everything but writes until the tier stops.
    pub(crate) fn background_task(&self) {
        let mut scratch =
            AlignedBuffer::new(self.front.config.group_pages as usize * self.front.page_bytes());
        let mut pages = DequeuePages::new();
        loop {
            let seen = self.front.background.epoch();
            let Some(under_way) = self.begin_job() else { return };
            let job = match self.next_background(&mut pages) {
                Ok(Some(job)) => job,
                Ok(None) => match self.settle_dead_if_possible() {
                    Ok(true) => continue,
                    Ok(false) => {
                        drop(under_way);
                        self.front.background.wait(seen);
                        continue;
                    }
                    Err(error) => return self.fail(error),
                },
                Err(gone) => return self.fail(gone.into()),
            };
            // There may be more: another task looks.
            self.front.background.notify_one();
            let begin = now();
            let done = match job {
                BackgroundJob::PullVictims(count) => {
                    self.pull(count);
                    Ok(())
                }
                BackgroundJob::Dequeue { ticket, one_io } if self.is_log() => {
                    self.dequeue_group(ticket, &pages, one_io, &mut scratch)
                }
                BackgroundJob::Dequeue { .. } | BackgroundJob::Clean(_) => {
                    self.copy_some(job, &mut pages, &mut scratch)
                }
            };
            if let Err(error) = done {
                self.fail(error);
                return;
            }
            self.front.tallies().background_took.ends(begin);
            self.front.job_is_done();
        }
    }

    /// The next job; the pages of a dequeue in `pages`. Looking for one may already make room, where clean
    /// pages are dropped: then the writers are told.
    fn next_background(&self, pages: &mut DequeuePages) -> Result<Option<BackgroundJob>, Gone> {
        let load = self.load();
        let (job, made_room) = self.front.with_objects(|partition, objects| {
            if let Some(load) = load {
                partition.observe(load);
            }
            if let Some(objects) = objects {
                Front::drop_dead_of_next_dequeue(partition, objects);
            }
            let valid = partition.occupancy().valid;
            let job = partition.take_background(pages, self.spares_writes.load(Relaxed));
            (job, partition.occupancy().valid < valid)
        })?;
        if made_room {
            self.front.writes.notify_one();
        }
        Ok(job)
    }

    /// How long the devices have been at work, for a policy that weighs costs, if that is known.
    fn load(&self) -> Option<Load> {
        if !self.front.config.policy.facts().weighs_costs {
            return None;
        }
        let times = [now().since(Time(0)), self.log()?.work.total(), self.disk.busy()?];
        let [now_ns, ring_busy_ns, disk_busy_ns] = times.map(|time| time.as_nanos() as u64);
        Some(Load { now_ns, ring_busy_ns, disk_busy_ns })
    }

    fn pull(&self, pages: u32) {
        if let Some(upstream) = self.upstream() {
            self.front.tallies().pulled.add(upstream.pull_victims(pages as usize));
        }
    }

    /// Slot placement: copies the page of `first` to disk, together with others that are to go. `pages`:
    /// those of `first`, if it is a dequeue; overwritten.
    fn copy_some(
        &self,
        first: BackgroundJob,
        pages: &mut DequeuePages,
        scratch: &mut [u8],
    ) -> Result<(), TierError> {
        let mut copies = Copies::new(scratch.len() / self.front.page_bytes());
        copies.add(first, pages);
        while copies.has_room() {
            match self.next_background(pages)? {
                Some(job) => copies.add(job, pages),
                None => break,
            }
        }
        self.copy_to_disk(&copies, scratch)
    }
}
