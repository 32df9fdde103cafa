//! What may happen to the devices while the machine is off: flash exchanged, lost, brought back too late, or damaged.

use super::content::build;
use super::damage::{SILENT, damage, damage_superblocks};
use super::database::{Database, Stop};
use super::fault::FaultKind;
use super::judge::{Recovered, Rules, is_found_out, keeps_dirty, recover, undisturbed};
use super::life::Start;
use super::oracle::Oracle;
use super::script::{Op, Script};
use crate::machine::{Machine, Media};
use entresol_core::{Lsn, PageId};
use entresol_device::{Device, FaultPlan, MemoryDevice};
use entresol_engine::{DiskLayer, FlashTier, Layer, Mode, Victim, flash_bytes};
use entresol_format::BLOCK_BYTES;
use entresol_format::label::{self, Label};
use entresol_format::superblock::COPIES;
use entresol_runtime::rng::Rng;
use parking_lot::Mutex;
use std::sync::Arc;

/// Silent faults tried on each image.
const DAMAGES: usize = 6;

/// What a crash left, and what is needed to try it.
pub(super) struct Trial<'a> {
    pub script: &'a Script,
    pub media: Media,
    pub oracle: &'a Oracle,
    /// The flash as it was when the life began in which power failed.
    pub before: &'a MemoryDevice,
    /// No device has failed so far.
    pub sound: bool,
    pub rng: Rng,
}

/// Called with every state tried: what went wrong, and what became of it.
pub(super) type Note<'a> = &'a mut dyn FnMut(FaultKind, Result<Recovered, String>) -> bool;

impl Trial<'_> {
    /// Tries everything; ends early when `note` says false.
    pub(super) fn run(mut self, foreign: &MemoryDevice, note: Note<'_>) {
        let _ = self.superblocks(note)
            && self.label(note)
            && self.exchange(FaultKind::FlashGone, &self.blank(), note)
            && self.made_anew(note)
            && self.other_mode(note)
            && self.exchange(FaultKind::ForeignFlash, foreign, note)
            && self.exchange(FaultKind::StaleFlash, self.before, note)
            && self.run_without(note)
            && self.silent(note);
    }

    fn blank(&self) -> MemoryDevice {
        MemoryDevice::new("flash", flash_bytes(&self.script.shape.options))
    }

    /// After a device has failed, more is allowed.
    fn rules(&self, rules: Rules) -> Rules {
        Rules { torn: rules.torn || !self.sound, sound: rules.sound && self.sound, ..rules }
    }

    fn recover(&mut self, media: Media, rules: Rules) -> Result<Recovered, String> {
        let rules = &self.rules(rules);
        recover(&self.script.shape, media, self.oracle, rules, self.rng.next_u64(), false)
    }

    /// Any one superblock is enough.
    fn superblocks(&mut self, note: Note<'_>) -> bool {
        let options = &self.script.shape.options;
        (0..COPIES).all(|spared| {
            let media = self.media.fork();
            damage_superblocks(&mut self.rng, &media.flash, spared);
            let rules = Rules { sound: false, ..Rules::crash(options) };
            let result = self
                .recover(media, rules)
                .map_err(|why| format!("only superblock copy {spared} is left: {why}"));
            note(FaultKind::Superblocks, result.map(|found| Recovered { noticed: true, ..found }))
        })
    }

    /// The older of the disk's two labels is damaged.
    fn label(&mut self, note: Note<'_>) -> bool {
        let media = self.media.fork();
        let mut block = vec![0; BLOCK_BYTES];
        let mut sequence = |copy: u64| {
            media.disk.read(copy * label::COPY_STRIDE, &mut block).expect("labels lie on every disk");
            Label::decode(&block).ok().map(|label| label.sequence)
        };
        let older = if sequence(0) < sequence(1) { 0 } else { 1 };
        if sequence(1 - older).is_none() {
            return true;
        }
        media.disk.write(older * label::COPY_STRIDE, &[0xa5; 512]).expect("labels lie on every disk");
        let rules = Rules { sound: false, ..Rules::crash(&self.script.shape.options) };
        let result = self.recover(media, rules);
        note(FaultKind::Superblocks, result.map_err(|why| format!("label copy {older} is damaged: {why}")))
    }

    /// Somebody makes a new cache for the disk instead of opening the one it has: refused where that one is needed.
    fn made_anew(&mut self, note: Note<'_>) -> bool {
        let options = &self.script.shape.options;
        let media = Media { flash: self.blank(), ..self.media.fork() };
        let machine = Machine::new(media, FaultPlan::none(), 0);
        let make = || FlashTier::create(machine.flash(), machine.disk(), options.clone()).map(drop);
        let made = undisturbed(self.rng.next_u64(), make);
        let left = machine.after_crash(0);
        let result = match made {
            Err(why) => Err(why),
            Ok(Ok(())) if keeps_dirty(options) => {
                Err("a new cache was made for a disk that needs the pages on its old one".to_owned())
            }
            Ok(Ok(())) => {
                let rules = Rules::exchanged(options);
                self.recover(left, rules)
            }
            // Refusing has changed nothing.
            Ok(Err(_)) => {
                let rules = Rules::crash(options);
                let media = Media { flash: self.media.flash.fork("flash"), ..left };
                self.recover(media, rules).map(|found| Recovered { noticed: true, ..found })
            }
        };
        note(FaultKind::FlashGone, result.map_err(|why| format!("making a new cache: {why}")))
    }

    /// The cache is opened in another mode than it was made for.
    fn other_mode(&mut self, note: Note<'_>) -> bool {
        let mut shape = self.script.shape.clone();
        shape.options.mode = Mode::WriteThrough;
        let rules = Rules { sound: false, ..Rules::crash(&self.script.shape.options) };
        let seed = self.rng.next_u64();
        let rules = self.rules(rules);
        let result = recover(&shape, self.media.fork(), self.oracle, &rules, seed, false);
        note(FaultKind::Crash, result.map_err(|why| format!("opened in write-through mode: {why}")))
    }

    /// Another flash device in its place.
    fn exchange(&mut self, kind: FaultKind, flash: &MemoryDevice, note: Note<'_>) -> bool {
        let media = Media { flash: flash.fork("flash"), ..self.media.fork() };
        let rules = Rules::exchanged(&self.script.shape.options);
        let result = self.recover(media, rules);
        note(kind, result.map_err(|why| format!("with another flash device: {why}")))
    }

    /// The database runs on from disk alone (detached first, where its pages are needed), and then the flash comes back.
    fn run_without(&mut self, note: Note<'_>) -> bool {
        let options = &self.script.shape.options;
        let machine = Machine::new(self.media.fork(), FaultPlan::none(), 0);
        let oracle = Arc::new(Mutex::new(self.oracle.clone()));
        let seed = self.rng.next_u64();
        let pages = self.script.shape.pages;
        let body = || -> Result<(), Stop> {
            if keeps_dirty(options) {
                let (tier, _) = FlashTier::open(machine.flash(), machine.disk(), options.clone())?;
                let database = Database::new(tier.clone(), oracle.clone(), options.page_bytes, 1, 2);
                database.recover(&self.rules(Rules::crash(options)))?;
                database.checkpoint()?;
                tier.detach()?;
            }
            let layer = DiskLayer::open(machine.disk(), options.page_bytes)?;
            let database = Database::new(layer, oracle.clone(), options.page_bytes, 1, 2);
            database.recover(&self.rules(Rules::crash(options)))?;
            let mut rng = Rng::new(seed);
            let ops: Vec<Op> = (0..12).map(|_| Op::Write(PageId(rng.below(pages)))).collect();
            database.run(0, &ops)?;
            database.shutdown()
        };
        let done = undisturbed(seed, body).and_then(|result| {
            result.map_err(|stop| match stop {
                Stop::Wrong(sentence) => sentence,
                Stop::Refused(error) => error.to_string(),
            })
        });
        let result = match done {
            Err(why) => Err(why),
            Ok(()) => {
                let known = oracle.lock().clone();
                let media = Media { flash: self.media.flash.fork("flash"), ..machine.after_crash(seed) };
                let rules = self.rules(Rules::exchanged(options));
                recover(&self.script.shape, media, &known, &rules, self.rng.next_u64(), false)
            }
        };
        note(
            FaultKind::StaleFlash,
            result.map_err(|why| format!("the database ran on without its flash: {why}")),
        )
    }

    /// One write to flash of each kind was lost, misdirected, … before power failed.
    fn silent(&mut self, note: Note<'_>) -> bool {
        let options = &self.script.shape.options;
        (0..DAMAGES).all(|_| {
            let kind = SILENT[self.rng.below(SILENT.len() as u64) as usize];
            let media = self.media.fork();
            let Some(what) = damage(&mut self.rng, options, &media, self.before, kind) else { return true };
            let found_out = is_found_out(&media);
            let rules = Rules::silent(options);
            let mut shape = self.script.shape.clone();
            if self.rng.below(4) == 0 {
                shape.options.mode = Mode::WriteThrough;
            }
            let seed = self.rng.next_u64();
            let rules = self.rules(rules);
            let result = recover(&shape, media, self.oracle, &rules, seed, false);
            let result = result.map_err(|why| format!("{what}: {why}"));
            note(kind, result.map(|found| Recovered { noticed: found.noticed || found_out, ..found }))
        })
    }
}

/// The flash of another database, with pages that this one never had.
pub(super) fn foreign_flash(script: &Script) -> Result<MemoryDevice, String> {
    let options = &script.shape.options;
    let other = Script { seed: !script.seed, lives: Vec::new(), ..script.clone() };
    let machine = Machine::new(Start::new(&other)?.media, FaultPlan::none(), 0);
    let body = || {
        let tier = FlashTier::create(machine.flash(), machine.disk(), options.clone())?;
        let mut buffer = vec![0; options.page_bytes as usize];
        for page in (0..script.shape.pages).map(PageId) {
            let lsn = Lsn(1_000_000 + page.0);
            build(page, lsn.0, &mut buffer);
            tier.evict(Victim { page, lsn, dirty: true, fdirty: true }, &buffer)?;
        }
        tier.close()
    };
    undisturbed(other.seed, body)?.map_err(|error| format!("making another database: {error}"))?;
    debug_assert!(machine.flash().geometry().capacity_bytes > 0);
    Ok(machine.after_crash(other.seed).flash)
}
