//! How far the server's write-ahead log was when pages entered the flash, and whether a cluster's log is that
//! one (docs/POSTGRESQL.md, "A snapshot that is rolled back").
//!
//! Invariants:
//!
//! 1. A position is the end of a record that was durable: no crash, and no end of a recovery, changes a byte
//!    before it. (The flush pointer may be within a record, which a recovery may cut off.)
//! 2. A position is not before the positions that the processes have told ([`LogBoard::say`]), but for a
//!    record that was not complete then: pages know of whole records only.
//! 3. Its digest is that of all bytes of the log from where the cache began, whatever files they are in.

mod records;
mod segments;
#[cfg(test)]
mod tests;

use crc_fast::{CrcAlgorithm, Digest};
use entresol_engine::{LogPosition, OwnersLog};
use entresol_runtime::sync::{Mutex, Rank};
use segments::Segments;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use tracing::warn;

/// Bytes of the log between two places at which the digest is kept.
const WAYPOINT_BYTES: u64 = 1 << 20;
/// Bytes read at once.
const CHUNK: usize = 128 << 10;
/// The digest at the beginning.
const SEED: u64 = !0;

/// In shared memory: how far the processes know the log to be durable. Zeros: nothing was said.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct LogBoard {
    lsn: AtomicU64,
    timeline: AtomicU64,
}

impl LogBoard {
    /// All before `lsn`, on `timeline`, is durable. Of a server that is recovering: it was replayed.
    pub fn say(&self, timeline: u32, lsn: u64) {
        // First: a reader of the place finds a timeline that has it.
        if self.timeline.load(SeqCst) < timeline.into() {
            self.timeline.fetch_max(timeline.into(), SeqCst);
        }
        if self.lsn.load(SeqCst) < lsn {
            self.lsn.fetch_max(lsn, SeqCst);
        }
    }

    fn said(&self) -> (u32, u64) {
        let lsn = self.lsn.load(SeqCst);
        (self.timeline.load(SeqCst) as u32, lsn)
    }
}

/// Where a log is, and where redo begins.
#[derive(Clone, Debug)]
pub(crate) struct LogAt {
    /// The cluster's folder with the segments.
    pub folder: PathBuf,
    /// Bytes of a segment: a power of two.
    pub segment_bytes: u64,
    /// Timeline of the checkpoint that redo begins with.
    pub timeline: u32,
    /// Where redo begins.
    pub redo: u64,
}

/// See the module's header.
pub(crate) struct Wal {
    at: LogAt,
    board: &'static LogBoard,
    reading: Mutex<LogProgress>,
}

/// How far the log was read.
struct LogProgress {
    segments: Segments,
    /// The end of a record, and the digest there.
    end: u64,
    digest: u64,
    /// Places before `end`, in ascending order, with the digests there; the first one is not after the last
    /// checkpoint but one.
    waypoints: Vec<(u64, u64)>,
    /// The last two checkpoints that were asked for, with their digests; 0: unknown.
    marks: [(u64, u64); 2],
    /// It could not be read on from `end`, which was said. `end` stays until it can.
    is_told: bool,
    /// The cache was closed by this process, which has read the log itself, and is opened again.
    continues: bool,
}

impl LogProgress {
    fn new(at: &LogAt) -> Self {
        let redo = records::boundary(at.redo, at.segment_bytes);
        Self {
            segments: Segments::new(&at.folder, at.segment_bytes),
            end: redo,
            digest: SEED,
            waypoints: vec![(redo, SEED)],
            marks: [(at.redo, SEED); 2],
            is_told: false,
            continues: false,
        }
    }

    /// Continues to `to`, the end of a record.
    fn digest_to(&mut self, timeline: u32, to: u64) -> io::Result<()> {
        let mut state = (self.end, self.digest);
        let waypoints = &mut self.waypoints;
        digest(&mut self.segments, timeline, &mut state, to, |at, digest| {
            if waypoints.last().is_none_or(|(last, _)| at >= last + WAYPOINT_BYTES) {
                waypoints.push((at, digest));
            }
        })?;
        (self.end, self.digest) = state;
        Ok(())
    }

    /// Continues to the end of the last record that is complete before `limit`.
    fn read_to(&mut self, timeline: u32, limit: u64) -> io::Result<()> {
        let end = records::last_end(&mut self.segments, timeline, self.end, limit)?;
        self.digest_to(timeline, end)
    }

    /// Says once that the log cannot be read on.
    fn tell(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.is_told, true) {
            warn!(
                "the flash cache cannot read the write-ahead log at {}: {error}; until it can, a rolled-back snapshot of the \
                 cluster may not be noticed",
                show(self.end)
            );
        }
    }

    fn digest_at(&mut self, timeline: u32, mark: u64) -> io::Result<u64> {
        if mark >= self.end {
            self.digest_to(timeline, mark)?;
            return Ok(self.digest);
        }
        let before = self.waypoints.iter().rev().find(|(at, _)| *at <= mark);
        let mut state = *before.ok_or_else(|| io::Error::other("it was not read from there"))?;
        digest(&mut self.segments, timeline, &mut state, mark, |_, _| ())?;
        Ok(state.1)
    }
}

/// Brings `state`, a place and the digest there, to the place `to`.
fn digest(
    segments: &mut Segments,
    timeline: u32,
    state: &mut (u64, u64),
    to: u64,
    mut passes: impl FnMut(u64, u64),
) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK.min((to - state.0.min(to)) as usize)];
    while state.0 < to {
        let length = (CHUNK as u64 - state.0 % CHUNK as u64).min(to - state.0) as usize;
        segments.read(timeline, state.0, &mut buffer[..length])?;
        let mut sum = Digest::new_with_init_state(CrcAlgorithm::Crc64Nvme, state.1);
        sum.update(&buffer[..length]);
        *state = (state.0 + length as u64, sum.get_state());
        passes(state.0, state.1);
    }
    Ok(())
}

/// An LSN as PostgreSQL writes it.
pub(crate) fn show(lsn: u64) -> String {
    format!("{:X}/{:X}", lsn >> 32, lsn as u32)
}

impl Wal {
    /// The log that is at `at`.
    pub fn new(at: LogAt, board: &'static LogBoard) -> Self {
        let reading = Mutex::new(Rank::OwnersLog, LogProgress::new(&at));
        Self { at, board, reading }
    }

    /// The cache that this process has closed is opened again, with the log as it was read.
    pub fn continues(&self) {
        self.reading.lock().continues = true;
    }

    fn is_proved(
        &self,
        reading: &mut LogProgress,
        newest: LogPosition,
        marks: [(u64, u64); 2],
    ) -> Result<(), String> {
        let redo = records::boundary(self.at.redo, self.at.segment_bytes);
        if newest.lsn == 0 {
            return Ok(());
        }
        let mark = marks.iter().find(|(mark, _)| *mark == self.at.redo);
        let Some((_, digest)) = mark else {
            return Err(format!(
                "the cluster's REDO pointer is {}, which is none of the checkpoints that the flash knows",
                show(self.at.redo)
            ));
        };
        if *digest == 0 {
            warn!(
                "how the write-ahead log was when the flash was used last is not known, and was not compared"
            );
            return Ok(());
        }
        (reading.digest, reading.waypoints, reading.marks) = (*digest, vec![(redo, *digest)], marks);
        if newest.lsn <= redo {
            return Ok(());
        }
        let (from, to) = (show(redo), show(newest.lsn));
        let timeline = newest.timeline.max(self.at.timeline);
        let read = reading.digest_to(timeline, newest.lsn);
        let what = match read {
            Ok(()) if reading.digest == newest.digest => return Ok(()),
            Ok(()) => format!("it is another one between {from} and {to}"),
            Err(error) => format!("it cannot be read from {from} to there: {error}"),
        };
        Err(format!(
            "the flash depends on the write-ahead log up to {to} of timeline {timeline}, and the cluster's log is older or \
             another one ({what}): the flash is newer than the cluster's files, which were put back to an earlier state, a \
             snapshot for instance"
        ))
    }
}

impl OwnersLog for Wal {
    fn position(&self) -> LogPosition {
        let mut reading = self.reading.lock();
        let (timeline, limit) = self.board.said();
        if limit > reading.end {
            match reading.read_to(timeline, limit) {
                Ok(()) => reading.is_told = false,
                Err(error) => reading.tell(&error),
            }
        }
        LogPosition { timeline: timeline.max(self.at.timeline), lsn: reading.end, digest: reading.digest }
    }

    fn digests_at(&self, marks: [u64; 2]) -> [u64; 2] {
        if marks == [0; 2] {
            return [0; 2];
        }
        let mut reading = self.reading.lock();
        let timeline = self.board.said().0.max(self.at.timeline);
        let digests = marks.map(|mark| {
            if let Some((_, digest)) = reading.marks.iter().find(|(known, _)| *known == mark) {
                return *digest;
            }
            let at = records::boundary(mark, self.at.segment_bytes);
            reading.digest_at(timeline, at).unwrap_or_else(|error| {
                reading.tell(&error);
                0
            })
        });
        reading.marks = [0, 1].map(|at| (marks[at], digests[at]));
        // Redo begins at the checkpoint before, at the earliest.
        let oldest = marks[0].min(marks[1]);
        let kept = reading.waypoints.partition_point(|(at, _)| *at <= oldest).saturating_sub(1);
        reading.waypoints.drain(..kept);
        digests
    }

    fn prove(&self, newest: LogPosition, marks: [(u64, u64); 2]) -> Result<(), String> {
        let mut reading = self.reading.lock();
        let continues = std::mem::take(&mut reading.continues);
        if continues && (reading.end, reading.digest, reading.marks) == (newest.lsn, newest.digest, marks) {
            return Ok(());
        }
        *reading = LogProgress::new(&self.at);
        let proved = self.is_proved(&mut reading, newest, marks);
        if proved.is_err() {
            *reading = LogProgress::new(&self.at);
        }
        proved
    }
}
