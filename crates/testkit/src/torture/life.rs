//! One life of the machine: power on, recovery, operations, perhaps a shutdown. Every operation is observed.

use super::database::{Database, Stop};
use super::fault::FaultKind;
use super::judge::{Opening, Rules, open, simulate};
use super::oracle::Oracle;
use super::point::{Point, Stage, observe};
use super::script::{Life, Script};
use crate::machine::{Machine, Media};
use entresol_core::PageId;
use entresol_device::{Fault, FaultPlan, Injection};
use entresol_engine::{DiskLayer, Layer, Mode, Victim, disk_offset};
use entresol_runtime::spawn;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The state at the start of a life.
#[derive(Debug)]
pub(super) struct Start {
    pub media: Media,
    pub oracle: Oracle,
    /// The cache was created before.
    pub born: bool,
}

/// The result of a life.
pub(super) struct Lived {
    /// All moments at which power may have failed.
    pub points: Vec<Point>,
    /// The state after the end of the life, with a power failure then.
    pub end: Start,
    /// The fault that struck.
    pub struck: Option<FaultKind>,
    /// A device's fault stopped a client, or was detected otherwise.
    pub noticed: bool,
}

impl Start {
    /// The state before the first life: a disk with all pages at version 1, or blank devices.
    pub(super) fn new(script: &Script) -> Result<Self, String> {
        let shape = &script.shape;
        let page_bytes = shape.cache.page_bytes();
        let disk_bytes = disk_offset(PageId(shape.pages), page_bytes);
        let sectors = [(512, 512), (512, 512), (4096, 4096), (512, 4096)][script.seed as usize % 4];
        let media = Media::blank(disk_bytes, 0, shape.cache.flash_bytes()).with_sectors(sectors);
        if shape.fresh {
            return Ok(Self { media, oracle: Oracle::new(shape.pages, 0), born: false });
        }
        let machine = Machine::new(media, FaultPlan::none(), 0);
        let load = || {
            let layer = DiskLayer::create(machine.disk(), page_bytes)?;
            let mut buffer = vec![0; page_bytes as usize];
            for page in (0..shape.pages).map(PageId) {
                super::content::build(page, 1, &mut buffer);
                let lsn = entresol_core::Lsn(1);
                layer.evict(Victim { page, lsn, dirty: true, fdirty: true }, &buffer)?;
            }
            layer.close()
        };
        super::judge::undisturbed(script.seed, load)?
            .map_err(|error| format!("loading the disk: {error}"))?;
        Ok(Self { media: machine.after_crash(script.seed), oracle: Oracle::new(shape.pages, 1), born: false })
    }
}

/// The faults of `life`.
fn plan(life: &Life) -> FaultPlan {
    let injection =
        |device: &str, fault, at, forever| Injection { at, device: Some(device.to_owned()), fault, forever };
    let injections: Vec<Injection> = life.trouble.map_or_else(Vec::new, |trouble| {
        let first = injection(trouble.device, trouble.fault, trouble.at, trouble.forever);
        let second = trouble.disk_too.then(|| injection("disk", Fault::WriteError, trouble.at, true));
        std::iter::once(first).chain(second).collect()
    });
    let plan = FaultPlan::new(life.seed, injections);
    if life.seed.is_multiple_of(4) { plan.in_any_order() } else { plan }
}

/// Runs all clients of `life` to their end; returns the reason why one of them stopped. An error of the layer
/// takes precedence over a refusal.
fn run_clients(database: &Arc<Database>, life: &Life) -> Option<Stop> {
    let first = Arc::new(Mutex::new(None));
    let tasks = life.clients.iter().enumerate().map(|(client, ops)| {
        let (database, ops, first) = (database.clone(), ops.clone(), first.clone());
        spawn("client", move || {
            if let Err(stop) = database.run(client, &ops) {
                let mut first = first.lock();
                if !matches!(*first, Some(Stop::Wrong(_))) {
                    *first = Some(stop);
                }
            }
        })
    });
    let tasks: Vec<_> = tasks.collect();
    tasks.into_iter().for_each(|task| task.join());
    first.lock().take()
}

/// Runs the life; one of `one_of` moments is recorded. An error describes a defect of the engine.
pub(super) fn live(script: &Script, life: &Life, start: Start, one_of: u64) -> Result<Lived, String> {
    let shape = &script.shape;
    let kind = life.trouble.map(|trouble| FaultKind::of(trouble.fault));
    let mut machine = Machine::new(start.media, plan(life), 0);
    let oracle = Arc::new(Mutex::new(start.oracle));
    let stage = Arc::new(Stage::default());
    stage.born.store(start.born, Relaxed);
    let plan = machine.plan.clone();
    let points = observe(&mut machine, oracle.clone(), one_of, Some((stage.clone(), plan.clone(), kind)));
    machine.pace.set(shape.latency_max);

    let body = || -> Result<(), Stop> {
        let opening = if start.born { Opening::Must } else { Opening::Birth };
        let (tier, _) = open(&machine, &shape.cache, opening)?;
        stage.opened.store(true, Relaxed);
        let clients = life.clients.len();
        let database =
            Database::new(tier.clone(), oracle.clone(), shape.cache.page_bytes(), clients, shape.frames);
        if start.born {
            // Also for restarts after a life in which a device failed.
            let rules = Rules::failed(&shape.cache);
            // A bit flip during this restart looks like a write that was torn before.
            let silent = kind.is_some_and(FaultKind::is_silent);
            let meanwhile = silent.then(|| (plan.clone(), Box::new(Rules::silent(&shape.cache))));
            database.recover(&Rules { meanwhile, ..rules })?;
        } else {
            stage.born.store(true, Relaxed);
            if shape.fresh {
                database.load()?;
            }
        }
        let stopped = run_clients(&database, life);
        // All content of this flash was written in this life.
        if shape.cache.tier().is_none() && plan.struck() == 0 && shape.cache.is_damaged(&*tier) {
            let why = "nothing was wrong with the flash, and yet what lay there was not the version wanted";
            return Err(Stop::Wrong(why.to_owned()));
        }
        match stopped {
            Some(stop) => Err(stop),
            None if life.closes => database.shutdown(),
            None => Ok(()),
        }
    };
    let result = simulate(life.seed, body)?
        .ok_or_else(|| "the simulation was halted though no crash was planned".to_owned())?;
    let struck = kind.filter(|_| plan.struck() > 0);
    let noticed = result.is_err();
    match result {
        Ok(()) => {
            if life.closes {
                let all = oracle.lock().snapshot();
                oracle.lock().promise(&all);
            }
        }
        Err(Stop::Wrong(sentence)) => return Err(sentence),
        Err(Stop::Refused(error)) if struck.is_none() => {
            return Err(format!("nothing was wrong with the devices, and yet: {error}"));
        }
        Err(Stop::Refused(error)) => {
            expect_allowed(script, life, struck, stage.opened.load(Relaxed), &error)?;
        }
    }
    if life.closes && life.trouble.is_none() {
        shape.cache.expect_sound(&machine, "after a shutdown")?;
    }
    let born = stage.born.load(Relaxed);
    let known = oracle.lock().clone();
    let end = Start { media: machine.after_crash(life.seed), oracle: known, born };
    Ok(Lived { points: points.take(), end, struck, noticed })
}

/// Whether the engine may stop with `error` after this fault.
fn expect_allowed(
    script: &Script,
    life: &Life,
    struck: Option<FaultKind>,
    opened: bool,
    error: &entresol_engine::TierError,
) -> Result<(), String> {
    let cache = &script.shape.cache;
    let needed = cache.keeps_dirty() || cache.mode() == Mode::WriteBack;
    let flash_alone = life.trouble.is_some_and(|trouble| trouble.device == "flash" && !trouble.disk_too);
    // A blank flash with a flipped bit is not blank any more: its owner decides.
    if struck.is_some_and(FaultKind::is_silent) && error.to_string().contains("is not blank") {
        return Ok(());
    }
    match struck {
        // Nothing on this flash is needed, so its content must have no effect.
        Some(kind) if kind.is_silent() && !needed => {
            Err(format!("{kind} on flash that holds nothing of value, and yet: {error}"))
        }
        // Nor does it matter whether it works.
        Some(kind) if cache.tier().is_none() && opened && flash_alone => {
            Err(format!("{kind} on flash that nobody needs, and yet: {error}"))
        }
        _ => Ok(()),
    }
}
