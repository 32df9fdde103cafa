//! The jobs of the partition, in steps.

use super::*;

impl World {
    /// False if there is no job.
    pub(super) fn take_job(&mut self, writes_only: bool) -> bool {
        let mut partition = partition!(self);
        let job = if writes_only { partition.next_write() } else { partition.next_job() };
        let flush = match &job {
            Some(Job::Write { ticket, .. }) => partition.log().and_then(|log| log.flush_of(*ticket)),
            _ => None,
        };
        self.model.job(job.as_ref(), flush.as_ref(), writes_only);
        let Some(job) = job else { return false };
        match job {
            Job::Write { ticket, pages, completes_group, .. } => {
                let end = pages.last().map_or(0, |page| page.position.0 + 1);
                // So that a restart finds a group free.
                let kept_free = if self.config.refusals { u64::from(self.config.group_pages) } else { 0 };
                let must = end + kept_free > self.recorded_front + u64::from(self.config.slots);
                if must || !self.front_lags {
                    self.record_front();
                }
                for page in pages.iter().filter(|page| page.page.is_some()) {
                    let content =
                        self.staging[page.frame.0 as usize].expect("only complete copies are written");
                    assert_eq!((Some(id(content.page)), content.position), (page.page, page.position.0));
                    assert_eq!(content.dirty, page.dirty);
                    // A page from disk has no LSN.
                    assert!(page.lsn == Lsn(content.version) || (page.lsn == Lsn(0) && !page.dirty));
                    let cell = &mut self.flash[page.slot.0 as usize];
                    assert!(cell.writing.is_none(), "one write at a time to slot {}", page.slot.0);
                    cell.writing = Some(content);
                    let before = std::mem::replace(&mut cell.stamp, page.stamp.0);
                    let is_told =
                        self.config.policy.placement() == Placement::Log || cell.stamp as u8 != before as u8;
                    assert!(is_told, "a write to slot {} looks like the one before it", page.slot.0);
                }
                let group = u64::from(self.config.group_pages);
                let summing = match &flush {
                    Some(flush) => Some(self.compose_summary(ticket, flush.first.0, flush.upto.into())),
                    None if completes_group => {
                        Some(self.compose_summary(ticket, pages[0].position.0 / group * group, group))
                    }
                    None => None,
                };
                self.count_flush(flush.as_ref());
                self.record_bases(&pages);
                self.jobs.push(InFlight::Write { ticket, pages, flush, summing });
            }
            Job::Dequeue { ticket, pages, .. } => {
                self.jobs.push(InFlight::Dequeue { ticket, pages, read: Vec::new(), step: Step::Read });
                let dequeues = self.jobs.iter().filter(|job| matches!(job, InFlight::Dequeue { .. })).count();
                self.dequeues_at_once = self.dequeues_at_once.max(dequeues);
            }
            Job::Clean(page) => self.jobs.push(InFlight::Clean { page, read: Vec::new(), step: Step::Read }),
            Job::PullVictims(count) => {
                let coldest: Vec<u32> = self.dram.keys().copied().take(count as usize).collect();
                for page in coldest {
                    self.evict_page(page, false);
                }
            }
        }
        true
    }

    pub(super) fn read(&self, pages: &[DequeuePage]) -> Vec<Content> {
        let wanted = pages.iter().filter(|page| page.fate != Fate::Drop);
        let read = wanted.map(|page| {
            let cell = self.flash[page.slot.0 as usize];
            assert!(cell.writing.is_none(), "slot {} is overwritten while it is needed", page.slot.0);
            let content = cell.content.expect("a page on flash");
            assert_eq!(Some(id(content.page)), page.page);
            assert!(page.generation.matches(Position(cell.stamp)));
            content
        });
        read.collect()
    }

    pub(super) fn start_destage(&mut self, content: &Content) {
        let before = self.disk_writes.insert(content.page, content.version);
        assert_eq!(before, None, "two versions of page {} on their way to disk", content.page);
    }

    pub(super) fn end_destage(&mut self, content: &Content) {
        let page = content.page as usize;
        assert!(content.version >= self.disk[page], "the disk copy of page {page} would go back");
        self.destages += 1;
        self.redundant_destages += u64::from(content.version == self.disk[page]);
        self.disk_writes.remove(&content.page);
        self.disk[page] = content.version;
        self.dead.unsynced.remove(&content.page);
        self.durable[page] = self.durable[page].max(content.version);
        if let Some(frame) = self.dram.get_mut(&content.page).filter(|f| f.version == content.version) {
            frame.dirty = false;
        }
    }

    /// Advances a random job by one step.
    pub(super) fn advance_job(&mut self, choices: &mut Choices) {
        if !self.jobs.is_empty() {
            let at = choices.below(self.jobs.len());
            self.advance(at);
        }
    }

    /// False if the job waits.
    pub(super) fn advance(&mut self, at: usize) -> bool {
        let mut job = self.jobs.swap_remove(at);
        let (over, moved) = match &mut job {
            InFlight::Write { ticket, pages, flush, summing } => {
                self.complete_write(*ticket, pages, flush.as_ref(), summing.as_ref());
                (true, true)
            }
            InFlight::Clean { page, read, step } => {
                let end = self.advance_destage(&[destaged(page)], read, step);
                if end {
                    self.model.cleaned(page);
                    partition!(self).cleaned(page);
                }
                (end, true)
            }
            InFlight::Dequeue { ticket, pages, read, step } => match *step {
                Step::Restage(from) if from < pages.len() => {
                    let next = self.restage(*ticket, pages, read, from);
                    if next == Some(pages.len()) {
                        self.model.restaged(pages);
                        if let Some(log) = partition!(self).log_mut() {
                            log.restaged(*ticket);
                        }
                    }
                    *step = Step::Restage(next.unwrap_or(from));
                    (false, next.is_some())
                }
                Step::Restage(_) if self.filling.iter().any(|f| f.dequeue == Some(*ticket)) => (false, false),
                Step::Restage(_) => {
                    self.model.dequeued(pages);
                    partition!(self).dequeued(*ticket);
                    (true, true)
                }
                Step::Keep(refused) => {
                    let got = log(&mut partition!(self)).keep(*ticket);
                    self.model.keep(pages, got);
                    if got {
                        let is_refused = |at: &usize| refused >> at & 1 == 1;
                        (0..pages.len())
                            .filter(is_refused)
                            .for_each(|at| pages[at].fate = Fate::SecondChance);
                        self.kept += u64::from(refused.count_ones());
                        *step = Step::Restage(0);
                    } else if self.is_stuck {
                        // Until the disk takes them.
                        self.refused.clear();
                        self.stuck += 1;
                        *step = Step::StartDestage;
                    }
                    (false, got || self.is_stuck)
                }
                _ => {
                    if self.advance_destage(pages, read, step) {
                        self.model.left(pages);
                        if let Some(log) = partition!(self).log_mut() {
                            log.left(*ticket);
                        }
                        if *step == Step::Destaging {
                            *step = Step::Restage(0);
                        }
                    }
                    (false, true)
                }
            },
        };
        if !over {
            self.jobs.push(job);
        }
        moved
    }

    pub(super) fn complete_write(
        &mut self,
        ticket: Ticket,
        pages: &[WritePage],
        flush: Option<&Flush>,
        summing: Option<&Summing>,
    ) {
        if self.config.policy.placement() == Placement::Slots {
            for page in pages {
                let cell = &mut self.flash[page.slot.0 as usize];
                let content = cell.writing.take().expect("it is being written");
                cell.content = Some(content);
                let staged = self.staging[page.frame.0 as usize];
                assert_eq!(staged, Some(content), "a frame keeps its page until it is written");
            }
        }
        if let Some(summing) = summing {
            self.summary_is_durable(summing);
        }
        self.model.written(pages, flush);
        partition!(self).written(ticket, pages);
    }

    /// True when the destages are durable, but for those that the disk refuses.
    pub(super) fn advance_destage(
        &mut self,
        pages: &[DequeuePage],
        read: &mut Vec<Content>,
        step: &mut Step,
    ) -> bool {
        let destaged = |read: &[Content]| -> Vec<Content> {
            let wanted = pages.iter().filter(|page| page.fate != Fate::Drop).zip(read);
            wanted.filter(|(page, _)| page.fate == Fate::Destage).map(|(_, content)| *content).collect()
        };
        match *step {
            Step::Read => {
                *read = self.read(pages);
                *step = Step::StartDestage;
            }
            Step::StartDestage => {
                destaged(read).iter().for_each(|content| self.start_destage(content));
                *step = Step::Destaging;
            }
            _ => {
                self.read(pages); // they must not have been overwritten yet
                let mut refused = 0;
                for content in destaged(read) {
                    let is_it = |page: &&DequeuePage| page.page == Some(id(content.page));
                    if pages.len() > 1 && self.refused.contains(&content.page) {
                        let at = pages.iter().position(|page| is_it(&page)).expect("it was read");
                        refused |= 1 << at;
                        self.disk_writes.remove(&content.page);
                    } else {
                        self.end_destage(&content);
                    }
                }
                if refused != 0 {
                    *step = Step::Keep(refused);
                }
                return true;
            }
        }
        false
    }

    /// Restages the next page with a second chance, at or after `from`. Returns where to continue; `None`:
    /// wait.
    pub(super) fn restage(
        &mut self,
        ticket: Ticket,
        pages: &[DequeuePage],
        read: &[Content],
        from: usize,
    ) -> Option<usize> {
        let chances = pages.iter().enumerate().skip(from);
        let Some((at, page)) = chances.clone().find(|(_, page)| page.fate == Fate::SecondChance) else {
            return Some(pages.len());
        };
        let is_read = |c: &&Content| page.generation == Generation::Exact(Position(c.position));
        let content = *read.iter().find(is_read).expect("it was read");
        let before = partition!(self).slot(page.slot).expect("the slot is in use");
        let got = log(&mut partition!(self)).restage(ticket, page, Lsn(content.version));
        self.model.restage(page, got);
        match got {
            Admission::Full => {
                self.waits += 1;
                return None;
            }
            Admission::Bypass { .. } => panic!("a second chance was promised"),
            Admission::AlreadyThere => {
                let after = partition!(self).slot(page.slot).expect("the slot is in use");
                if before.valid && !after.valid && before.dirty {
                    self.dies_before_its_turn(content.page);
                }
            }
            Admission::Stage { frame, position } => {
                self.second_chances += 1;
                let content = Content { position: position.0, dirty: page.dirty, ..content };
                self.staging[frame.0 as usize] = None;
                self.filling.push(Filling { content, frame: frame.0, dequeue: Some(ticket) });
            }
        }
        Some(at + 1)
    }

    pub(super) fn close_group(&mut self) {
        partition!(self).close_group();
        self.model.close_group();
    }

    pub(super) fn sweep_one(&mut self) {
        let from = SlotId(self.sweep);
        let Some(got) = partition!(self).slots_mut().map(|slots| slots.sweep(from)) else { return };
        self.model.swept(from, &got);
        match got {
            None => self.sweep = 0,
            Some(Err(slot)) => self.sweep = slot.0,
            Some(Ok(page)) => {
                self.sweep = page.slot.0;
                self.jobs.push(InFlight::Clean { page, read: Vec::new(), step: Step::Read });
            }
        }
    }

    /// The owner wants a page on disk.
    pub(super) fn clean_one(&mut self, page: u32) {
        let got = partition!(self).clean(id(page));
        self.model.clean(id(page), &got);
        if let Cleaning::Copy(page) = got {
            self.jobs.push(InFlight::Clean { page, read: Vec::new(), step: Step::Read });
        }
    }
}
