//! Recovering one crash image, and what may be found in it.
//!
//! Invariant: whatever goes wrong, a page is served in a version that the oracle admits, or not at all; and not at all only
//! where the rules of the case allow it.

use super::cache::{Cache, Opened};
use super::content::version;
use super::database::Stop;
use super::oracle::Oracle;
use super::point::{Point, observe};
use super::script::Shape;
use crate::machine::{Machine, Media};
use entresol_core::PageId;
use entresol_device::{Device, FaultPlan};
use entresol_engine::{Layer, TierError, check};
use entresol_runtime::sim::{Outcome, SimConfig, Simulation};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How a recovery has to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// The cache opens.
    Must,
    /// It opens, or is refused with a sentence.
    May,
    /// It had not been made completely: it opens, or can be made anew.
    Birth,
}

/// What the case allows.
#[derive(Debug)]
pub(super) struct Rules {
    pub opening: Opening,
    /// What the layer called durable has to be there, too.
    pub believe_layer: bool,
    /// A page may be reported damaged on flash, by its name.
    pub damage: bool,
    /// A page may be reported damaged on disk, by its name.
    pub disk_damage: bool,
    /// A torn copy on disk is repaired from the log.
    pub torn: bool,
    /// Flash and disk break no invariant, before and after.
    pub sound: bool,
    /// Damage that was noticed.
    pub noticed: AtomicU64,
}

impl Rules {
    /// After a power failure of sound devices.
    pub(super) fn crash(cache: &Cache) -> Self {
        Self {
            opening: Opening::Must,
            believe_layer: true,
            damage: false,
            disk_damage: false,
            torn: !cache.keeps_dirty(),
            sound: true,
            noticed: AtomicU64::new(0),
        }
    }

    /// Before the cache was made completely.
    pub(super) fn birth(cache: &Cache) -> Self {
        Self { opening: Opening::Birth, sound: false, ..Self::crash(cache) }
    }

    /// After flash lost or changed something without a word. Where nothing on it is needed, nothing is lost; elsewhere
    /// the loss is reported.
    pub(super) fn silent(cache: &Cache) -> Self {
        let needed = cache.keeps_dirty();
        Self {
            opening: if needed { Opening::May } else { Opening::Must },
            believe_layer: false,
            damage: needed,
            sound: false,
            ..Self::crash(cache)
        }
    }

    /// After a device has failed and said so. A tier that switched itself off has written pages in place: a torn one is
    /// repaired from the log.
    pub(super) fn failed(cache: &Cache) -> Self {
        Self { torn: true, sound: false, ..Self::crash(cache) }
    }

    /// After the disk changed a page without a word: it is missed when it is read.
    pub(super) fn silent_disk(cache: &Cache) -> Self {
        Self { disk_damage: true, sound: false, ..Self::crash(cache) }
    }

    /// Another flash device than the right one, or none: refused where the right one is needed, of no consequence
    /// elsewhere.
    pub(super) fn exchanged(cache: &Cache) -> Self {
        let opening = if cache.keeps_dirty() { Opening::May } else { Opening::Must };
        Self { opening, sound: false, ..Self::crash(cache) }
    }

    /// Fetches a page. `None`: a torn copy lies on disk, and the log repairs it; or it is damaged, and was reported.
    pub(super) fn fetch(
        &self,
        layer: &dyn Layer,
        oracle: &Oracle,
        page: PageId,
        buffer: &mut [u8],
    ) -> Result<Option<u64>, Stop> {
        match layer.fetch(page, buffer) {
            Ok(fetched) => {
                let found = version(page, buffer).map_err(Stop::Wrong)?;
                match oracle.admits(page, found, self.believe_layer) {
                    true => Ok(Some(found)),
                    false => Err(Stop::Wrong(format!(
                        "page {page} was found at version {found} ({:?}): {}",
                        fetched.source,
                        oracle.describe(page)
                    ))),
                }
            }
            Err(TierError::Damaged { page: named, ref place, .. })
                if named == page && place.starts_with("disk") =>
            {
                if self.disk_damage {
                    self.noticed.fetch_add(1, Relaxed);
                    return Ok(None);
                }
                if oracle.admits(page, 0, self.believe_layer) {
                    return Ok(Some(0));
                }
                match self.torn && oracle.may_be_torn(page) {
                    true => Ok(None),
                    false => Err(Stop::Wrong(format!(
                        "page {page} is damaged on disk: {}; the layer's word counts: {}",
                        oracle.describe(page),
                        self.believe_layer
                    ))),
                }
            }
            Err(TierError::Damaged { page: named, .. }) if named == page && self.damage => {
                self.noticed.fetch_add(1, Relaxed);
                Ok(None)
            }
            Err(error) => Err(Stop::Refused(error)),
        }
    }
}

/// What a recovery came to.
#[derive(Debug, Default)]
pub(super) struct Recovered {
    /// Pages compared with the oracle.
    pub pages: u64,
    /// Damage was noticed, or the flash refused.
    pub noticed: bool,
    /// Moments at which the recovery could have been cut off.
    pub points: Vec<Point>,
}

/// Runs `body` in a simulation from `seed`. An error tells of a panic or of tasks that wait for ever; `None`: power failed.
pub(super) fn simulate<T: Send>(seed: u64, body: impl FnOnce() -> T + Send) -> Result<Option<T>, String> {
    let preempt_one_of = [0, 4, 0, 25][seed as usize % 4];
    let config = SimConfig { seed, random_order: true, preempt_one_of, ..SimConfig::default() };
    match Simulation::new(config).run(body) {
        Outcome::Finished(result) => Ok(Some(result)),
        Outcome::Halted => Ok(None),
        Outcome::Deadlock { parked } => Err(format!("nothing goes on: {parked:?} wait for ever")),
        Outcome::Panicked(message) => Err(message),
    }
}

/// As [`simulate`], without a power failure.
pub(super) fn undisturbed<T: Send>(seed: u64, body: impl FnOnce() -> T + Send) -> Result<T, String> {
    simulate(seed, body)?.ok_or_else(|| "the simulation was halted though no crash was planned".to_owned())
}

/// The cache on these devices, opened as `opening` says, and what was said then.
pub(super) fn open(machine: &Machine, cache: &Cache, opening: Opening) -> Result<Opened, TierError> {
    match cache.open(machine) {
        Err(TierError::Refused(_)) if opening == Opening::Birth => cache.create(machine),
        result => result,
    }
}

/// Recovers what lies on `media` and compares each page with `oracle`. With `watch` the moments at which this could be cut
/// off are recorded.
pub(super) fn recover(
    shape: &Shape,
    media: Media,
    oracle: &Oracle,
    rules: &Rules,
    seed: u64,
    watch: bool,
) -> Result<Recovered, String> {
    let mut machine = Machine::new(media, FaultPlan::none(), 0);
    if rules.sound {
        shape.cache.expect_sound(&machine, "after the crash")?;
    }
    let points = watch.then(|| observe(&mut machine, Arc::new(Mutex::new(oracle.clone())), 1, None));
    let result = undisturbed(seed, || -> Result<(u64, bool), Stop> {
        let (tier, notices) = open(&machine, &shape.cache, rules.opening)?;
        if rules.sound
            && let Some(odd) = notices.iter().find(|notice| !is_usual(notice))
        {
            return Err(Stop::Wrong(format!("the cache opens with the notice {odd:?}")));
        }
        let mut buffer = vec![0; shape.cache.page_bytes() as usize];
        let mut pages = 0;
        for page in oracle.ids() {
            rules.fetch(&*tier, oracle, page, &mut buffer)?;
            pages += 1;
        }
        let noticed = !notices.is_empty() || shape.cache.is_damaged(&*tier);
        Ok((pages, noticed))
    })?;
    let points = points.map(|points| points.take()).unwrap_or_default();
    if result.is_ok() && rules.sound {
        shape.cache.expect_sound(&machine, "after the restart")?;
    }
    conclude(rules, result, points)
}

/// What a recovery that ended with `result` (pages compared, and whether damage was noticed) comes to.
pub(super) fn conclude(
    rules: &Rules,
    result: Result<(u64, bool), Stop>,
    points: Vec<Point>,
) -> Result<Recovered, String> {
    match result {
        Ok((pages, noticed)) => {
            let noticed = noticed || rules.noticed.load(Relaxed) > 0;
            Ok(Recovered { pages, noticed, points })
        }
        Err(Stop::Wrong(sentence)) => Err(sentence),
        Err(Stop::Refused(TierError::Refused(_) | TierError::Damaged { .. }))
            if rules.opening == Opening::May =>
        {
            Ok(Recovered { pages: 0, noticed: true, points })
        }
        // A dequeue in the background met the damaged page first: the tier has stopped, and its reason names the page.
        Err(Stop::Refused(TierError::Poisoned { reason, .. }))
            if rules.damage && reason.contains("is damaged") =>
        {
            Ok(Recovered { pages: 0, noticed: true, points })
        }
        Err(Stop::Refused(error)) => Err(format!("the cache does not come back: {error}")),
    }
}

/// Said after crashes, too.
fn is_usual(notice: &str) -> bool {
    notice.contains("were copied there first") || notice.starts_with("superblock copy")
}

/// Whether a check of these media finds fault with them.
pub(super) fn is_found_out(media: &Media) -> bool {
    let disk: Arc<dyn Device> = Arc::new(media.disk.fork("disk"));
    !check(&media.flash, Some(disk)).is_ok_and(|report| report.is_sound())
}
