//! Steps of the writer and of the background task.

use super::devices::{Copy, GroupWrite, Summary};
use super::tasks::{Dequeuing, Writing};
use super::world::{Broken, GROUP_PAGES, Step, World, log};
use entresol_core::{
    Admission, BackgroundJob, DequeuePages, Fate, Generation, Lsn, Partition, Position, Ticket, WritePages,
};
use zerocopy::IntoBytes;

impl World {
    pub(super) fn step_writer(&mut self, nth: usize, at: &mut Writing) -> Step {
        *at = match std::mem::replace(at, Writing::Look) {
            Writing::Look => {
                self.sleep[nth].told = false;
                let (mut pages, mut partition) = (WritePages::new(), partition!(self));
                let Some(job) = partition.take_write(&mut pages) else {
                    self.sleeps(nth);
                    return Ok(());
                };
                let flush = log(&mut partition).flush_of(job.ticket);
                let end = flush.map(|flush| flush.first.0 + u64::from(flush.upto));
                let end = end.into_iter().chain(pages.last().map(|page| page.position.0 + 1)).max();
                let needed = self.devices.front_needed(end.unwrap_or(0));
                if self.devices.recorded_front().0 < needed {
                    self.devices.front = partition.window().0.0;
                }
                Writing::Compose(job, pages)
            }
            Writing::Compose(job, pages) => {
                let mut partition = partition!(self);
                let log = log(&mut partition);
                let flush = log.flush_of(job.ticket);
                let group = u64::from(GROUP_PAGES);
                let first = flush.map_or_else(|| pages[0].position.0 / group * group, |flush| flush.first.0);
                let upto = flush.map_or(GROUP_PAGES, |flush| flush.upto);
                let needs_summary = job.completes_group || flush.is_some();
                let named = log.staged_pages(Position(first)) & ((1 << upto) - 1);
                let durable = log.causes_durable();
                let (records, end) =
                    if needs_summary { log.records(job.ticket, durable) } else { Default::default() };
                let mut repeated = self.devices.records_of(first);
                if self.broken == Some(Broken::RecordNotRepeated) {
                    repeated.clear();
                }
                repeated.extend(records);
                let front = partition.window().0.0;
                let summary = Summary { first, named, records: repeated, front };
                let copies = pages.iter().filter(|page| page.page.is_some());
                let copies = copies.map(|page| self.staging[page.frame.0 as usize].expect("it is filled"));
                let copies = copies.collect();
                self.devices.write_group(GroupWrite { copies, summary: needs_summary.then_some(summary) });
                if self.broken == Some(Broken::RecordedBeforeItsSync) {
                    super::world::log(&mut partition!(self)).recorded(end);
                }
                Writing::Sync(job.ticket, pages, end, needs_summary.then_some(front))
            }
            Writing::Sync(ticket, pages, end, front) => {
                self.devices.sync_flash();
                Writing::Recorded(ticket, pages, end, front)
            }
            Writing::Recorded(ticket, pages, end, front) => {
                let mut partition = partition!(self);
                if front.is_some() {
                    log(&mut partition).recorded(end);
                    log(&mut partition).front_is_durable(self.devices.recorded_front());
                }
                Writing::Written(ticket, pages)
            }
            Writing::Written(ticket, pages) => {
                partition!(self).written(ticket, &pages);
                self.job_is_done();
                Writing::Look
            }
        };
        Ok(())
    }

    pub(super) fn step_background(&mut self, nth: usize, at: &mut Dequeuing) -> Step {
        *at = match std::mem::replace(at, Dequeuing::Look) {
            Dequeuing::Look => {
                self.sleep[nth].told = false;
                let (mut pages, mut partition) = (DequeuePages::new(), partition!(self));
                match partition.take_background(&mut pages, false) {
                    Some(BackgroundJob::Dequeue { ticket, .. }) => Dequeuing::Restage(ticket, pages, 0),
                    Some(_) => Dequeuing::Look,
                    None => match log(&mut partition).settle_due() {
                        Some(due) => Dequeuing::Settle(due, None),
                        None => {
                            self.sleeps(nth);
                            Dequeuing::Look
                        }
                    },
                }
            }
            Dequeuing::Restage(ticket, pages, from) => self.restage(nth, ticket, pages, from),
            Dequeuing::Destage(ticket, pages) => {
                for destaged in pages.iter().filter_map(|page| page.to_clean()) {
                    let Generation::Exact(position) = destaged.generation else { unreachable!("a log") };
                    let copy = self.devices.read(position.0).expect("it is in its slot");
                    let promise = self.promises.entry(copy.page).or_default();
                    if copy.version <= promise.closed || copy.version < self.devices.on_disk(copy.page) {
                        return Err(format!("{copy:?} is deleted, and written to disk"));
                    }
                    self.devices.write_disk(copy.page, copy.version);
                }
                Dequeuing::Sync(ticket, pages)
            }
            Dequeuing::Sync(ticket, pages) => {
                if pages.iter().any(|page| page.to_clean().is_some()) {
                    self.devices.sync_disk();
                }
                Dequeuing::Ends(ticket)
            }
            Dequeuing::Ends(ticket) => {
                partition!(self).dequeued(ticket);
                self.job_is_done();
                match log(&mut partition!(self)).settle_for_slots() {
                    Some(due) => Dequeuing::Settle(due, None),
                    None => Dequeuing::Look,
                }
            }
            Dequeuing::Settle(due, rest) => {
                if due.needs_sync() {
                    self.devices.sync_disk();
                }
                self.settled(&due);
                rest.map_or(Dequeuing::Look, |(ticket, pages, from)| Dequeuing::Restage(ticket, pages, from))
            }
        };
        Ok(())
    }

    fn restage(&mut self, nth: usize, ticket: Ticket, pages: DequeuePages, from: usize) -> Dequeuing {
        self.sleep[nth].told = false;
        let mut partition = partition!(self);
        let chance = pages.iter().enumerate().skip(from).find(|(_, page)| page.fate == Fate::SecondChance);
        let Some((at, chance)) = chance else {
            if pages.iter().any(|page| page.fate == Fate::SecondChance) {
                log(&mut partition).restaged(ticket);
            }
            return Dequeuing::Destage(ticket, pages);
        };
        match log(&mut partition).restage(ticket, chance, Lsn(0)) {
            Admission::Stage { frame, position } => {
                let Generation::Exact(before) = chance.generation else { unreachable!("a log") };
                let copy = self.devices.read(before.0).expect("it is in its slot");
                self.staging[frame.0 as usize] = Some(Copy { position: position.0, ..copy });
                partition.staged(frame);
                self.tell_writer();
                Dequeuing::Restage(ticket, pages, at + 1)
            }
            Admission::AlreadyThere => Dequeuing::Restage(ticket, pages, at + 1),
            _ => match log(&mut partition).settle_due() {
                Some(due) => Dequeuing::Settle(due, Some((ticket, pages, at))),
                None => {
                    self.sleeps(nth);
                    Dequeuing::Restage(ticket, pages, at)
                }
            },
        }
    }
}
