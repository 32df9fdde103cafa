//! Short runs that together reach every named code point: of each rig, where it draws what a point needs, and
//! a few scenarios that are played out (`scenarios`). So a point that nothing reaches is noticed.
//!
//! Invariant: a run's seeds and sizes are fixed, and it has one thread.

mod scenarios;
mod volumes;

use crate::raw::{self, Cache, Examined, Kind};
use crate::torture::{DamagedFlash, Effort, Found, SickMedia, Tally, Target, TortureOptions, torture};
use crate::{Bank, Subject};
use entresol_core::PolicyKind;
use entresol_runtime::coverage::Point;
use entresol_runtime::rng::Rng;
use entresol_store::MIN_FRAMES;

/// A run.
#[derive(Clone, Copy)]
pub struct Run {
    /// What it is called.
    pub name: &'static str,
    /// How often it may be run, each time with the next seed.
    pub rounds: u64,
    /// Runs it, with a seed.
    pub run: fn(u64) -> Result<(), String>,
}

/// More rounds than any point needs. The test ends in the round in which all are reached.
const ROUNDS: u64 = 30;

/// Points that no run reaches, each with the reason.
pub const UNREACHED: &[(&str, &str)] = &[
    (
        "disk: pages that it refuses stay on flash",
        "the rigs' disks refuse for too short a time: crates/engine/tests/refused.rs",
    ),
    (
        "failure: the disk fails, too, and is asked again",
        "the rigs' flash and disk do not fail at once: crates/engine/tests/both_fail.rs",
    ),
    (
        "in place: the disk has grown, and its fingerprint is made anew",
        "no rig has a disk that grows between two lives: crates/engine/tests/in_place.rs",
    ),
    (
        "disk in place: it grows while it is in use",
        "no rig has a disk that grows: crates/engine/tests/grows.rs",
    ),
    (
        "writeback: as many pages are dirty as may be",
        "the rigs' caches have no ceiling: crates/block/tests/writeback.rs",
    ),
    (
        "lost pages: the record has no room for more, and the flash counts as failed",
        "the rigs' caches have too few pages: crates/engine/tests/lost.rs",
    ),
    (
        "recover: refused, the newest flush is damaged, and power has not failed",
        "the rigs damage only what was durable before a life: crates/engine/tests/flushed.rs",
    ),
    (
        "restart: the log moves into a larger area",
        "no rig has a device that grows between two lives: crates/store/tests/log_grow.rs",
    ),
    (
        "a page from beyond the log's end is refused",
        "the rigs' logs lose their end only where a restart notices it first: crates/store/tests/log_damage.rs",
    ),
];

/// All points of the crates under test.
pub fn points() -> impl Iterator<Item = &'static Point> {
    let of_crates = [entresol_engine::POINTS, entresol_engine::FRAGMENT_POINTS, entresol_store::POINTS];
    of_crates.into_iter().flatten().copied()
}

/// All runs.
pub const RUNS: &[Run] = &[
    drawn("torture of caches and stores", |seed| tortured(&["all"], Effort::THOROUGH, true, 8000, seed)),
    drawn("raw pages behind the block door", |seed| lived(Kind::Door, 3, seed)),
    drawn("raw pages", |seed| lived(Kind::Raw, 1, seed)),
    drawn("raw pages of objects", |seed| lived(Kind::Objects, 2, seed)),
    drawn("pages of PostgreSQL", |seed| lived(Kind::Postgres, 1, seed)),
    drawn("torture of fragments", |seed| tortured(&["sce"], Effort::LIVES, false, 400, seed)),
    drawn("slots that survive a crash", |seed| tortured(&["kept"], Effort::QUICK, false, 2000, seed)),
    drawn("lost writes of a slot directory", |seed| {
        tortured(&["tac"], Effort::LOST_WRITES, false, 200, seed)
    }),
    drawn("stores on a damaged flash", damaged_flash),
    drawn("stores on sick media", sick_media),
    drawn("readers and writers of raw pages", ordered),
    drawn("raw pages that their owner wants on disk", wanted),
    played("a longer list of missing pages than there is room for", |_| scenarios::long_list()),
    played("a cache of an older format", |_| scenarios::older_format()),
    played("a part of a page that is lost", |_| volumes::part_of_a_lost_page()),
    played("a part of a page on a dying flash", |_| volumes::part_of_a_page_on_a_dying_flash()),
    played("a table of objects whose making is cut off", |_| scenarios::objects_cut_off()),
];

const fn drawn(name: &'static str, run: fn(u64) -> Result<(), String>) -> Run {
    Run { name, rounds: ROUNDS, run }
}

const fn played(name: &'static str, run: fn(u64) -> Result<(), String>) -> Run {
    Run { name, rounds: 1, run }
}

fn tortured(names: &[&str], effort: Effort, stores: bool, states: u64, seed: u64) -> Result<(), String> {
    let targets = names.iter().flat_map(|name| Target::named(name)).collect();
    let usual = TortureOptions::new(seed, states);
    let report =
        torture(&TortureOptions { targets, effort, stores, threads: 1, shrink: false, ..usual }, &|_| ());
    report.violations.first().map_or(Ok(()), |violation| Err(violation.to_string()))
}

/// So many caches of each policy.
fn lived(kind: Kind, count: u64, seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let caches = raw::CACHES.into_iter().filter(|cache| cache.is_of(kind));
    let mut all = caches.flat_map(|cache| (0..count).map(move |_| cache));
    all.try_for_each(|cache: Cache| raw::lives(cache, rng.next_u64(), Examined::Ends).map(drop))
}

fn ordered(seed: u64) -> Result<(), String> {
    let mut caches = raw::order::CACHES.into_iter();
    caches.try_for_each(|cache| raw::order::run(cache, seed).and_then(|()| raw::order::writers(cache, seed)))
}

fn wanted(seed: u64) -> Result<(), String> {
    raw::wanted::CACHES.into_iter().try_for_each(|cache| raw::wanted::run(cache, seed))
}

/// A store whose pages are newer on flash than on disk.
const STORE: Subject = Subject::cached(PolicyKind::FaceGsc);

fn bank(seed: u64) -> Bank {
    Bank { clients: 1 + (seed % 4) as u32, frames: MIN_FRAMES, ..Bank::default() }
}

fn damaged_flash(seed: u64) -> Result<(), String> {
    let (bank, kinds) = (bank(seed), DamagedFlash::BITS);
    let damaged = DamagedFlash { system: STORE, bank, seed, transactions: 24, kinds };
    damaged.run(&mut Tally::default()).map_err(|Found { message, .. }| message)
}

fn sick_media(seed: u64) -> Result<(), String> {
    let sick = SickMedia { system: STORE, bank: bank(seed), seed, transactions: 24 };
    sick.run(&mut Tally::default()).map_err(|Found { message, .. }| message)
}
