//! The naive form of what `reuse` learns: notes with whole times, nothing limited to a few bits, tables
//! computed from their definitions.

use super::reuse_classes::{Class, NEW, bucket};
use super::reuse_regions::{Forecast, Regions};
use super::s3_fifo_order::Ghosts;
use entresol_core::{Config, Costs, PageId, Placement};

pub const CERTAIN: u64 = 1 << 16;
/// Levels of warmth of the regions of new pages, in the ring.
const LEVELS: usize = 12;

/// What is known of a page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Note {
    class: usize,
    epoch: u64,
}

impl Note {
    /// Of a page that a restart has found.
    pub const NEW: Self = Self { class: NEW, epoch: 0 };
}

/// What devices cost in a run with this configuration: unknown in every third, and flash of three speeds. In
/// some its owner wants fewer writes.
pub fn costs(config: &Config) -> Costs {
    let groups = config.slots / config.group_pages;
    let write = [0, 20, 200, 3, 3][groups as usize % 5];
    if write == 0 {
        return Costs::default();
    }
    let worth = [0, 150, 0, 1200][groups as usize % 4];
    Costs { write_worth_permille: worth, ..Costs::of_times_ns([30, 10, 3 * write, write, 100, 110]) }
}

/// Pages, by what was done.
#[derive(Default)]
struct Work {
    flash_reads: u64,
    dequeue_reads: u64,
    flash_writes: u64,
    disk_reads: u64,
    disk_writes: u64,
}

pub struct Evidence {
    slots: u64,
    /// Notes of pages in the cache: those in slots, then those in frames.
    notes: u64,
    in_ring: bool,
    costs: Costs,
    work: Work,
    /// All of it, of which an eighth is forgotten whenever the threshold is adapted.
    recent: Work,
    threshold: u64,
    /// Pages that came back from DRAM to a dirty version; how many of them had changed; their share.
    returned: u64,
    rewritten: u64,
    saves: u64,
    one: u64,
    misses: u64,
    /// Ring: a group was dequeued.
    has_dequeued: bool,
    /// Ring: pages kept out since the last dequeue or look, and looks so far.
    kept_out: u64,
    looks: u64,
    /// Ring: the least weight of pages that stay.
    pub stays_from: u64,
    /// On average, ring: the greatest weight of pages that left; slots: the value of victims.
    margin: u64,
    /// In 64ths of a group.
    share: u64,
    /// Pages dequeued in this turn of the ring.
    turned: u64,
    classes: Vec<Class>,
    /// Ring.
    regions: Option<Regions>,
    /// With whether the page was dirty.
    ghosts: Ghosts<(Note, bool)>,
}

/// Of 64, at first.
fn first_share(costs: &Costs) -> u64 {
    let [_, _, _, write_in_row, disk_read, _] = costs.times_ns().map(u64::from);
    match costs.are_known() {
        false => 52,
        true if write_in_row * 32 < disk_read => 44,
        true => 32,
    }
}

impl Evidence {
    pub fn new(config: &Config) -> Self {
        // Small caches only.
        let one = 256;
        let class = Class::new(one);
        let in_ring = config.policy.placement() == Placement::Log;
        Self {
            slots: config.slots.into(),
            notes: u64::from(config.slots + config.staging_pages()).next_multiple_of(2),
            in_ring,
            costs: costs(config),
            work: Work::default(),
            recent: Work::default(),
            threshold: CERTAIN / 10,
            returned: 0,
            rewritten: 0,
            saves: CERTAIN,
            one,
            misses: 0,
            has_dequeued: false,
            kept_out: 0,
            looks: 0,
            stays_from: (CERTAIN / 10).max(u64::from(costs(config).write_worth_permille) * CERTAIN / 1000),
            share: first_share(&costs(config)),
            turned: 0,
            margin: 0,
            classes: vec![class; if in_ring { 2 * (NEW + LEVELS) } else { 2 * (NEW + 1) }],
            regions: in_ring.then(|| Regions::new(config.slots.into())),
            ghosts: Ghosts::new(config.slots),
        }
    }

    /// Costs from now on; the times are those from before.
    pub fn cost(&mut self, costs: &Costs) {
        self.costs = *costs;
        self.stays_from = self.stays_from.max(self.worth_of_owner());
    }

    /// Whether a page is written to flash in much less time than one is read from disk.
    pub fn writes_are_cheap(&self) -> bool {
        let Costs { flash_write_in_row_ns, disk_read_ns, .. } = self.costs;
        self.costs.are_known() && flash_write_in_row_ns * 32 < disk_read_ns
    }

    /// The least weight of pages that are written, as the owner has it.
    fn worth_of_owner(&self) -> u64 {
        u64::from(self.costs.write_worth_permille) * CERTAIN / 1000
    }

    /// Slots: the owner wants no writes.
    pub fn spares_all_writes(&self) -> bool {
        self.costs.write_worth_permille == Costs::WRITE_WORTH_MAX
    }

    fn epoch_misses(&self) -> u64 {
        (self.slots / 32).max(1)
    }

    fn now(&self) -> u64 {
        self.misses / self.epoch_misses()
    }

    /// The hands move with the next fetch.
    pub fn hands_move(&self) -> bool {
        (self.misses + 1).is_multiple_of(64)
    }

    /// They do; `in_slots`: the note on the page in a slot, and whether it is dirty.
    pub fn meet(&mut self, in_slots: impl Fn(u64) -> Option<(Note, bool)>) {
        let now = (self.misses + 1) / self.epoch_misses();
        let moves = self.misses / 64;
        // Of each eight parts of eight entries the first, then of each the second, and so on.
        let entries = |table: u64| {
            let parts = table.div_ceil(8);
            let order: Vec<u64> = (0..8).flat_map(|at| (at..parts).step_by(8)).collect();
            let part = order[(moves % parts) as usize];
            8 * part..(8 * part + 8).min(table)
        };
        let notes = entries(self.notes).filter(|slot| *slot < self.slots).filter_map(in_slots);
        let ghosts =
            entries(self.slots.div_ceil(8) * 8).filter_map(|word| self.ghosts.in_word(word).copied());
        for (note, dirty) in notes.chain(ghosts).collect::<Vec<_>>() {
            let class = &mut self.classes[2 * note.class + usize::from(dirty)];
            class.watched[bucket(now - note.epoch)] += self.one;
        }
        self.regions.iter_mut().for_each(Regions::cool);
    }

    fn tick(&mut self) {
        self.misses += 1;
        let classes = self.classes.len() as u64;
        let every = (self.slots / 8 / classes).max(1);
        if self.misses.is_multiple_of(every) {
            let class = &mut self.classes[((self.misses / every - 1) % classes) as usize];
            class.uses.iter_mut().chain(&mut class.lost).for_each(|count| *count -= *count / 50);
            class.watched.iter_mut().for_each(|count| *count -= *count / 8);
            class.refresh(self.one, 32);
            if (self.misses / every).is_multiple_of(classes) {
                self.adapt();
            }
        }
    }

    /// The times of flash and of disk.
    fn times(&self, work: &Work) -> (u64, u64) {
        let [read, read_in_row, write, write_in_row, disk_read, disk_write] =
            self.costs.times_ns().map(u64::from);
        let (dequeue_read, write) = if self.in_ring { (read_in_row, write_in_row) } else { (read, write) };
        let flash = work.flash_reads * read + work.dequeue_reads * dequeue_read + work.flash_writes * write;
        (flash, work.disk_reads * disk_read + work.disk_writes * disk_write)
    }

    fn adapt(&mut self) {
        self.saves = (self.rewritten + 32) * CERTAIN / (self.returned + 32);
        self.returned -= self.returned / 8;
        self.rewritten = (self.rewritten - self.rewritten / 8).min(self.returned);
        let work = std::mem::take(&mut self.work);
        let (flash, disk) = self.times(&work);
        let faded = |recent: u64, new: u64| recent - recent / 8 + new;
        self.recent = Work {
            flash_reads: faded(self.recent.flash_reads, work.flash_reads),
            dequeue_reads: faded(self.recent.dequeue_reads, work.dequeue_reads),
            flash_writes: faded(self.recent.flash_writes, work.flash_writes),
            disk_reads: faded(self.recent.disk_reads, work.disk_reads),
            disk_writes: faded(self.recent.disk_writes, work.disk_writes),
        };
        if flash > disk {
            self.threshold = (self.threshold + self.threshold / 10).min(CERTAIN * 6 / 10);
        } else if 10 * flash < 8 * disk {
            self.threshold = (self.threshold - self.threshold / 20).max(CERTAIN / 10);
        }
        self.stays_from = self.stays_from.max(self.threshold);
    }

    /// At the end of a turn of the ring the share moves by one, where flash is not as busy as it should be,
    /// or by four, where it is far from that.
    fn turn(&mut self, pages: u64) {
        self.turned += pages;
        if self.turned >= self.slots {
            self.turned = 0;
            let (flash, disk) = self.times(&self.recent);
            self.share = match 16 * flash {
                flash if flash > 17 * disk => self.share - 4,
                flash if flash > 15 * disk => self.share - 1,
                flash if flash < 11 * disk => self.share + 4,
                flash if flash < 13 * disk => self.share + 1,
                _ => self.share,
            };
            self.share = self.share.clamp(8, 56);
        }
    }

    /// The least weight of pages that are written to flash.
    pub fn least(&self) -> u64 {
        self.threshold.max(self.worth_of_owner())
    }

    /// A group of so many pages is dequeued, whose valid ones have these weights. At most `most` stay.
    pub fn dequeue(&mut self, weights: Vec<u64>, group_pages: u64, most: u64) {
        self.has_dequeued = true;
        self.kept_out = 0;
        self.turn(group_pages);
        self.review(weights, group_pages, most);
    }

    /// Ring: a page is kept out. The number of the group that is to be reviewed now, if one is.
    pub fn looks_at(&mut self, group_pages: u64) -> Option<u64> {
        self.kept_out += 1;
        if !self.has_dequeued || self.kept_out < group_pages {
            return None;
        }
        self.kept_out = 0;
        self.looks += 1;
        Some((self.looks - 1) % (self.slots / group_pages))
    }

    /// The valid pages of a group of so many have these weights. At most `most` would stay.
    pub fn review(&mut self, mut weights: Vec<u64>, group_pages: u64, most: u64) {
        weights.sort();
        let mut staying = 0;
        while staying < most && weights.last().is_some_and(|best| *best >= self.stays_from) {
            weights.pop();
            staying += 1;
        }
        if let Some(best) = weights.last() {
            self.margin = (self.margin * 15 + best) / 16;
        }
        let step = self.stays_from / 32;
        let grows = staying * 64 > group_pages * self.share;
        let changed = if grows { self.stays_from + step } else { self.stays_from - step };
        self.stays_from = changed.clamp(self.least(), CERTAIN.max(self.least()));
    }

    /// Slots: a victim has this value.
    pub fn victim(&mut self, value: u64) {
        self.margin = (self.margin * 15 + value) / 16;
    }

    /// Slots: whether a page of this value has less than one must have to enter.
    pub fn is_worth_little(&self, value: u64) -> bool {
        value / 3 * 2 < self.margin
    }

    /// Whether a page of this weight, which is offered to the ring, is kept out.
    pub fn is_unlikely(&self, weight: u64) -> bool {
        let full = self.has_dequeued && weight < self.stays_from.max(self.margin);
        full || weight < self.worth_of_owner()
    }

    fn used(&mut self, note: Note, dirty: bool) -> Note {
        let now = self.now();
        let bucket = bucket(now - note.epoch);
        self.classes[2 * note.class + usize::from(dirty)].uses[bucket] += self.one;
        // Of a new page of a warm region, the mean with its region's.
        let class = match note.class {
            NEW => bucket,
            class if class > NEW => bucket.midpoint((24 - 2 * (class - NEW)).min(NEW - 1)),
            class => (3 * class + bucket + 2) / 4,
        };
        Note { class: class.min(NEW - 1), epoch: now }
    }

    fn fetched(&mut self, page: PageId) {
        let now = self.now();
        self.regions.iter_mut().for_each(|regions| regions.fetched(page, now));
    }

    pub fn hit(&mut self, page: PageId, note: Note, dirty: bool, on_flash: bool) -> Note {
        self.tick();
        self.work.flash_reads += u64::from(on_flash);
        self.fetched(page);
        self.used(note, dirty)
    }

    pub fn miss(&mut self, page: PageId) {
        self.tick();
        self.work.disk_reads += 1;
        self.fetched(page);
        if let Some((note, dirty)) = self.ghosts.note(page).copied() {
            let note = self.used(note, dirty);
            *self.ghosts.note(page).expect("it is there") = (note, dirty);
        }
    }

    fn class_of(&mut self, page: PageId) -> usize {
        let used = self.ghosts.note(page).map(|(note, _)| note.class).filter(|class| *class < NEW);
        used.unwrap_or_else(|| NEW + self.regions.as_ref().map_or(0, |regions| regions.level(page)))
    }

    /// A page that is in the cache is evicted from DRAM; `dirty`: its version in the cache is, and it counts.
    pub fn given_up(&mut self, note: &mut Note, dirty: bool, has_changed: bool) {
        self.returned += u64::from(dirty);
        self.rewritten += u64::from(dirty && has_changed);
        note.epoch = self.now();
    }

    /// A page enters; `older` is the note on its version in the cache.
    pub fn stage(&mut self, page: PageId, older: Option<Note>) -> Note {
        self.work.flash_writes += 1;
        older.unwrap_or_else(|| {
            let class = self.class_of(page);
            self.ghosts.take(page);
            Note { class, epoch: self.now() }
        })
    }

    pub fn keep_out(&mut self, page: PageId, dirty: bool) {
        let note = Note { class: self.class_of(page), epoch: self.now() };
        self.work.disk_writes += u64::from(dirty);
        self.remember(page, note, dirty);
    }

    /// A page is enqueued again.
    pub fn second_chance(&mut self) {
        self.work.dequeue_reads += 1;
        self.work.flash_writes += 1;
    }

    pub fn leave(&mut self, page: PageId, note: Note, dirty: bool) {
        self.work.dequeue_reads += u64::from(dirty);
        self.work.disk_writes += u64::from(dirty);
        self.remember(page, note, dirty);
    }

    fn remember(&mut self, page: PageId, note: Note, dirty: bool) {
        self.ghosts.take(page);
        if let Some((lost, dirty)) = self.ghosts.remember(page, (note, dirty)) {
            let bucket = bucket(self.now() - lost.epoch);
            self.classes[2 * lost.class + usize::from(dirty)].lost[bucket] += self.one;
        }
    }

    fn of_offer(&mut self, page: PageId, dirty: bool) -> Class {
        let class = self.class_of(page);
        self.classes[2 * class + usize::from(dirty)]
    }

    /// So many uses of a page save a read each, and if it is dirty perhaps a write.
    fn weighed(&self, uses: u64, dirty: bool) -> u64 {
        uses * (CERTAIN + if dirty { self.saves } else { 0 }) / CERTAIN
    }

    /// Slots: the uses that a page promises are too few. Of one that was used before, its rate counts.
    pub fn promises_little(&mut self, page: PageId, dirty: bool) -> bool {
        let (class, of_class) = (self.class_of(page), self.of_offer(page, dirty));
        let chance = of_class.chance[0];
        let uses = if class == NEW { chance } else { chance.max(32 * of_class.value[0]) };
        uses < self.threshold / 2
    }

    /// Slots: fewer uses come in time than the owner asks for.
    pub fn is_too_dear(&mut self, page: PageId, dirty: bool) -> bool {
        self.of_offer(page, dirty).chance[0] < self.worth_of_owner() / 2
    }

    /// What a page promises, by its class and its region; `age`: of one that the ring holds.
    fn forecast(&self, page: PageId, class: usize, age: Option<u64>, dirty: bool) -> Forecast {
        let of_class = &self.classes[2 * class + usize::from(dirty)];
        let by_class = of_class.promised(class >= NEW, bucket(age.unwrap_or(0)));
        let by_region = self.regions.as_ref().and_then(|regions| regions.promised(page)).unwrap_or(by_class);
        Forecast { by_class, by_region, dirty, held: age.is_some() }
    }

    /// Ring: a page is evicted from DRAM, and may become a sample.
    fn may_watch(&mut self, page: PageId, class: usize, dirty: bool) {
        let (forecast, now) = (self.forecast(page, class, None, dirty), self.now());
        if let Some(regions) = self.regions.as_mut().filter(|regions| regions.wants()) {
            regions.watch(page, forecast, now);
        }
    }

    /// Ring: the same, of a page with this note in the cache.
    pub fn may_watch_known(&mut self, page: PageId, note: Note, dirty: bool) {
        self.may_watch(page, note.class, dirty);
    }

    /// Ring: of the valid pages of a group that is reviewed, each sixth may become a sample.
    pub fn watch_some(&mut self, pages: &[(PageId, Note, bool)]) {
        let now = self.now();
        for (page, note, dirty) in pages.iter().skip((now % 6) as usize).step_by(6) {
            let forecast = self.forecast(*page, note.class, Some(now - note.epoch), *dirty);
            self.regions.iter_mut().for_each(|regions| regions.watch(*page, forecast, now));
        }
    }

    fn mixed(&self, forecast: &Forecast) -> u64 {
        self.regions.as_ref().map_or(forecast.by_class, |regions| regions.mixed(forecast))
    }

    /// The weighed uses that a page promises which is offered to the ring.
    pub fn weight_of_offer(&mut self, page: PageId, dirty: bool) -> u64 {
        let class = self.class_of(page);
        self.may_watch(page, class, dirty);
        let uses = self.mixed(&self.forecast(page, class, None, dirty));
        self.weighed(uses, dirty)
    }

    pub fn value_of_offer(&mut self, page: PageId, dirty: bool) -> u64 {
        let value = self.of_offer(page, dirty).value[0];
        self.weighed(value, dirty)
    }

    /// The weighed uses that a page in the ring promises.
    pub fn weight(&self, page: PageId, note: Note, dirty: bool) -> u64 {
        if self.now() == 0 && note.class >= NEW {
            return 0;
        }
        let forecast = self.forecast(page, note.class, Some(self.now() - note.epoch), dirty);
        self.weighed(self.mixed(&forecast), dirty)
    }

    pub fn value(&self, note: Note, dirty: bool) -> u64 {
        let class = &self.classes[2 * note.class + usize::from(dirty)];
        self.weighed(class.value[bucket(self.now() - note.epoch)], dirty)
    }
}
