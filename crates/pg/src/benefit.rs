//! What the cache saved in the last hour, and what that took.
//!
//! The worker notes the counters once a minute. A report is the difference between their present values and
//! the oldest note of the hour. Reads saved are reads that the cache has served. Writes saved are pages that
//! the server has handed down and would have written to disk, less those that the cache has written there.
//!
//! What a read or a write of the disk takes is measured:
//!
//! - *Reads*: one of [`ONE_OF`] reads of the disk is repeated before, by the process that is about to make
//!   it, and timed. If the kernel caches files, the server's own read is served from there then; with direct
//!   I/O it is one more.
//! - *Writes*: those of the cache itself, with the syncs after them.

use crate::locator::{Folders, SEGMENT_BLOCKS};
use crate::memory::{Board, Tally};
use crate::settings::PAGE_BYTES;
use crate::types::{EntBenefit, EntFork, FORECAST_BYTES};
use entresol_engine::{AlignedBuffer, Forecasts, TierMetrics};
use rustix::fs::OFlags;
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// One of so many reads of the disk is timed.
const ONE_OF: u64 = 256;
/// Most pages of a read that is timed.
const PAGES_MAX: u32 = 16;
/// Between two notes, seconds.
const EVERY_S: u64 = 60;
/// How far back a report goes, seconds.
const HOUR_S: u64 = 3600;
/// Places for notes: more than an hour has, so that none is written that is read.
const PLACES: usize = 64;

/// Time that some pages took.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Timed {
    pages: Tally,
    ns: Tally,
}

impl Timed {
    /// So many pages took so long.
    pub fn add(&self, pages: u64, took: Duration) {
        self.pages.add(pages);
        self.ns.add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }
}

/// Counters since the cache was opened. Time is in seconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    at_s: u64,
    hits: u64,
    staged_dirty: u64,
    destaged: u64,
    flash_writes: u64,
    read_pages: u64,
    read_ns: u64,
    written_pages: u64,
    written_ns: u64,
}

/// Words of a note.
const WORDS: usize = 9;

impl Counts {
    fn now(board: &Board, engine: &TierMetrics) -> Self {
        Self {
            at_s: now_s(),
            hits: engine.staging_hits + engine.flash_hits,
            staged_dirty: board.staged_dirty.get(),
            destaged: engine.disk_writes,
            flash_writes: engine.flash_writes,
            read_pages: board.hour.reads.pages.get(),
            read_ns: board.hour.reads.ns.get(),
            written_pages: board.hour.writes.pages.get(),
            written_ns: board.hour.writes.ns.get(),
        }
    }

    fn words(&self) -> [u64; WORDS] {
        let Self { at_s, hits, staged_dirty, destaged, flash_writes, .. } = *self;
        let Self { read_pages, read_ns, written_pages, written_ns, .. } = *self;
        [at_s, hits, staged_dirty, destaged, flash_writes, read_pages, read_ns, written_pages, written_ns]
    }

    fn of(words: [u64; WORDS]) -> Self {
        let [
            at_s,
            hits,
            staged_dirty,
            destaged,
            flash_writes,
            read_pages,
            read_ns,
            written_pages,
            written_ns,
        ] = words;
        Self {
            at_s,
            hits,
            staged_dirty,
            destaged,
            flash_writes,
            read_pages,
            read_ns,
            written_pages,
            written_ns,
        }
    }

    /// What was counted since `before`.
    fn since(&self, before: &Self) -> Self {
        let (now, before) = (self.words(), before.words());
        Self::of(std::array::from_fn(|at| now[at].saturating_sub(before[at])))
    }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// In shared memory: the notes of the last hour, and what the disk took. Zeros are new ones.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Hour {
    /// Notes so far.
    notes: AtomicU64,
    places: [[AtomicU64; WORDS]; PLACES],
    /// Reads of the disk by the server, but for [`ONE_OF`].
    due: AtomicU64,
    /// Those that were timed.
    pub reads: Timed,
    /// Writes to disk by the cache.
    pub writes: Timed,
}

impl Default for Hour {
    fn default() -> Self {
        Self {
            notes: AtomicU64::new(0),
            places: [const { [const { AtomicU64::new(0) }; WORDS] }; PLACES],
            due: AtomicU64::new(0),
            reads: Timed::default(),
            writes: Timed::default(),
        }
    }
}

impl Hour {
    fn note(&self, number: u64) -> Counts {
        let place = &self.places[(number % PLACES as u64) as usize];
        Counts::of(std::array::from_fn(|at| place[at].load(Ordering::Relaxed)))
    }

    /// Whether a note is due. A clock that was put back makes one due.
    fn is_due(&self, at_s: u64) -> bool {
        let notes = self.notes.load(Ordering::Relaxed);
        notes == 0 || at_s.abs_diff(self.note(notes - 1).at_s) >= EVERY_S
    }

    /// In the worker, which alone writes.
    fn write(&self, counts: &Counts) {
        let notes = self.notes.load(Ordering::Relaxed);
        let place = &self.places[(notes % PLACES as u64) as usize];
        place.iter().zip(counts.words()).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        self.notes.store(notes + 1, Ordering::Release);
    }

    /// The oldest note of the hour before `at_s`.
    fn oldest(&self, at_s: u64) -> Option<Counts> {
        let notes = self.notes.load(Ordering::Acquire);
        let first = notes.saturating_sub(HOUR_S / EVERY_S + 1);
        (first..notes).map(|number| self.note(number)).find(|note| at_s.abs_diff(note.at_s) <= HOUR_S)
    }

    /// In the worker: counters of the cache begin anew.
    pub fn restart(&self) {
        self.notes.store(0, Ordering::Release);
    }

    /// The server is about to read the disk: whether that read is to be timed.
    pub fn read_is_timed(&self) -> bool {
        self.due.fetch_add(1, Ordering::Relaxed).is_multiple_of(ONE_OF)
    }
}

/// In the worker, every now and then.
pub(crate) fn tick(board: &Board, metrics: impl FnOnce() -> TierMetrics) {
    if board.hour.is_due(now_s()) {
        board.hour.write(&Counts::now(board, &metrics()));
    }
}

/// Reads `n` blocks of a fork from their file as the server does, and times it. What cannot be read, the
/// server reports.
pub(crate) fn time_read(
    board: &Board,
    folders: &Folders,
    (fork, block, n): (EntFork, u32, u32),
    direct: bool,
) {
    let at = block % SEGMENT_BLOCKS;
    let pages = n.min(PAGES_MAX).min(SEGMENT_BLOCKS - at);
    if let Some(took) = time_file(&folders.file(&fork, block), at, pages, direct) {
        board.hour.reads.add(pages.into(), took);
    }
}

fn time_file(file: &Path, at: u32, pages: u32, direct: bool) -> Option<Duration> {
    let flags = if direct { OFlags::DIRECT.bits() } else { 0 };
    let file = File::options().read(true).custom_flags(flags.cast_signed()).open(file).ok()?;
    let mut buffer = AlignedBuffer::new(pages as usize * PAGE_BYTES);
    let begin = Instant::now();
    file.read_exact_at(&mut buffer, u64::from(at) * PAGE_BYTES as u64).ok()?;
    Some(begin.elapsed())
}

/// The report of now.
pub(crate) fn report(board: &Board, engine: &TierMetrics) -> EntBenefit {
    let now = Counts::now(board, engine);
    // Before the first note there is nothing to tell of.
    let oldest = board.hour.oldest(now.at_s).unwrap_or(now);
    let counted = now.since(&oldest);
    let per_page = |ns: u64, pages: u64| ns.checked_div(pages).unwrap_or(0);
    let measured = |of_hour: (u64, u64), of_all: (u64, u64)| match per_page(of_hour.0, of_hour.1) {
        0 => per_page(of_all.0, of_all.1),
        ns => ns,
    };
    let read_ns = measured((counted.read_ns, counted.read_pages), (now.read_ns, now.read_pages));
    let write_ns = measured((counted.written_ns, counted.written_pages), (now.written_ns, now.written_pages));
    let mut forecast = [0; FORECAST_BYTES];
    let sentence = engine.forecasts.sentence();
    let kept = sentence.floor_char_boundary(FORECAST_BYTES - 1);
    forecast[..kept].copy_from_slice(&sentence.as_bytes()[..kept]);
    EntBenefit {
        since_s: oldest.at_s,
        seconds: counted.at_s,
        disk_reads_saved: counted.hits,
        disk_writes_saved: counted.staged_dirty as i64 - counted.destaged as i64,
        disk_read_ns: read_ns,
        disk_write_ns: write_ns,
        flash_write_bytes: counted.flash_writes * PAGE_BYTES as u64,
        hit_permille: [100, 50, 200].map(|percent| hits_of(&engine.forecasts, percent)),
        forecast,
    }
}

/// What a cache of this policy, of `percent` of the size, would hit of a thousand reads; -1: it is not known.
fn hits_of(forecasts: &Forecasts, percent: u32) -> i32 {
    let own = forecasts.iter().next().map(|own| own.candidate.policy);
    let found = forecasts
        .iter()
        .find(|found| Some(found.candidate.policy) == own && found.candidate.percent == percent)
        .filter(|found| found.is_settled);
    found.map_or(-1, |found| i32::try_from(found.hit_permille()).unwrap_or(-1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(at_s: u64) -> Counts {
        Counts { at_s, hits: at_s * 10, ..Counts::default() }
    }

    #[test]
    fn a_report_goes_back_an_hour_at_most() {
        let hour = Hour::default();
        assert!(hour.is_due(1000) && hour.oldest(1000).is_none());
        for at_s in 1000..9000 {
            if hour.is_due(at_s) {
                hour.write(&counts(at_s));
            }
            let oldest = hour.oldest(at_s).unwrap();
            assert_eq!(oldest.hits, oldest.at_s * 10);
            let expected = at_s.saturating_sub(HOUR_S).max(1000);
            assert!((expected..expected + EVERY_S).contains(&oldest.at_s), "{at_s}: {oldest:?}");
        }
        // No note is made for a while, and the clock is put back.
        assert!(hour.oldest(20_000).is_none());
        assert!(hour.is_due(2000));
    }

    #[test]
    fn some_reads_are_timed_and_only_what_a_file_has() {
        let hour = Hour::default();
        assert_eq!((0..1000).filter(|_| hour.read_is_timed()).count(), 4);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("5");
        std::fs::write(&file, vec![0; 3 * PAGE_BYTES]).unwrap();
        assert!(time_file(&file, 1, 2, false).is_some());
        assert!(time_file(&file, 2, 2, false).is_none());
        assert!(time_file(&folder.path().join("6"), 0, 1, false).is_none());
    }

    #[test]
    fn a_report_is_what_was_counted_since_the_oldest_note() {
        let board = Board::default();
        let metrics = |hits: u64, written: u64| TierMetrics {
            flash_hits: hits,
            flash_writes: written,
            disk_writes: 5,
            ..TierMetrics::default()
        };
        board.hour.reads.add(2, Duration::from_micros(80));
        tick(&board, || metrics(100, 10));
        board.staged_dirty.add(3);
        let report = report(&board, &metrics(130, 14));
        assert_eq!((report.disk_reads_saved, report.flash_write_bytes), (30, 4 * 8192));
        assert_eq!((report.disk_writes_saved, report.disk_read_ns, report.disk_write_ns), (3, 40_000, 0));
        assert_eq!(report.hit_permille, [-1; 3]);
    }
}
