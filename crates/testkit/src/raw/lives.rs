//! Several lives of one cache, each cut off by a power failure, or by a kill of its program alone.

use super::cache::Cache;
use super::closed;
use super::devices::written_by_others;
use super::life::{self, Life};
use super::moments::Moments;
use super::opened::Opened;
use super::options::{flash_bytes_of, options, without_writeback};
use super::oracle::{Oracle, Shared};
use super::{
    CLOSED, Examined, FAULTS, KILLS, LIVES, MOMENTS, OUTAGES, PAGES, RawLives, SHUTDOWNS, STAYS, TRIMS,
    failed, files, live_together, outages, restarted, simulation, survival,
};
use crate::machine::Media;
use entresol_block::CacheOptions;
use entresol_core::{Mode, PageId};
use entresol_device::{Device, Fault, FaultPlan, FaultyDevice, Injection};
use entresol_engine::{DiskLayer, Layer, disk_offset};
use entresol_format::PageFormat;
use entresol_format::fingerprint::LABEL_FILE_BYTES;
use entresol_runtime::rng::Rng;
use entresol_runtime::sim::Outcome;
use entresol_runtime::{Time, now, sleep};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// A cache between two lives.
struct Between {
    cache: Cache,
    options: CacheOptions,
    in_place: bool,
    known: files::Known,
    oracles: Vec<Shared>,
    rng: Rng,
    /// Flash, disk and label file.
    left: [Arc<FaultyDevice>; 3],
    /// What outlives a program, and not a power failure.
    journal: Arc<FaultyDevice>,
    /// The last program was killed, and power stayed.
    was_killed: bool,
    /// In one of the lives the flash has failed.
    flash_failed: bool,
    /// In one of them it has failed for a while.
    flash_was_out: bool,
    restarts: u64,
    states: u64,
}

/// As in the module's header. What was not synced before a kill can be read by the next life, and may be lost
/// in that one's power failure.
///
/// # Errors
/// What was wrong.
pub fn lives(cache: Cache, seed: u64, examined: Examined) -> Result<RawLives, String> {
    let mut between = Between::new(cache, seed)?;
    for life in 0..LIVES {
        between.live(examined).map_err(|what| format!("{cache}, seed {seed}, life {life}: {what}"))?;
    }
    let Between { restarts, states, oracles, .. } = between;
    let mut sum = RawLives { restarts, states, ..RawLives::default() };
    oracles.iter().for_each(|oracle| sum.add(&oracle.lock().lives));
    Ok(sum)
}

/// How the flash fails in a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failing {
    /// It is not there, if it has failed before.
    Gone,
    /// From some time on.
    Breaks,
    /// Some bits of it have changed when it is opened.
    Rots,
}

const BLOCK_BYTES: u64 = 4096;
/// Room in a label file for writes that cannot be synced.
const REDO_BYTES: u64 = 16 << 20;
/// By then a summary says that what was flushed last is durable. Until then a power failure makes damage of
/// it look like a torn write (docs/FORMAT.md, "Group summary").
const FLUSH_IS_TOLD: Duration = Duration::from_secs(2);

/// Changes bits of pages on flash, which are durable and told of.
fn rot_if(failing: Option<Failing>, opened: &Opened, flash: &FaultyDevice, seed: u64) -> Result<(), String> {
    if failing != Some(Failing::Rots) {
        return Ok(());
    }
    opened.flush().map_err(failed)?;
    sleep(FLUSH_IS_TOLD);
    let mut rng = Rng::new(seed);
    let blocks = flash.geometry().capacity_bytes / BLOCK_BYTES;
    for _ in 0..=rng.below(12) {
        // Not what tells of groups: of that, damage in two places is refused.
        let (block, mut found) = (rng.below(blocks), [0; BLOCK_BYTES as usize]);
        let is_page = flash.read(block * BLOCK_BYTES, &mut found).is_ok() && !found.starts_with(b"ENTR");
        if is_page && block > blocks / 4 {
            flash.flip_bit((block * BLOCK_BYTES + rng.below(BLOCK_BYTES)) * 8 + rng.below(8));
        }
    }
    Ok(())
}

impl Between {
    /// Lets the flash of a life fail, now and then, and tells the oracles what to expect. Only where the
    /// cache is used then though pages on flash are newer.
    fn failing(&self, mode: Mode, plan: &FaultPlan, cut_off: u64, seed: u64) -> Option<Failing> {
        let mut rng = Rng::new(seed ^ FAULTS);
        let can_fail = self.cache.door.is_some() && mode == Mode::WriteBack && self.restarts > 0;
        let gone = self.flash_failed && rng.below(4) == 0;
        let breaks = can_fail && rng.below(3) == 0;
        let fault = [
            Fault::WriteError,
            Fault::SyncError,
            Fault::SyncErrorLosingWrites,
            Fault::SyncErrorKeepingPages,
            Fault::ReadError,
            Fault::Death,
        ][rng.below(6) as usize];
        let rots = can_fail && rng.below(4) == 0;
        let failing = match (gone, breaks) {
            (true, _) => Some(Failing::Gone),
            (false, false) if rots => Some(Failing::Rots),
            (false, true) => {
                let (at, forever) = (1 + rng.below(cut_off / 2), rng.below(2) == 0);
                plan.inject(Injection { at, device: Some("flash".to_owned()), fault, forever });
                Some(Failing::Breaks)
            }
            (false, false) => None,
        };
        let breaks_reads = matches!(fault, Fault::ReadError | Fault::Death);
        for oracle in &self.oracles {
            let mut oracle = oracle.lock();
            oracle.begins_life();
            // Without the flash, what was on its way there when it failed counts as lost with it.
            // A page that has rotted is lost until it is written again.
            oracle.has_lost |= matches!(failing, Some(Failing::Gone | Failing::Rots));
            oracle.may_lose = oracle.has_lost || failing.is_some() && breaks_reads;
            // Unflushed pages are written straight to disk.
            oracle.straight_to_disk |= matches!(failing, Some(Failing::Gone | Failing::Breaks));
        }
        failing
    }

    fn new(cache: Cache, seed: u64) -> Result<Self, String> {
        let options = options(cache);
        let mut rng = Rng::new(seed);
        let clients = [1, 3][rng.below(2) as usize];
        let oracle = |client| Arc::new(Mutex::new(Oracle::new(cache, client, clients)));
        let page_bytes = cache.page_bytes() as u32;
        let in_place = !seed.is_multiple_of(2) || cache.door.is_some();
        let disk_bytes =
            if in_place { PAGES * u64::from(page_bytes) } else { disk_offset(PageId(PAGES), page_bytes) };
        let label_bytes = LABEL_FILE_BYTES + if cache.door.is_some() { REDO_BYTES } else { 0 };
        let mut media = Media::blank(disk_bytes, label_bytes, flash_bytes_of(&options));
        if !in_place {
            // Files have their label elsewhere.
            let label = if cache.objects { &mut media.log } else { &mut media.disk };
            let blank = Arc::new(label.fork("blank"));
            let created = simulation(seed).run(|| DiskLayer::create(blank.clone(), page_bytes)?.close());
            created.unwrap().map_err(failed)?;
            *label = blank.fork("label");
        }
        Ok(Self {
            cache,
            options,
            in_place,
            known: files::nothing_known(),
            oracles: (0..clients).map(oracle).collect(),
            rng,
            left: life::devices_on(media),
            journal: life::blank_journal(),
            was_killed: false,
            flash_failed: false,
            flash_was_out: false,
            restarts: 0,
            states: 0,
        })
    }

    /// The request at which a life is cut off.
    fn cut_off(&mut self) -> u64 {
        // A write to disk takes several requests. Slots that survive are made with more, and flushed later.
        let is_log = self.cache.page_format == PageFormat::Raw && !self.cache.keeps_slots();
        let few = self.cache.mode == Mode::WriteBack && is_log;
        match self.cache.door {
            _ if self.cache.learns() => 20 + self.rng.below(4000),
            // Each of its pages is several of the cache's.
            Some(_) => 20 + self.rng.below(3000),
            None => 20 + self.rng.below(if few { 400 } else { 1200 }),
        }
    }

    /// Now and then something happens to copies of what `life` has left. Gives the number of crash states.
    fn look_while_closed(&self, life: &Life<'_>, media: &Media, seed: u64) -> Result<u64, String> {
        // A degraded cache does without its flash.
        let flash_failed = self.flash_failed || self.flash_was_out;
        if self.restarts == 0 || flash_failed || Rng::new(seed).below(8) > 0 {
            return Ok(0);
        }
        closed::look(life, media, &self.oracles, !seed).map(|()| 1)
    }

    /// The options of a life: now and then in another mode.
    fn options_in_a_mode(&mut self) -> Result<CacheOptions, String> {
        let options = self.options.clone();
        if self.rng.below(4) > 0 {
            return Ok(options);
        }
        let modes = self.cache.modes();
        options.in_mode(modes[self.rng.below(modes.len() as u64) as usize]).map_err(failed)
    }

    /// Lets power fail at the operation `cut_off` of a life. Now and then in the open, with its repairs:
    /// true.
    fn cuts_off(&mut self, life: &Life<'_>, cut_off: u64, sim_seed: u64) -> bool {
        let early = self.restarts > 0 && self.rng.below(4) == 0;
        let writes = if early { life.writes_of_an_open(sim_seed) } else { Vec::new() };
        let at = match writes.len() as u64 {
            0 => cut_off,
            count => writes[self.rng.below(count) as usize] + self.rng.below(2),
        };
        life.plan.inject(Injection { at, device: None, fault: Fault::Crash, forever: false });
        early
    }

    /// One life.
    fn live(&mut self, examined: Examined) -> Result<(), String> {
        let cut_off = self.cut_off();
        let plan = Arc::new(FaultPlan::none());
        let after_kill = |device: &Arc<FaultyDevice>| Arc::new(device.after_kill(plan.clone()));
        let [flash, disk, label_file] = self.left.each_ref().map(after_kill);
        let journal = after_kill(&self.journal);
        let steps = 20 + self.rng.below(if self.cache.learns() { 1500 } else { 120 });
        let mut options = self.options_in_a_mode()?;
        let (sim_seed, mut choices) = (self.rng.next_u64(), Rng::new(self.rng.next_u64()));
        if Rng::new(sim_seed ^ STAYS).below(2) == 0 {
            options = without_writeback(self.cache, options);
        }
        let failing = self.failing(options.mode(), &plan, cut_off, sim_seed);
        let outage = match failing {
            None => self.outage(options.mode(), cut_off, &plan, sim_seed ^ OUTAGES),
            Some(_) => None,
        };
        let known = self.known.clone();
        let Self { cache, in_place, .. } = *self;
        let this = Life {
            cache,
            options: &options,
            in_place,
            known: &known,
            plan,
            flash,
            disk,
            label_file,
            journal,
            passes_trims: self.oracles.len() == 1 && Rng::new(sim_seed ^ TRIMS).below(2) == 0,
            without_flash: failing == Some(Failing::Gone),
        };
        let early = self.cuts_off(&this, cut_off, sim_seed);
        let moments = Moments::of(&this, &self.oracles, self.restarts > 0, sim_seed ^ MOMENTS);
        let observer = (examined == Examined::Moments).then(|| moments.observer());
        let (is_new, is_promised) = (self.restarts == 0, self.was_killed && cache.door.is_some());
        let (restarts, oracles) = (&mut self.restarts, &self.oracles);
        if is_promised && failing == Some(Failing::Breaks) {
            oracles.iter().for_each(|oracle| oracle.lock().may_lose_in_open());
        }
        // Where that makes a difference for what is found.
        let shuts_down = cache.keeps_slots_at_shutdown() && Rng::new(sim_seed ^ SHUTDOWNS).below(3) > 0;
        let plan = this.plan.clone();
        let begins = |in_open| outage.iter().for_each(|outage| outage.begins(in_open, &plan));
        let lived = simulation(sim_seed).run(|| {
            begins(true);
            let may_fail = failing == Some(Failing::Breaks) || outage.is_some();
            let opened = match this.open(is_new, observer) {
                // It failed in the open.
                Err(_) if may_fail && this.plan.struck() > 0 => return Ok(()),
                opened => opened?,
            };
            plan.end_outage();
            oracles.iter().for_each(|oracle| oracle.lock().has_opened(&opened));
            moments.is_born();
            rot_if(failing, &opened, &this.flash, !sim_seed)?;
            *restarts += 1;
            if is_promised {
                oracles.iter().for_each(|oracle| oracle.lock().is_served_after_kill());
            }
            oracles.iter().try_for_each(|oracle| restarted(&opened, oracle))?;
            begins(false);
            live_together(&opened, oracles, &mut choices, steps)?;
            let lasts = outage.as_ref().map(|outage| outage.lasts());
            lasts.map_or(Ok(()), |lasts| outages::is_calm(&opened, oracles, &plan, lasts))?;
            if shuts_down { shut_down(&opened, oracles, outage.is_some()) } else { Ok(()) }
        });
        ended(lived)?;
        self.has_failed(failing);
        self.was_out(outage.as_ref(), options.mode());
        self.states += 1 + moments.examine(&this)?;
        self.end(this, early, sim_seed)
    }

    /// What `life` leaves: to a kill of its program, or to a power failure.
    fn end(&mut self, life: Life<'_>, early: bool, sim_seed: u64) -> Result<(), String> {
        let media = life.after_crash(&survival(&mut self.rng, early));
        if self.in_place && self.rng.below(4) == 0 {
            written_by_others(&media, self.rng.below(128 << 10))?;
        }
        self.states += self.look_while_closed(&life, &media, sim_seed ^ CLOSED)?;
        self.was_killed = Rng::new(sim_seed ^ KILLS).below(4) == 0;
        if self.was_killed {
            self.journal = life.journal;
            self.left = [life.flash, life.disk, life.label_file];
        } else {
            self.journal = life::blank_journal();
            self.oracles.iter().for_each(|oracle| oracle.lock().power_has_failed());
            self.left = life::devices_on(media);
        }
        Ok(())
    }
}

impl Between {
    /// Lets a device of a volume fail for a while, now and then, and tells the oracles.
    fn outage(&self, mode: Mode, cut_off: u64, plan: &Arc<FaultPlan>, seed: u64) -> Option<outages::Planned> {
        self.cache.door?;
        let outage = outages::Planned::draw(mode, cut_off, self.restarts == 0, seed)?;
        for oracle in &self.oracles {
            let mut oracle = oracle.lock();
            // A disk that refuses pages gets them in parts, and a flash that has failed none.
            oracle.straight_to_disk = true;
            oracle.outages = outage.is_noticed.then(|| plan.clone());
            oracle.may_be_unreadable = outage.breaks_reads;
            oracle.is_emptied |= outage.of_flash && mode != Mode::WriteBack;
            if outage.in_open && outage.breaks_reads && self.was_killed {
                oracle.may_lose_in_open();
            }
        }
        Some(outage)
    }

    fn was_out(&mut self, outage: Option<&outages::Planned>, mode: Mode) {
        let Some(outage) = outage else { return };
        self.flash_was_out |= outage.of_flash;
        self.oracles[0].lock().lives.outages += 1;
        // In write-back the journal has what the disk has dropped.
        if outage.loses_writes && mode != Mode::WriteBack {
            self.oracles.iter().for_each(|oracle| oracle.lock().syncs_have_failed());
        }
    }

    fn has_failed(&mut self, failing: Option<Failing>) {
        self.flash_failed |= matches!(failing, Some(Failing::Breaks | Failing::Rots));
        self.oracles[0].lock().lives.failing += u64::from(failing.is_some());
    }
}

/// The cache is closed, and everything is durable. `may_fail`: a device has failed before.
fn shut_down(opened: &Opened, oracles: &[Shared], may_fail: bool) -> Result<(), String> {
    let known = |oracle: &Shared| oracle.lock().pages.clone();
    let (before, begun): (Vec<_>, Time) = (oracles.iter().map(known).collect(), now());
    match opened.close() {
        Err(_) if may_fail => return Ok(()),
        closed => closed.map_err(failed)?,
    }
    oracles.iter().zip(before).for_each(|(oracle, before)| oracle.lock().durable(&before, begun));
    oracles[0].lock().lives.shutdowns += 1;
    Ok(())
}

/// How a life has ended, unless power failed.
fn ended(lived: Outcome<Result<(), String>>) -> Result<(), String> {
    match lived {
        Outcome::Halted => Ok(()),
        Outcome::Finished(result) => result,
        Outcome::Deadlock { parked } => Err(format!("deadlock of {parked:?}")),
        Outcome::Panicked(message) => Err(message),
    }
}
