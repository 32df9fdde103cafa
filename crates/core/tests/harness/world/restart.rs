//! Crashes and restarts.

use super::*;

impl World {
    /// The machine crashes and the tier is opened again.
    pub fn crash(&mut self, choices: &mut Choices) {
        self.crashes += 1;
        let recorded = choices.once_in(2) || self.needs_recorded_front();
        let rule = if recorded { Front::Recorded } else { Front::Verified };
        let recovered = crash::recover(self, choices, rule);
        let (front, rear) = crash::positions(&recovered);
        let known = self.known_bases();
        self.region.fill(!0);
        let mut partition =
            Partition::format(self.region.as_mut_bytes(), &self.config).expect("a valid configuration");
        partition.set_costs(&costs(&self.config));
        let entries: Vec<_> =
            recovered.entries.iter().map(|c| (Position(c.position), id(c.page), c.dirty)).collect();
        if let Some(log) = partition.log_mut() {
            log.restore_begin(front);
            let (complete, horizon, bases) = &known;
            log.restore_checkpoint(*complete);
            let base_of = |position: u64| bases.get(&position).map_or(*horizon, |base| *base.max(horizon));
            restore(log, &recovered, u64::from(self.config.group_pages), &base_of);
            log.restore_end(rear);
        }
        self.model.restored(&entries, &recovered.all_records(), front, rear);
        self.assume(&recovered);
        self.restore_bases(&entries);
        self.assert_restored(&recovered);
    }

    pub(super) fn assume(&mut self, recovered: &Recovered) {
        let newest = recovered.newest();
        for page in 0..self.disk.len() {
            let served = newest.get(&(page as u32)).map_or(recovered.disk[page], |content| content.version);
            (self.current[page], self.durable[page]) = (served, served);
        }
        self.disk.clone_from(&recovered.disk);
        for (page, content) in &newest {
            // An older version is back, since the write past the cache was not recorded. The database redoes
            // that write; here it is as if there had been none.
            let disk = &mut self.disk[*page as usize];
            *disk = content.version.min(*disk);
        }
        self.dead.crash();
        self.holds_end();
        self.walking.begin_anew();
        self.flush_promised = 0;
        self.summaries = recovered.summaries.clone();
        self.disk_writes.clear();
        self.flash = recovered
            .flash
            .iter()
            .map(|content| {
                let stamp = content.map_or(0, |content| content.position);
                Cell { content: *content, writing: None, stamp }
            })
            .collect();
        self.staging.fill(None);
        self.dram.clear();
        self.filling.clear();
        self.jobs.clear();
        self.sweep = 0;
        (self.restored_front, self.restored_rear) = (recovered.front, recovered.rear);
        self.recorded_front = recovered.front;
    }

    pub(super) fn assert_restored(&mut self, recovered: &Recovered) {
        let partition = partition!(self);
        let newest = recovered.newest();
        for page in 0..self.disk.len() as u32 {
            let expected = newest.get(&page).map_or(Lookup::Absent, |content| Lookup::Flash {
                slot: SlotId((content.position % self.config.slots as u64) as u32),
                generation: entresol_core::Generation::Exact(Position(content.position)),
                dirty: content.dirty,
            });
            assert_eq!(partition.peek(id(page)), expected, "page {page} after the restart");
        }
        let dirty: Vec<_> = partition.dirty_slots().collect();
        let expected = newest.values().filter(|content| content.dirty).count();
        assert_eq!(dirty.len(), expected, "dirty slots after the restart");
    }
}

/// Restores entries and records as `restore.rs` prescribes: in ascending order of the groups that name them.
fn restore(log: &mut Log<'_>, recovered: &Recovered, group: u64, base_of: &dyn Fn(u64) -> u64) {
    let mut records = recovered.records.iter().peekable();
    let mut apply = |log: &mut Log<'_>, before: u64| {
        while let Some(summary) = records.next_if(|summary| summary.first < before) {
            summary.records.iter().for_each(|record| log.restore_forget(record));
        }
    };
    for content in &recovered.entries {
        apply(log, content.position / group * group);
        let position = Position(content.position);
        log.restore_entry(position, id(content.page), content.dirty);
        log.restore_proof(position, proof(content));
        log.restore_base(position, base_of(position.0));
    }
    apply(log, u64::MAX);
}
