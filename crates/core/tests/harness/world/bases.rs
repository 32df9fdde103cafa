//! The owner's checkpoints, and what its log must keep in case that the flash is lost: of each page that the
//! disk lacks, everything since the checkpoint that was complete when the oldest missing version was handed
//! down. The model knows these versions; the partition must never name a later horizon.

use super::*;
use entresol_core::BASES_MAX;

/// See the module's header.
#[derive(Default)]
pub struct Bases {
    /// The last complete checkpoint.
    complete: u64,
    /// A checkpoint has begun; the newest death then.
    begun: Option<u64>,
    /// By page: versions handed down, each with the checkpoint that was complete then.
    handed: BTreeMap<u32, BTreeMap<u64, u64>>,
    /// What the summaries on flash say, by position.
    recorded: BTreeMap<u64, u64>,
    /// The newest horizon.
    horizon: u64,
    /// Counters: checkpoints, those that had to wait for old pages, and horizons that moved.
    pub completed: u64,
    pub refused: u64,
    pub moved: u64,
}

impl World {
    pub(super) fn handed_down(&mut self, page: u32, version: u64, fdirty: bool) {
        if self.config.keeps_bases {
            let (complete, durable) = (self.bases.complete, self.durable(page));
            let is_missing = fdirty || version > durable;
            assert!(
                is_missing,
                "version {version} of page {page} enters as a dirty one, and the disk has it"
            );
            self.bases.handed.entry(page).or_default().entry(version).or_insert(complete);
        }
    }

    /// A write of these pages begins: with their summary.
    pub(super) fn record_bases(&mut self, pages: &[WritePage]) {
        if !self.config.keeps_bases {
            return;
        }
        let partition = partition!(self);
        let log = partition.log().expect("only a log keeps bases");
        for page in pages {
            if let Some(base) = log.staged_base(page.position) {
                assert!(page.dirty, "only dirty pages have a base");
                self.bases.recorded.insert(page.position.0, base);
            }
        }
    }

    /// The version of a page that the disk has even if power fails.
    fn durable(&self, page: u32) -> u64 {
        self.dead.unsynced.get(&page).map_or(self.disk[page as usize], |unsynced| unsynced.before)
    }

    /// The log must be kept from this checkpoint on.
    fn needed(&mut self) -> u64 {
        let mut handed = std::mem::take(&mut self.bases.handed);
        for (page, versions) in &mut handed {
            // What was durable on disk once is not needed again: it is never written again, and if the write
            // of a later version is torn, the log has an image of it from after the base of that version.
            let durable = self.durable(*page);
            versions.retain(|version, _| *version > durable);
        }
        self.bases.handed = handed;
        let needed = self.bases.handed.values().flat_map(BTreeMap::values).min();
        needed.copied().unwrap_or(self.bases.complete)
    }

    pub(super) fn verify_bases(&mut self) {
        if !self.config.keeps_bases {
            return;
        }
        let needed = self.needed();
        let partition = partition!(self);
        let log = partition.log().expect("only a log keeps bases");
        let horizon = log.horizon();
        assert_eq!(log.last_checkpoint(), self.bases.complete);
        assert!(
            horizon <= needed,
            "the log is kept from checkpoint {horizon} on, {needed} is not there then"
        );
        assert!(horizon >= self.bases.horizon, "horizon {horizon} after {}", self.bases.horizon);
        assert_eq!(log.behind(horizon), 0, "pages behind the horizon {horizon}");
        self.bases.moved += u64::from(horizon > self.bases.horizon);
        self.bases.horizon = horizon;
    }

    /// A step of the owner's checkpoint, or of the cleaner that makes the horizon move.
    pub(super) fn checkpoint_step(&mut self, choices: &mut Choices) {
        if choices.once_in(2) {
            let partition = partition!(self);
            let log = partition.log().expect("only a log keeps bases");
            let before = self.bases.complete + 1 - [0, 3, 20][choices.below(3)].min(self.bases.complete);
            let old = log.dirty_based_before(0..self.config.slots, before).next();
            if let Some(page) = old {
                self.clean_one(page.number());
            }
            return;
        }
        match self.bases.begun {
            None => self.bases.begun = Some(self.dead.newest),
            Some(newest) if self.dead.are_durable_to(newest) => {
                let next = self.bases.complete + [1, 1, 1, 40][choices.below(4)];
                let is_old = next - self.bases.horizon > BASES_MAX;
                let got = log(&mut partition!(self)).checkpoint_complete(next);
                assert_eq!(
                    got, !is_old,
                    "checkpoint {next}, and the log is kept from {}",
                    self.bases.horizon
                );
                if got {
                    (self.bases.complete, self.bases.begun) = (next, None);
                }
                self.bases.completed += u64::from(got);
                self.bases.refused += u64::from(!got);
            }
            Some(_) => {}
        }
    }

    /// Tells a restarted partition what the summaries say.
    pub(super) fn restore_bases(&mut self, entries: &[(Position, PageId, bool)]) {
        for versions in self.bases.handed.iter_mut() {
            // What is lost is redone, and handed down anew.
            versions.1.retain(|version, _| *version <= self.current[*versions.0 as usize]);
        }
        self.bases.begun = None;
        self.bases.recorded.retain(|position, _| entries.iter().any(|entry| entry.0.0 == *position));
    }

    /// The bases of the entries that a restart finds.
    pub(super) fn known_bases(&self) -> (u64, u64, BTreeMap<u64, u64>) {
        (self.bases.complete, self.bases.horizon, self.bases.recorded.clone())
    }

    /// When the disk has everything, nothing of the log is needed but the last checkpoint's.
    pub fn assert_horizon_arrives(&mut self) {
        self.settle(true);
        self.drain();
        for page in 0..self.disk.len() as u32 {
            self.clean_one(page);
            self.settle(false);
        }
        // What was forgotten counts for two more checkpoints.
        for _ in 0..2 {
            let next = self.bases.complete + 1;
            assert!(log(&mut partition!(self)).checkpoint_complete(next), "nothing is dirty");
            self.bases.complete = next;
        }
        let horizon = log(&mut partition!(self)).horizon();
        assert_eq!(horizon, self.bases.complete, "the disk has everything");
        self.verify();
    }
}
