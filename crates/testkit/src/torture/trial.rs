//! Faults of the devices while the machine is off: flash exchanged, lost, brought back too late, or damaged.

use super::cache::Cache;
use super::content::build;
use super::damage::{
    SILENT, bit_of_a_page, damage, damage_disk, damage_superblocks, make_unreadable, newest_superblock,
};
use super::database::{Database, Stop};
use super::fault::FaultKind;
use super::fragments::tier_in_place;
use super::judge::{Opening, Recovered, Rules, conclude, is_found_out, recover, undisturbed};
use super::life::Start;
use super::oracle::Oracle;
use super::script::{Op, Script, Shape};
use crate::machine::{Machine, Media};
use entresol_core::{Lsn, PageId, PolicyKind};
use entresol_device::{Device, FaultPlan, MemoryDevice};
use entresol_engine::{DiskLayer, FlashTier, Mode, PageCache, TierError, TierOptions, Victim, flash_bytes};
use entresol_format::BLOCK_BYTES;
use entresol_format::label::{self, Label};
use entresol_format::superblock::COPIES;
use entresol_runtime::rng::Rng;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// Number of silent faults tried on each crash state.
const DAMAGES: usize = 6;

/// Maximum delay of requests on either side while a cache is in use before its detach.
const LATENCY_MAX: Duration = Duration::from_micros(40);

/// A crash state, and the context of its trials.
pub(super) struct Trial<'a> {
    pub script: &'a Script,
    pub media: Media,
    pub oracle: &'a Oracle,
    /// The flash at the start of the life in which power failed.
    pub before: &'a MemoryDevice,
    /// No device has failed so far.
    pub sound: bool,
    /// Only these faults of the devices are tried; empty: all.
    pub damage_only: &'static [FaultKind],
    pub rng: Rng,
}

/// Called with every tried state: the fault, and the result of the recovery.
pub(super) type Note<'a> = &'a mut dyn FnMut(At, Result<Recovered, String>) -> bool;
/// The fault, and its device, if it is one device's.
pub(super) type At = (FaultKind, Option<&'static str>);

impl Trial<'_> {
    /// Tries everything; ends early when `note` returns false.
    pub(super) fn run(mut self, foreign: &MemoryDevice, note: Note<'_>) {
        if self.damage_only == [FaultKind::Unreadable] {
            let _ = self.unreadable(note) && self.unreadable(note);
            return;
        }
        if !self.damage_only.is_empty() {
            let _ =
                self.silent(note) && self.silent(note) && self.damaged_later(note) && self.silent_disk(note);
            return;
        }
        let script = self.script;
        let _ = self.superblocks(note)
            && self.label(note)
            && self.newest_label(note)
            && self.exchange(FaultKind::FlashGone, &self.blank(), note)
            && match &script.shape.cache {
                Cache::Tier(options) => self.made_anew(options, note) && self.other_mode(options, note),
                Cache::Fragments(options) => self.other_knobs(options, note),
            }
            && self.foreign(foreign, note)
            && self.unreadable(note)
            && self.older_disk(note)
            && self.exchange(FaultKind::StaleFlash, self.before, note)
            && (0..self.detaches()).all(|_| self.run_without(note))
            && self.go_on(note)
            && self.silent(note)
            && self.damaged_later(note)
            && self.silent_disk(note);
    }

    fn blank(&self) -> MemoryDevice {
        MemoryDevice::new("flash", self.script.shape.cache.flash_bytes())
    }

    /// After a fault of a device, the rules are relaxed.
    pub(super) fn rules(&self, rules: Rules) -> Rules {
        Rules { torn: rules.torn || !self.sound, sound: rules.sound && self.sound, ..rules }
    }

    fn recover(&mut self, media: Media, rules: Rules) -> Result<Recovered, String> {
        let rules = &self.rules(rules);
        recover(&self.script.shape, media, self.oracle, rules, self.rng.next_u64())
    }

    /// One intact superblock is sufficient, whichever it is.
    fn superblocks(&mut self, note: Note<'_>) -> bool {
        let cache = &self.script.shape.cache;
        (0..COPIES).all(|spared| {
            let media = self.media.fork();
            damage_superblocks(&mut self.rng, &media.flash, spared);
            let rules = Rules { sound: false, ..Rules::crash(cache) };
            let result = self
                .recover(media, rules)
                .map_err(|why| format!("only superblock copy {spared} is left: {why}"));
            note(
                (FaultKind::Superblocks, Some("flash")),
                result.map(|found| Recovered { noticed: true, ..found }),
            )
        })
    }

    /// The labels of the disk: the newest one, and the one before.
    fn labels(&self) -> Option<(Label, Option<Label>)> {
        let mut block = vec![0; BLOCK_BYTES];
        let mut label = |copy: u64| {
            self.media.disk.read(copy * label::COPY_STRIDE, &mut block).expect("labels lie on every disk");
            Label::decode(&block).ok()
        };
        match (label(0), label(1)) {
            (Some(first), Some(second)) if first.sequence < second.sequence => Some((second, Some(first))),
            (Some(first), second) => Some((first, second)),
            (None, second) => second.map(|second| (second, None)),
        }
    }

    fn without_label(&self, label: &Label) -> Media {
        let media = self.media.fork();
        media.disk.write(label.offset(), &[0xa5; 512]).expect("labels lie on every disk");
        media
    }

    /// The older of the disk's two labels is damaged.
    fn label(&mut self, note: Note<'_>) -> bool {
        let Some((newest, older)) = self.labels() else { return true };
        let Some(older) = older else {
            // The second label is written to the other place.
            let lost = newest.sequence > 1 && self.sound;
            let result = if lost {
                Err("the label before the newest was not kept".to_owned())
            } else {
                Ok(Recovered::default())
            };
            return note((FaultKind::Superblocks, Some("disk")), result);
        };
        let rules = Rules { sound: false, ..Rules::crash(&self.script.shape.cache) };
        let result = self.recover(self.without_label(&older), rules);
        note(
            (FaultKind::Superblocks, Some("disk")),
            result.map_err(|why| format!("the older label is damaged: {why}")),
        )
    }

    /// The newest label is lost, as in a power failure during its write, after flash has got that epoch. The
    /// label before it is still there. If that names the same cache, nothing is lost.
    fn newest_label(&mut self, note: Note<'_>) -> bool {
        let Some((newest, Some(older))) = self.labels() else { return true };
        let is_bound = self.script.shape.cache.tier().is_some();
        let epoch = newest_superblock(&self.media.flash).map(|superblock| superblock.epoch);
        if is_bound && epoch != Some(newest.epoch) || older.cache != newest.cache {
            return true;
        }
        let rules = Rules { sound: false, ..Rules::crash(&self.script.shape.cache) };
        let result = self.recover(self.without_label(&newest), rules);
        note(
            (FaultKind::Superblocks, Some("disk")),
            result.map_err(|why| format!("the newest label is damaged: {why}")),
        )
    }

    /// The database continues after a restart. Recovered pages are destaged or dropped, while half of the
    /// pages change. All others must still be there at the end.
    fn go_on(&mut self, note: Note<'_>) -> bool {
        let cache = &self.script.shape.cache;
        let rules = self.rules(Rules::crash(cache));
        let machine = Machine::new(self.media.fork(), FaultPlan::none(), 0);
        let (seed, pages, oracle) = (self.rng.next_u64(), self.script.shape.pages, self.oracle.clone());
        let done = undisturbed(seed, || -> Result<(u64, bool), Stop> {
            let (tier, _) = cache.open(&machine)?;
            let database = Database::new(tier, Arc::new(Mutex::new(oracle)), cache.page_bytes(), 1, 2);
            database.recover(&rules)?;
            let mut rng = Rng::new(seed);
            let parity = rng.below(2);
            let writes = cache.slots() + cache.slots() / 2;
            let changed = (0..writes).map(|_| Op::Write(PageId(rng.below(pages / 2) * 2 + parity)));
            let ops: Vec<Op> = changed.chain((0..pages).map(|page| Op::Read(PageId(page)))).collect();
            database.run(0, &ops)?;
            Ok((pages, false))
        });
        let result = done.and_then(|result| conclude(&rules, result, Vec::new()));
        note((FaultKind::Crash, None), result.map_err(|why| format!("the database went on: {why}")))
    }

    /// A page on flash is damaged after a restart, after many pages were referenced. Then they are dequeued.
    fn damaged_later(&mut self, note: Note<'_>) -> bool {
        let cache = &self.script.shape.cache;
        let rules = match cache.mode() {
            // The damaged page may be dirty.
            Mode::WriteBack => Rules { damage: true, opening: Opening::May, ..Rules::silent(cache) },
            _ => Rules::silent(cache),
        };
        let rules = self.rules(rules);
        let media = self.media.fork();
        let mut rng = Rng::new(self.rng.next_u64());
        let machine = Machine::new(media, FaultPlan::none(), 0);
        let (seed, pages) = (self.rng.next_u64(), self.script.shape.pages);
        let oracle = Arc::new(Mutex::new(self.oracle.clone()));
        let done = undisturbed(seed, || -> Result<(u64, bool), Stop> {
            let (tier, _) = cache.open(&machine)?;
            let database = Database::new(tier.clone(), oracle.clone(), cache.page_bytes(), 1, 2);
            let mut buffer = vec![0; cache.page_bytes() as usize];
            // A page that moves up is not on flash any more.
            if !cache.is_exclusive() {
                for page in self.oracle.ids().filter(|_| rng.below(2) == 0) {
                    rules.fetch(&*tier, self.oracle, page, &mut buffer)?;
                }
            }
            let (parity, moment) = (rng.below(2), rng.below(cache.slots().into()));
            for nth in 0..u64::from(cache.slots() + cache.slots() / 2) {
                if nth == moment
                    && let Some(bit) = bit_of_a_page(&mut rng, cache, &*machine.flash())
                {
                    machine.flip_flash_bit(bit);
                }
                database.make_anew(PageId(rng.below(pages / 2) * 2 + parity), &mut buffer)?;
            }
            for page in self.oracle.ids() {
                let known = oracle.lock().clone();
                rules.fetch(&*tier, &known, page, &mut buffer)?;
            }
            Ok((pages, cache.is_damaged(&*tier)))
        });
        let result = done.and_then(|result| conclude(&rules, result, Vec::new()));
        note(
            (FaultKind::BitFlip, Some("flash")),
            result.map_err(|why| format!("a bit of a page flipped after the restart: {why}")),
        )
    }

    /// The disk silently changes a page, or writes another page in its place.
    fn silent_disk(&mut self, note: Note<'_>) -> bool {
        let shape = &self.script.shape;
        [FaultKind::BitFlip, FaultKind::DuplicatedWrite].into_iter().all(|kind| {
            let media = self.media.fork();
            let what = damage_disk(&mut self.rng, shape.cache.page_bytes(), shape.pages, &media.disk, kind);
            let result = self.recover(media, Rules::silent_disk(&shape.cache));
            note((kind, Some("disk")), result.map_err(|why| format!("{what}: {why}")))
        })
    }

    /// A new cache is created for the disk instead of opening the existing one. This is refused if the
    /// existing one is needed.
    fn made_anew(&mut self, options: &TierOptions, note: Note<'_>) -> bool {
        let cache = &self.script.shape.cache;
        let media = Media { flash: self.blank(), ..self.media.fork() };
        let machine = Machine::new(media, FaultPlan::none(), 0);
        let make = || FlashTier::create(machine.flash(), machine.disk(), options.clone()).map(drop);
        let made = undisturbed(self.rng.next_u64(), make);
        let left = machine.after_crash(0);
        let result = match made {
            Err(why) => Err(why),
            // A cache that has switched itself off has released the disk.
            Ok(Ok(())) if self.labels().is_some_and(|(newest, _)| newest.dirty_possible) => {
                Err("a new cache was made for a disk that needs the pages on its old one".to_owned())
            }
            Ok(Ok(())) => {
                let rules = Rules::exchanged(cache);
                self.recover(left, rules)
            }
            // The refusal has changed nothing.
            Ok(Err(_)) => {
                let rules = Rules::crash(cache);
                let media = Media { flash: self.media.flash.fork("flash"), ..left };
                self.recover(media, rules).map(|found| Recovered { noticed: true, ..found })
            }
        };
        note(
            (FaultKind::FlashGone, Some("flash")),
            result.map_err(|why| format!("making a new cache: {why}")),
        )
    }

    /// The cache is opened in another mode than that of its creation.
    fn other_mode(&mut self, options: &TierOptions, note: Note<'_>) -> bool {
        if options.keeps_slots {
            return true;
        }
        let cache = Cache::Tier(TierOptions { mode: Mode::WriteThrough, ..options.clone() });
        let shape = Shape { cache, ..self.script.shape.clone() };
        let rules = Rules { sound: false, ..Rules::crash(&self.script.shape.cache) };
        let seed = self.rng.next_u64();
        let rules = self.rules(rules);
        let result = recover(&shape, self.media.fork(), self.oracle, &rules, seed);
        note((FaultKind::Crash, None), result.map_err(|why| format!("opened in write-through mode: {why}")))
    }

    /// The flash of another database is in the place of this one.
    fn foreign(&mut self, flash: &MemoryDevice, note: Note<'_>) -> bool {
        match newest_superblock(flash) {
            Some(needed) if self.script.shape.cache.tier().is_none() && needed.is_needed() => {
                self.needed_elsewhere(flash, &needed, note)
            }
            _ => self.exchange(FaultKind::ForeignFlash, flash, note),
        }
    }

    /// Another flash device is in the place of this one.
    pub(super) fn exchange(&mut self, kind: FaultKind, flash: &MemoryDevice, note: Note<'_>) -> bool {
        let media = Media { flash: flash.fork("flash"), ..self.media.fork() };
        let rules = Rules::exchanged(&self.script.shape.cache);
        let result = self.recover(media, rules);
        note((kind, Some("flash")), result.map_err(|why| format!("with another flash device: {why}")))
    }

    /// Number of detaches. Second chances make a detach a race, so it is repeated.
    fn detaches(&self) -> u32 {
        let is_gsc = |options: &TierOptions| options.policy == PolicyKind::FaceGsc;
        if self.script.shape.cache.tier().is_some_and(is_gsc) { 3 } else { 1 }
    }

    /// Detaches the cache after some work of clients. From then on all pages are on the disk alone, also
    /// after a power failure.
    fn detach(&self, options: &TierOptions, oracle: &Arc<Mutex<Oracle>>, seed: u64) -> Result<Media, String> {
        let cache = &self.script.shape.cache;
        let machine = Machine::new(self.media.fork(), FaultPlan::none(), 0);
        // In most runs nothing else takes time, and tasks are preempted. A second chance in progress is then
        // most likely.
        let (seed, paced) = match seed % 4 {
            0 => (seed, LATENCY_MAX),
            _ => (seed & !3 | 1, Duration::ZERO),
        };
        let pages = self.script.shape.pages;
        let body = || -> Result<(), Stop> {
            let (tier, _) = FlashTier::open(machine.flash(), machine.disk(), options.clone())?;
            let database = Database::new(tier.clone(), oracle.clone(), cache.page_bytes(), 1, 2);
            database.recover(&self.rules(Rules::crash(cache)))?;
            // Second chances may be in progress: a page that was only read is still the newest version, and
            // needed.
            let mut rng = Rng::new(!seed);
            let mut ops = |count: u32| -> Vec<Op> {
                let mut page = || PageId(rng.below(pages));
                (0..count)
                    .map(|nth| if nth % 3 == 0 { Op::Write(page()) } else { Op::Read(page()) })
                    .collect()
            };
            let (before, after) = (ops(options.slots), ops(options.slots / 2));
            machine.pace.set(paced);
            database.run(0, &before)?;
            database.checkpoint()?;
            database.run(0, &after)?;
            tier.detach()?;
            Ok(())
        };
        undisturbed(seed, body)?.map_err(Stop::sentence)?;
        oracle.lock().promise_returned();
        Ok(machine.after_crash(seed))
    }

    /// The database continues on the disk alone (after a detach, if the cache's pages are needed), and then
    /// the flash is found again.
    fn run_without(&mut self, note: Note<'_>) -> bool {
        let result = self.ran_without();
        note(
            (FaultKind::StaleFlash, Some("flash")),
            result.map_err(|why| format!("the database ran on without its flash: {why}")),
        )
    }

    fn ran_without(&mut self) -> Result<Recovered, String> {
        let cache = &self.script.shape.cache;
        let oracle = Arc::new(Mutex::new(self.oracle.clone()));
        let seed = self.rng.next_u64();
        let media = match cache.tier().filter(|_| cache.keeps_dirty()) {
            Some(options) => self.detach(options, &oracle, seed)?,
            None => self.media.fork(),
        };
        let machine = Machine::new(media, FaultPlan::none(), 0);
        let pages = self.script.shape.pages;
        let body = || -> Result<(), Stop> {
            let layer = DiskLayer::open(machine.disk(), cache.page_bytes())?;
            let database = Database::new(layer, oracle.clone(), cache.page_bytes(), 1, 2);
            database.recover(&self.rules(Rules::crash(cache)))?;
            let mut rng = Rng::new(seed);
            let ops: Vec<Op> = (0..12).map(|_| Op::Write(PageId(rng.below(pages)))).collect();
            database.run(0, &ops)?;
            database.shutdown()
        };
        undisturbed(seed, body)?.map_err(Stop::sentence)?;
        let known = oracle.lock().clone();
        let media = Media { flash: self.media.flash.fork("flash"), ..machine.after_crash(seed) };
        let rules = self.rules(Rules::exchanged(cache));
        recover(&self.script.shape, media, &known, &rules, self.rng.next_u64())
    }

    /// Sectors of flash or disk are unreadable. Redundant data is read from its other copy, and only named
    /// pages are lost.
    fn unreadable(&mut self, note: Note<'_>) -> bool {
        let cache = &self.script.shape.cache;
        (0..DAMAGES).all(|_| {
            let media = self.media.fork();
            let (device, what, rules) =
                make_unreadable(&mut self.rng, cache, &media, self.script.shape.pages);
            let result = self.recover(media, rules).map_err(|why| format!("unreadable, {what}: {why}"));
            note((FaultKind::Unreadable, Some(device)), result)
        })
    }

    /// The disk is in its state before the current session: flash belongs to a newer disk.
    fn older_disk(&mut self, note: Note<'_>) -> bool {
        let cache = &self.script.shape.cache;
        let Some(options) = cache.tier() else { return true };
        let machine = Machine::new(self.media.fork(), FaultPlan::none(), 0);
        let seed = self.rng.next_u64();
        let oracle = Arc::new(Mutex::new(self.oracle.clone()));
        let pages = self.script.shape.pages;
        let session = || -> Result<(), Stop> {
            let (tier, _) = FlashTier::open(machine.flash(), machine.disk(), options.clone())?;
            let database = Database::new(tier, oracle.clone(), cache.page_bytes(), 1, 2);
            database.recover(&self.rules(Rules::crash(cache)))?;
            let mut rng = Rng::new(seed);
            let ops: Vec<Op> = (0..6).map(|_| Op::Write(PageId(rng.below(pages)))).collect();
            database.run(0, &ops)?;
            database.shutdown()
        };
        let result =
            undisturbed(seed, session).and_then(|done| done.map_err(Stop::sentence)).and_then(|()| {
                let left = machine.after_crash(seed);
                let media = Media { disk: self.media.disk.fork("disk"), ..left };
                let machine = Machine::new(media, FaultPlan::none(), 0);
                let open = || FlashTier::open(machine.flash(), machine.disk(), options.clone());
                match undisturbed(seed, || open().map(|(_, report)| report.notices))? {
                    Err(TierError::Refused(_)) => Ok(Recovered { noticed: true, ..Recovered::default() }),
                    // No page on it is needed: it starts empty, and a notice reports that.
                    Ok(notices) if notices.iter().any(|notice| notice.contains("was emptied")) => {
                        Ok(Recovered { noticed: true, ..Recovered::default() })
                    }
                    Ok(notices) => Err(format!("it was opened with today's flash: {notices:?}")),
                    Err(error) => Err(error.to_string()),
                }
            });
        let told = |why| format!("the disk of before the last session: {why}");
        note((FaultKind::Exchanged, Some("disk")), result.map_err(told))
    }

    /// One write to flash of each kind was lost, misdirected, … before power failed.
    fn silent(&mut self, note: Note<'_>) -> bool {
        let cache = &self.script.shape.cache;
        let Cache::Tier(options) = cache else {
            // The content of this flash is not used after a power-off.
            return (0..DAMAGES).all(|_| self.lost_in_use(note));
        };
        (0..DAMAGES).all(|_| {
            let kinds = if self.damage_only.is_empty() { &SILENT } else { self.damage_only };
            let kind = kinds[self.rng.below(kinds.len() as u64) as usize];
            let media = self.media.fork();
            let Some(what) = damage(&mut self.rng, cache, &media, self.before, kind) else { return true };
            let found_out = is_found_out(&media);
            let rules = Rules::silent(cache);
            let mut shape = self.script.shape.clone();
            if self.rng.below(4) == 0 && !options.keeps_slots {
                shape.cache = Cache::Tier(TierOptions { mode: Mode::WriteThrough, ..options.clone() });
            }
            let seed = self.rng.next_u64();
            let rules = self.rules(rules);
            let result = recover(&shape, media, self.oracle, &rules, seed);
            let result = result.map_err(|why| format!("{what}: {why}"));
            note(
                (kind, Some("flash")),
                result.map(|found| Recovered { noticed: found.noticed || found_out, ..found }),
            )
        })
    }
}

/// The flash of another database, with pages that this database never had.
pub(super) fn foreign_flash(script: &Script) -> Result<MemoryDevice, String> {
    let cache = &script.shape.cache;
    let other = Script { seed: !script.seed, lives: Vec::new(), ..script.clone() };
    // Fragments are populated by reads only. A cache of another database, with needed pages, may also be in
    // their place.
    let tier = match cache {
        Cache::Tier(options) => Some(options.clone()),
        Cache::Fragments(_) => tier_in_place(script),
    };
    let flash_bytes = tier.as_ref().map_or(0, flash_bytes).max(cache.flash_bytes());
    let start = Start::new(&other)?.media;
    let media = Media { flash: MemoryDevice::new("flash", flash_bytes), ..start };
    let machine = Machine::new(media, FaultPlan::none(), 0);
    let body = || -> Result<(), TierError> {
        let made = match tier {
            Some(options) => Cache::Tier(options),
            None => cache.clone(),
        };
        let (layer, _) = made.create(&machine)?;
        let mut buffer = vec![0; cache.page_bytes() as usize];
        for page in (0..script.shape.pages).map(PageId) {
            let lsn = Lsn(1_000_000 + page.0);
            build(page, lsn.0, &mut buffer);
            layer.evict(Victim { page, lsn, dirty: true, fdirty: true }, &buffer)?;
        }
        if made.tier().is_none() {
            layer.checkpoint()?;
            let mut pages = (0..4).flat_map(|_| (0..script.shape.pages).map(PageId));
            pages.try_for_each(|page| layer.fetch(page, &mut buffer).map(drop))?;
        }
        layer.close()
    };
    undisturbed(other.seed, body)?.map_err(|error| format!("making another database: {error}"))?;
    debug_assert!(machine.flash().geometry().capacity_bytes > 0);
    Ok(machine.after_crash(other.seed).flash)
}
