//! Caches of raw pages, whose owner has no log, but flushes, and forgets what is
//! dead. A client writes, flushes, forgets and reads; power fails at any request; an oracle knows what must
//! be there.
//!
//! Invariants that are checked, also after each power failure:
//! - a page has a version not older than the last one that was durable or served. After a write past the
//!   flash this holds for each sector, and the sector in flight may be unreadable;
//! - a forgotten page is served from disk, and after a flush does not come back.

mod cache;
mod closed;
mod devices;
mod door;
mod files;
mod life;
mod lives;
mod moments;
mod opened;
mod options;
mod oracle;
pub mod order;
mod outages;
mod torture;
pub mod wanted;

pub use cache::{CACHES, Cache, Kind};
pub use lives::lives;
pub use torture::{RawReport, RawTorture};

use crate::life::simulation;
use entresol_core::{Mode, PageId};
use entresol_device::Survival;
use entresol_engine::{Source, TierError};
use entresol_format::PageFormat;
use entresol_objects::ObjectId;
use entresol_runtime::rng::Rng;
use entresol_runtime::{Time, now, spawn};
use files::FILE_PAGES;
use opened::Opened;
use oracle::{Known, Shared, bytes, is_torn_of};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// Pages that the client uses: more than fit on flash.
const PAGES: u64 = 150;
/// Lives of one cache.
const LIVES: u64 = 4;
/// Longest time that a request takes on either side.
const LATENCY_MAX: Duration = Duration::from_micros(40);

/// Makes the choice of kills one of its own.
const KILLS: u64 = 0x4111;
/// As [`KILLS`], of the choice of flash devices that fail.
const FAULTS: u64 = 0xfa17;
/// As [`KILLS`], of the choice of lives whose trims reach the disk.
const TRIMS: u64 = 0x7213;
/// As [`KILLS`], of the choice of lives in which dirty pages stay.
const STAYS: u64 = 0x57a7;
/// As [`KILLS`], of what happens while the cache is closed.
const CLOSED: u64 = 0xc105;
/// As [`KILLS`], of the choice of outages.
const OUTAGES: u64 = 0x0a7e;
/// As [`KILLS`], of the choice of moments.
const MOMENTS: u64 = 0x303e;
/// As [`KILLS`], of the choice of lives that end with a shutdown.
const SHUTDOWNS: u64 = 0x5107;

/// Some of a client's requests, by number.
const FLUSH: u64 = 16;
const FORGET: u64 = 17;
const CHECKPOINT: u64 = 19;

/// Where power fails for a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Examined {
    /// Where each life ends; the next life begins there.
    Ends,
    /// At many other moments of each life, too. The cache is opened and read once after each.
    Moments,
}

/// What the lives of a cache amounted to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawLives {
    /// Power failures after which the cache was opened again.
    pub restarts: u64,
    /// Crash states that were examined.
    pub states: u64,
    /// Pages that came from flash after them.
    pub from_flash: u64,
    /// Lives that ended with a shutdown.
    pub shutdowns: u64,
    /// Flushes that returned.
    pub flushes: u64,
    /// Copies that were forgotten.
    pub forgotten: u64,
    /// Objects retired.
    pub retired: u64,
    /// Objects cut.
    pub cut: u64,
    /// Changed pages that went to disk alone (write-back).
    pub kept_out: u64,
    /// Lives in which the flash failed, or was not there.
    pub failing: u64,
    /// Requests that failed since only the flash had their pages.
    pub lost: u64,
    /// Lives in which a device failed for a while.
    pub outages: u64,
    /// Requests that failed in such a time.
    pub refused: u64,
    /// Reads that were carried out as the thread of a connection does it ([`Volume::begin_read`]).
    ///
    /// [`Volume::begin_read`]: entresol_block::Volume::begin_read
    pub ahead: u64,
    /// Writes past the flash that were made so.
    pub past: u64,
}

impl RawLives {
    /// Adds those of another cache.
    pub fn add(&mut self, other: &RawLives) {
        self.restarts += other.restarts;
        self.states += other.states;
        self.from_flash += other.from_flash;
        self.shutdowns += other.shutdowns;
        self.flushes += other.flushes;
        self.forgotten += other.forgotten;
        self.retired += other.retired;
        self.cut += other.cut;
        self.kept_out += other.kept_out;
        self.failing += other.failing;
        self.lost += other.lost;
        self.outages += other.outages;
        self.refused += other.refused;
        self.ahead += other.ahead;
        self.past += other.past;
    }
}

/// Fetches a page, or reads it as one without memory of its own, and checks it. `None`: its place on disk
/// cannot be read, and it is dead.
fn fetch(
    oracle: &Shared,
    opened: &Opened,
    page: u64,
    buffer: &mut [u8],
    as_reader: bool,
) -> Result<Option<Source>, String> {
    let Some(id) = opened.id(page)? else { return Ok(None) };
    // What is dead must not enter: its origin tells.
    let known = oracle.lock().of(page);
    let as_reader = as_reader && !known.forgotten && !known.since_forgotten;
    let begun = now();
    let fetched = opened.fetch(id, buffer, as_reader);
    judge(oracle, page, fetched, buffer, begun)
}

/// Checks what a request has fetched that began at `begun`; answers as [`fetch`].
fn judge(
    oracle: &Shared,
    page: u64,
    fetched: Result<Source, TierError>,
    buffer: &[u8],
    begun: Time,
) -> Result<Option<Source>, String> {
    let mut oracle = oracle.lock();
    match fetched {
        Err(error) if oracle.may_fail(page, &error, false, begun) => Ok(None),
        // A destage of what is dead was torn.
        Err(TierError::Unreadable { .. }) if oracle.of(page).forgotten || oracle.of(page).since_forgotten => {
            Ok(None)
        }
        Err(error) => Err(format!("page {page}: {error}, {:?}", oracle.of(page))),
        Ok(source) => oracle.check(page, buffer, source).map(|()| Some(source)),
    }
}

fn failed(error: TierError) -> String {
    error.to_string()
}

/// Whether a power failure has torn a write of this page to disk, as `fetched` and `buffer` tell.
fn is_torn(
    oracle: &Shared,
    opened: &Opened,
    page: u64,
    fetched: &Result<Source, TierError>,
    buffer: &[u8],
) -> bool {
    let oracle = oracle.lock();
    let known = oracle.of(page);
    match fetched {
        Err(TierError::Unreadable { .. }) => oracle.is_emptied || known.newest > known.least,
        // With a page of the cache, the pages of others in it are written, too.
        Err(TierError::Lost { .. } | TierError::Damaged { .. }) => false,
        Err(_) => opened.door.is_some(),
        Ok(_) => oracle.version(page, buffer) == 0 && is_torn_of(oracle.cache, page, buffer, known),
    }
}

/// After a restart: each page is as it may be, and what is served stays.
fn restarted(opened: &Opened, oracle: &Shared) -> Result<(), String> {
    let mut buffer = oracle.lock().buffer();
    let cuts = opened.files.as_ref().filter(|_| oracle.lock().clients == 1).map(|files| files.cuts());
    cuts.into_iter().flatten().try_for_each(|page| cut_off(opened, oracle, page))?;
    let pages = oracle.lock().some(0, PAGES);
    for page in pages {
        let begun = now();
        let fetched = opened.id(page)?.map(|id| opened.fetch(id, &mut buffer, false));
        let is_straight = oracle.lock().is_straight(page);
        let torn = |found: &_| is_straight && is_torn(oracle, opened, page, found, &buffer);
        if fetched.as_ref().is_some_and(torn) {
            write(opened, oracle, page)?;
            continue;
        }
        let judged = fetched.map(|found| judge(oracle, page, found, &buffer, begun)).transpose()?;
        let Some(source) = judged.flatten() else {
            if oracle.lock().may_lose {
                oracle.lock().pages.entry(page).or_default().unsure = true;
                continue;
            }
            // What was written after it was forgotten is lost.
            if let Some(known) = oracle.lock().pages.get_mut(&page) {
                *known = Known { forgotten: true, since_forgotten: false, ..*known };
            }
            continue;
        };
        let mut oracle = oracle.lock();
        oracle.lives.from_flash += u64::from(source == Source::Flash);
        let version = oracle.version(page, &buffer);
        let known = oracle.pages.entry(page).or_default();
        // What a restart finds on flash may have moved to staging since, with a second chance.
        if !known.forgotten || source != Source::Disk {
            let Known { zeros, trimmed, .. } = *known;
            *known = Known { newest: version, least: version, zeros, trimmed, ..Known::default() };
            oracle.is_answer(page, &buffer);
        }
    }
    Ok(())
}

/// The next version of a page: from here on it may be there, or the one before.
fn begin_write(oracle: &Shared, page: u64) -> u64 {
    let mut oracle = oracle.lock();
    oracle.next += 1;
    let version = oracle.next;
    let known = oracle.pages.entry(page).or_default();
    let before = match known.forgotten {
        true => Known { since_forgotten: true, ..Known::default() },
        false => *known,
    };
    *known = Known { newest: version, ..before };
    version
}

/// Writes a page in its next version.
fn write(opened: &Opened, oracle: &Shared, page: u64) -> Result<(), String> {
    if let Some(door) = &opened.door {
        return door::write(door, oracle, page);
    }
    let Some(id) = opened.id(page)? else { return Ok(()) };
    let version = begin_write(oracle, page);
    let data = bytes(oracle.lock().cache, page, version);
    let evicted = opened.write(id, &data).map_err(failed)?;
    let mut oracle = oracle.lock();
    oracle.lives.kept_out += u64::from(!evicted.dirty && oracle.cache.mode == Mode::WriteBack);
    Ok(())
}

/// Writes adjacent pages in their next versions, together.
fn write_run(opened: &Opened, oracle: &Shared, first: u64, pages: u64) -> Result<(), String> {
    if let Some(door) = opened.door.as_ref().filter(|_| entresol_runtime::random().is_multiple_of(8)) {
        return door::zero_whole(door, oracle, first);
    }
    // Behind the door often whole pages of the cache: these can go past the flash.
    let (first, pages, is_whole) = match opened.door.as_ref().map(|door| door.page_of_cache()) {
        Some(whole) if entresol_runtime::random().is_multiple_of(2) => {
            (first / whole * whole, pages * whole, true)
        }
        _ => (first, pages, false),
    };
    let run = first..PAGES.min(first + pages);
    let mut data = Vec::new();
    for page in run {
        let version = begin_write(oracle, page);
        data.extend(bytes(oracle.lock().cache, page, version));
    }
    // Not of objects, some of which are dropped meanwhile, nor of pages that need a seal.
    let is_possible = opened.files.is_none() && oracle.lock().cache.page_format == PageFormat::Raw;
    let as_stream = is_possible && oracle.lock().may_go_straight(first..PAGES.min(first + pages), is_whole);
    let begun = now();
    let written = opened.write_run(PageId(first), &data, as_stream);
    let mut oracle = oracle.lock();
    if let Err(error) = written {
        // Any of them may have been written.
        let mut all = first..PAGES.min(first + pages);
        let may_fail = all.all(|page| oracle.may_fail(page, &error, true, begun));
        return if may_fail { Ok(()) } else { Err(failed(error)) };
    }
    for page in first..PAGES.min(first + pages) {
        let version = oracle.of(page).newest;
        oracle.is_acknowledged(page, version);
    }
    Ok(())
}

/// The client will not ask for these pages any more before it has written them.
fn are_forgotten(oracle: &Shared, first: u64, last: u64) {
    for (_, known) in oracle.lock().pages.range_mut(first..=last) {
        *known = Known { newest: known.newest, forgotten: true, ..Known::default() };
    }
}

/// Forgets pages.
fn forget(opened: &Opened, oracle: &Shared, first: u64, last: u64) -> Result<(), String> {
    // Of objects, a range is within one of them.
    let last = if opened.files.is_some() { last.min(end_of_object(first) - 1) } else { last };
    let Some(id) = opened.id(first)? else { return Ok(()) };
    // A trim leaves what was there, or zeros.
    let last = if opened.door.is_some() { last.min(PAGES - 1) } else { last };
    if opened.door.is_none() {
        are_forgotten(oracle, first, last);
    }
    let begun = now();
    let forgotten = opened.forget(oracle, id, PageId(id.0 + (last - first)));
    let mut oracle = oracle.lock();
    if let Err(error) = forgotten {
        // Of a trim, which may have made zeros of some of them.
        let may_fail = (first..=last).all(|page| oracle.may_fail(page, &error, true, begun));
        return if may_fail && opened.door.is_some() { Ok(()) } else { Err(failed(error)) };
    }
    oracle.lives.forgotten += forgotten.unwrap_or_default();
    Ok(())
}

/// The first page of the next object.
fn end_of_object(page: u64) -> u64 {
    (page / FILE_PAGES + 1) * FILE_PAGES
}

/// Cuts off the file of `page` there.
fn cut_off(opened: &Opened, oracle: &Shared, page: u64) -> Result<(), String> {
    let (Some(files), Some(tier)) = (&opened.files, &opened.tier) else { return Ok(()) };
    let Some(id) = opened.id(page)? else { return Ok(()) };
    let last = end_of_object(page) - 1;
    are_forgotten(oracle, page, last);
    files.cut(tier, page, ObjectId(id.object()))?;
    let mut oracle = oracle.lock();
    oracle.pages.range_mut(page..=last).for_each(|(_, known)| known.of_others = true);
    oracle.lives.cut += 1;
    Ok(())
}

/// Retires the object of `page`, or cuts it there.
fn drop_object(opened: &Opened, oracle: &Shared, page: u64, cut: bool) -> Result<(), String> {
    let (Some(files), Some(tier)) = (&opened.files, &opened.tier) else { return Ok(()) };
    let Some(id) = opened.id(page)? else { return Ok(()) };
    let object = ObjectId(id.object());
    let end = end_of_object(page);
    if cut {
        return cut_off(opened, oracle, page);
    }
    are_forgotten(oracle, end - FILE_PAGES, end - 1);
    oracle.lock().lives.retired += 1;
    files.remove(tier, page, object)
}

/// Reads a page, which must be at its newest version.
fn read(opened: &Opened, oracle: &Shared, page: u64, buffer: &mut [u8]) -> Result<(), String> {
    let as_reader = entresol_runtime::random().is_multiple_of(2);
    let fetched = fetch(oracle, opened, page, buffer, as_reader)?;
    if let Some(door) = &opened.door {
        let ((ahead, past), mut oracle) = (door.take_ahead(), oracle.lock());
        oracle.lives.ahead += ahead;
        oracle.lives.past += past;
    }
    let Some(source) = fetched else { return Ok(()) };
    let known = oracle.lock().of(page);
    let version = oracle.lock().version(page, buffer);
    // Zeros may be of a trim or of the newest write.
    let is_zero = known.zeros == known.newest && buffer.iter().all(|byte| *byte == 0);
    let has_one_answer = oracle.lock().is_answer(page, buffer);
    let is_current = match known.forgotten {
        _ if !has_one_answer => false,
        true => oracle.lock().comes_from_disk(source),
        false => version == known.newest || known.unsure || is_zero,
    };
    match is_current {
        true => Ok(()),
        false => Err(format!("page {page} at version {version} from {source:?}, {known:?}")),
    }
}

/// Uses the cache for so many steps.
fn live(opened: &Opened, oracle: &Shared, rng: &mut Rng, steps: u64) -> Result<(), String> {
    let mut buffer = oracle.lock().buffer();
    let flush_every = [1, 1, 30][rng.below(3) as usize];
    // Some clients use few pages, so that the same ones are written, flushed and forgotten again and again;
    // some forget much.
    let pages = [PAGES, PAGES, PAGES / 6][rng.below(3) as usize];
    let forgets_much = rng.below(4) == 0;
    let sweeps = oracle.lock().cache.learns() && rng.below(4) > 0;
    // Requests that follow, each with its page; and the page that was written last.
    let (mut next, mut written) = (Vec::new(), 0);
    for step in 0..steps {
        let (drawn, many) = match sweeps {
            // One page after the other, and now and then one of the last again.
            true if rng.below(4) == 0 => (step.saturating_sub(1 + rng.below(8)) % PAGES, 1),
            true => (step % PAGES, 1),
            false => (rng.below(pages), 1 + rng.below(3)),
        };
        let (request, page) = next.pop().unwrap_or((rng.below(20), drawn));
        let mut mine = oracle.lock().some(page, many);
        let is_alone = oracle.lock().clients == 1;
        let request = match request {
            CHECKPOINT => {
                // Often the next group has nothing but a record of a durable page at first.
                let requests = [(FLUSH, page), (0, page), (FLUSH, page), (FORGET, written)];
                next.extend(requests.iter().filter(|_| forgets_much));
                CHECKPOINT
            }
            13..=15 if rng.below(flush_every) > 0 => 0,
            4..=9 if forgets_much => FORGET,
            request => request,
        };
        if request < 10 {
            written = page;
        }
        match request {
            // Time is counted in fetches.
            0..=9 if sweeps => {
                let Some(page) = mine.next() else { continue };
                fetch(oracle, opened, page, &mut buffer, false)?;
                write(opened, oracle, page)?;
            }
            0..=3 if is_alone && opened.files.is_none() => {
                // Again and again: the first write past the flash has a copy there to forget.
                let times = if opened.door.is_some() && rng.below(2) == 0 { 4 } else { 1 };
                (0..times).try_for_each(|_| write_run(opened, oracle, page, many))?;
            }
            0..=5 if opened.door.is_some() => door::write_together(opened, oracle, mine.collect())?,
            0..=9 => mine.try_for_each(|page| write(opened, oracle, page))?,
            10..=12 => mine.next().map_or(Ok(()), |page| read(opened, oracle, page, &mut buffer))?,
            17..=18 if is_alone && opened.files.is_some() && rng.below(2) == 0 => {
                drop_object(opened, oracle, page, rng.below(2) == 0)?;
            }
            17..=18 if is_alone => {
                let last = if rng.below(8) == 0 { u64::MAX } else { PAGES.min(page + 1 + rng.below(6)) - 1 };
                forget(opened, oracle, page, last)?;
            }
            17..=18 => mine.try_for_each(|page| forget(opened, oracle, page, page))?,
            request => {
                let before = oracle.lock().pages.clone();
                let files_before = opened.files.as_ref().map(|files| files.known());
                let begun = now();
                let done = if request == CHECKPOINT { opened.checkpoint() } else { opened.flush() };
                if done.is_err() && oracle.lock().flush_may_fail() {
                    continue;
                }
                done.map_err(failed)?;
                oracle.lock().durable(&before, begun);
                if let (Some(files), Some(before)) = (&opened.files, files_before) {
                    files.flushed(&before);
                }
            }
        }
    }
    Ok(())
}

/// Several clients use the cache at once.
fn live_together(opened: &Opened, oracles: &[Shared], rng: &mut Rng, steps: u64) -> Result<(), String> {
    let wrong = Arc::new(Mutex::new(None));
    let page_bytes = oracles[0].lock().cache.page_bytes();
    let mut start = |oracle: &Shared| {
        let (opened, oracle) = (opened.for_another(page_bytes)?, oracle.clone());
        let (wrong, mut rng) = (wrong.clone(), Rng::new(rng.next_u64()));
        Ok(spawn("client", move || {
            if let Err(what) = live(&opened, &oracle, &mut rng, steps) {
                *wrong.lock() = Some(what);
            }
        }))
    };
    let clients = oracles.iter().map(&mut start).collect::<Result<Vec<_>, String>>()?;
    clients.into_iter().for_each(|client| client.join());
    wrong.lock().take().map_or(Ok(()), Err)
}

/// What remains of the requests in the power failure.
fn survival(rng: &mut Rng, early: bool) -> Survival {
    match rng.below(3) {
        0 if !early => Survival::None,
        1 => Survival::Seed(rng.next_u64()),
        _ => Survival::Torn(rng.next_u64()),
    }
}
