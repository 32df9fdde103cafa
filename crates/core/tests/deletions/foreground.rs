//! Steps of those who delete, flush and evict.

use super::devices::Version;
use super::tasks::{Deleting, Flushing};
use super::world::{Broken, Step, World, log};
use entresol_core::{Deletion, Extent, FlushGoal, Lookup, Next, PageId, Partition, Settle};
use zerocopy::IntoBytes;

impl World {
    pub(super) fn step_deleter(
        &mut self,
        nth: usize,
        deletion: &mut Deletion,
        (first, last): (PageId, PageId),
        write: Option<(PageId, Version)>,
        at: &mut Deleting,
    ) -> Step {
        match *at {
            Deleting::Steps => {
                self.sleep[nth].told = false;
                if write.is_none() {
                    let promises = self.promises.range_mut(first..=last);
                    promises.for_each(|(_, promise)| (promise.dies, promise.least) = (true, 0));
                }
                match deletion.step(&mut partition!(self)) {
                    Next::Step { room } => {
                        if room {
                            self.job_is_done();
                        }
                        if self.broken == Some(Broken::WriteBeforeTheDestage)
                            && let Some((page, version)) = write
                        {
                            self.devices.write_disk(page, version);
                        }
                    }
                    Next::Await { records } => {
                        if records {
                            log(&mut partition!(self)).write_records(false);
                            self.tell_writer();
                        }
                        self.tell_background();
                        self.sleeps(nth);
                    }
                    Next::Done { found } => {
                        if found > 0 {
                            self.job_is_done();
                        }
                        self.is_deleted((first, last), write.is_none())?;
                        *at = if write.is_some() { Deleting::Write } else { Deleting::Ends };
                        if self.broken == Some(Broken::CauseEndsBeforeItsWrite) && write.is_some() {
                            self.cause_ends(deletion);
                        }
                    }
                }
            }
            Deleting::Write => {
                let (page, version) = write.expect("it is about to be written");
                self.devices.write_disk(page, version);
                self.promises.entry(page).or_default().current = version;
                *at = Deleting::Ends;
            }
            Deleting::Ends => {
                self.cause_ends(deletion);
                *at = Deleting::Over;
            }
            Deleting::Over => {}
        }
        Ok(())
    }

    fn cause_ends(&mut self, deletion: &Deletion) {
        if let Some(cause) = deletion.cause() {
            log(&mut partition!(self)).cause_ends(cause);
        }
        self.job_is_done();
    }

    /// A deletion says that no reader finds these pages, and no older version is on its way to disk.
    fn is_deleted(&mut self, (first, last): (PageId, PageId), are_dead: bool) -> Step {
        let partition = partition!(self);
        for (id, promise) in self.promises.range_mut(first..=last) {
            if partition.peek(*id) != Lookup::Absent {
                return Err(format!("{id:?} is deleted and is served"));
            }
            promise.closed = promise.current;
            promise.is_dead = are_dead;
        }
        Ok(())
    }

    pub(super) fn step_flusher(&mut self, nth: usize, published: bool, at: &mut Flushing) -> Step {
        *at = match std::mem::replace(at, Flushing::Over) {
            Flushing::SyncCallers => {
                self.snapshots.insert(nth, self.promises.clone());
                let due = log(&mut partition!(self)).settle_for_slots();
                self.devices.sync_disk();
                if let Some(due) = due {
                    self.settled(&due);
                }
                Flushing::Begin
            }
            Flushing::Begin => {
                let extent = if published { Extent::Published } else { Extent::Flushed };
                let goal = FlushGoal::begin(&mut partition!(self), extent);
                self.tell_writer();
                Flushing::Look(goal)
            }
            Flushing::Look(goal) => {
                self.sleep[nth].told = false;
                let mut partition = partition!(self);
                let for_records = log(&mut partition).settle_for_records();
                let may_record = for_records.is_none_or(|due| due.suffices());
                let for_records = for_records.filter(Settle::needs_sync);
                let due = log(&mut partition).settle_due();
                match for_records.is_some() || due.is_some() {
                    true => Flushing::Settle(goal, for_records, due, may_record),
                    false => Flushing::Step(goal, may_record),
                }
            }
            Flushing::Settle(goal, for_records, due, may_record) => {
                let settles: Vec<Settle> = for_records.into_iter().chain(due).collect();
                if settles.iter().any(Settle::needs_sync) {
                    self.devices.sync_disk();
                }
                settles.iter().for_each(|due| self.settled(due));
                Flushing::Step(goal, may_record)
            }
            Flushing::Step(mut goal, may_record) => {
                let mut partition = partition!(self);
                let is_flushed = partition.flushed() >= goal.rear();
                let leaves_records = self.broken == Some(Broken::FlushLeavesRecords) && is_flushed;
                if goal.step(&mut partition, may_record, false) || leaves_records {
                    self.promise(nth);
                    Flushing::Over
                } else {
                    self.tell_writer();
                    self.tell_background();
                    self.sleeps(nth);
                    Flushing::Look(goal)
                }
            }
            Flushing::Over => Flushing::Over,
        };
        Ok(())
    }

    pub(super) fn settled(&mut self, due: &Settle) {
        let mut due = *due;
        if self.broken == Some(Broken::SettledByAnEarlierSync) {
            // The causes that have ended by now, though the sync began earlier.
            due = log(&mut partition!(self)).settle_for_records().unwrap_or(due);
        }
        log(&mut partition!(self)).settled(&due, true);
        if self.broken != Some(Broken::SettledIsNotTold) {
            self.job_is_done();
        }
    }

    /// A flush has returned: what was before it is durable.
    fn promise(&mut self, nth: usize) {
        for (page, before) in self.snapshots.remove(&nth).unwrap_or_default() {
            let promise = self.promises.get_mut(&page).expect("pages stay known");
            if before.is_dead {
                promise.least_on_flash = before.current + 1;
            } else if !promise.dies {
                promise.least = promise.least.max(before.current);
            }
        }
    }

    pub(super) fn step_evictor(&mut self, nth: usize, pages: &mut Vec<(PageId, Version, bool)>) -> Step {
        self.sleep[nth].told = false;
        let (page, version, dirty) = pages[0];
        match self.evict(page, version, dirty) {
            Some(()) => drop(pages.remove(0)),
            None => {
                self.tell_background();
                self.sleeps(nth);
            }
        }
        Ok(())
    }
}
