//! A log as PostgreSQL writes it, in small segments.

use super::*;
use std::fs;
use std::path::Path;

const SEGMENT: u64 = 64 << 10;
const PAGE: u64 = 8192;

/// A log in memory, from segment 1 on, with the ends of its records.
struct Log {
    bytes: Vec<u8>,
    ends: Vec<u64>,
    random: u64,
}

fn header_bytes(page: u64) -> u64 {
    if page.is_multiple_of(SEGMENT) { 40 } else { 24 }
}

impl Log {
    fn new(seed: u64) -> Self {
        Self { bytes: Vec::new(), ends: Vec::new(), random: seed }
    }

    fn random(&mut self) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.random >> 33
    }

    fn end(&self) -> u64 {
        SEGMENT + self.bytes.len() as u64
    }

    /// Appends the header of a page on which `rest` bytes of a record continue.
    fn header(&mut self, flags: u16, rest: u32) {
        let page = self.end();
        let mut header = vec![0_u8; header_bytes(page) as usize];
        header[2..4].copy_from_slice(&flags.to_le_bytes());
        header[8..16].copy_from_slice(&page.to_le_bytes());
        header[16..20].copy_from_slice(&rest.to_le_bytes());
        self.bytes.append(&mut header);
    }

    /// Appends a record of `length` bytes; of `kept` pages of it only, and then a crash cuts it off.
    fn record(&mut self, length: u32, kind: (u8, u8), kept: Option<usize>) {
        let mut record: Vec<u8> = (0..length).map(|_| self.random() as u8).collect();
        record[..4].copy_from_slice(&length.to_le_bytes());
        (record[17], record[16]) = kind;
        if self.end().is_multiple_of(PAGE) {
            self.header(0, 0);
        }
        let (mut rest, mut pages) = (&record[..], 0);
        loop {
            let room = (PAGE - self.end() % PAGE) as usize;
            let (some, left) = rest.split_at(room.min(rest.len()));
            self.bytes.extend_from_slice(some);
            rest = left;
            if rest.is_empty() {
                break;
            }
            pages += 1;
            if kept == Some(pages) {
                self.header(8, 0);
                return;
            }
            self.header(1, rest.len() as u32);
        }
        let end = self.end().next_multiple_of(8);
        self.bytes.resize((end - SEGMENT) as usize, 0);
        if kind == records::SWITCH {
            let end = self.end().next_multiple_of(SEGMENT);
            self.bytes.resize((end - SEGMENT) as usize, 0);
        }
        self.ends.push(self.end());
    }

    fn grow(&mut self, records: usize) {
        for _ in 0..records {
            let length = 24 + (self.random() % 30_000) as u32 / (1 + self.random() % 40) as u32;
            self.record(length, (1, 0), None);
            match self.random() % 40 {
                0 => self.record(24, records::SWITCH, None),
                1 => self.record(20_000, (1, 0), Some(1)),
                _ => {}
            }
        }
    }

    /// Writes the log up to `limit` into files, with rubbish after that.
    fn write(&self, folder: &Path, timeline: u32, limit: u64) {
        fs::create_dir_all(folder).unwrap();
        for (number, bytes) in (1..).zip(self.bytes.chunks(SEGMENT as usize)) {
            let mut file = vec![0xa5; SEGMENT as usize];
            let begins = number * SEGMENT;
            let length = bytes.len().min(limit.saturating_sub(begins) as usize);
            file[..length].copy_from_slice(&bytes[..length]);
            fs::write(folder.join(segments::name(timeline, number, SEGMENT)), file).unwrap();
        }
    }

    /// The last end that is not after `limit`.
    fn last_end(&self, limit: u64) -> u64 {
        self.ends.iter().copied().take_while(|end| *end <= limit).last().unwrap_or(SEGMENT)
    }
}

fn wal(folder: &Path, timeline: u32, redo: u64) -> Wal {
    let board: &'static LogBoard = Box::leak(Box::default());
    Wal::new(LogAt { folder: folder.to_owned(), segment_bytes: SEGMENT, timeline, redo }, board)
}

#[test]
fn a_position_is_the_end_of_the_last_whole_record() {
    for seed in 0..30 {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::new(seed);
        log.grow(200);
        let wal = wal(folder.path(), 1, SEGMENT);
        let mut limit = SEGMENT;
        while limit < log.end() {
            limit = (limit + 1 + log.random() % 70_000).min(log.end());
            log.write(folder.path(), 1, limit);
            wal.board.say(1, limit);
            assert_eq!(wal.position().lsn, log.last_end(limit), "seed {seed}, flushed to {limit}");
        }
        assert!(!wal.reading.lock().is_told, "seed {seed}");
    }
}

#[test]
fn a_log_that_went_on_is_proved_and_another_one_is_not() {
    for seed in 0..30 {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::new(seed);
        log.grow(300);
        log.write(folder.path(), 1, log.end());
        let marks = [log.ends[100], log.ends[200]];
        let before = wal(folder.path(), 1, SEGMENT);
        let mut positions = Vec::new();
        for end in &log.ends[200..] {
            before.board.say(1, *end);
            positions.push(before.position());
        }
        let digests = before.digests_at(marks);
        assert_eq!(before.digests_at(marks), digests, "they are kept");
        let marks = [(marks[0], digests[0]), (marks[1], digests[1])];

        // Whichever checkpoint redo begins with, up to whichever position.
        for redo in [marks[0].0, marks[1].0] {
            for newest in positions.iter().step_by(17) {
                let after = wal(folder.path(), 1, redo);
                after.prove(*newest, marks).unwrap();
                assert_eq!(after.position(), LogPosition { timeline: 1, ..*newest });
                after.board.say(1, log.end());
                assert_eq!(after.position().digest, positions.last().unwrap().digest, "it goes on");
            }
        }

        // Every byte from redo to the position counts, and none after it.
        let newest = positions[50];
        let span = newest.lsn - marks[1].0;
        for at in (0..=10).map(|tenth| marks[1].0 + span * tenth / 10) {
            let mut other = Log { bytes: log.bytes.clone(), ends: Vec::new(), random: 0 };
            other.bytes[(at - SEGMENT) as usize] ^= 1;
            other.write(folder.path(), 1, log.end());
            let proved = wal(folder.path(), 1, marks[1].0).prove(newest, marks);
            assert_eq!(proved.is_err(), at < newest.lsn, "byte {at} of {newest:?}");
            if let Err(why) = proved {
                assert!(why.contains("newer than the cluster's files"), "{why}");
            }
        }

        // A log that ends before it, within its segment or before that.
        for end in [newest.lsn - 1, marks[1].0] {
            log.write(folder.path(), 1, end);
            assert!(wal(folder.path(), 1, marks[1].0).prove(newest, marks).is_err());
        }
        fs::remove_file(folder.path().join(segments::name(1, newest.lsn.div_ceil(SEGMENT) - 1, SEGMENT)))
            .unwrap();
        let why = wal(folder.path(), 1, marks[1].0).prove(newest, marks).unwrap_err();
        assert!(why.contains("there is no"), "{why}");

        // A checkpoint that the flash does not know.
        let unknown = wal(folder.path(), 1, log.ends[150]).prove(newest, marks).unwrap_err();
        assert!(unknown.contains("none of the checkpoints"), "{unknown}");
    }
}

/// The newest timeline that has a segment counts; the older one may be renamed.
#[test]
fn a_log_is_followed_over_timelines() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Log::new(7);
    log.grow(60);
    let ends_at = log.end();
    log.write(folder.path(), 1, ends_at);
    log.grow(60);
    let wal = wal(folder.path(), 1, SEGMENT);
    wal.board.say(1, ends_at);
    assert_eq!(wal.position().lsn, ends_at);
    // A new timeline begins: its first segment has the old one's bytes.
    let second = tempfile::tempdir().unwrap();
    log.write(second.path(), 2, log.end());
    for number in ends_at / SEGMENT..=(log.end() - 1) / SEGMENT {
        let name = segments::name(2, number, SEGMENT);
        fs::copy(second.path().join(&name), folder.path().join(&name)).unwrap();
        let _ = fs::remove_file(folder.path().join(segments::name(1, number, SEGMENT)));
    }
    let history = format!("1\t{}\tno recovery target specified\n", show(ends_at));
    fs::write(folder.path().join("00000002.history"), history).unwrap();
    wal.board.say(2, log.end());
    let newest = wal.position();
    assert_eq!((newest.timeline, newest.lsn), (2, log.end()));
    let digests = wal.digests_at([SEGMENT, ends_at]);
    let again = super::Wal::new(LogAt { redo: ends_at, ..wal.at.clone() }, wal.board);
    again.prove(newest, [(SEGMENT, digests[0]), (ends_at, digests[1])]).unwrap();
}

/// A log that cannot be read further is reported once, and the known part stays.
#[test]
fn a_log_that_cannot_be_read_takes_nothing_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Log::new(3);
    log.grow(100);
    log.write(folder.path(), 1, log.end());
    let wal = wal(folder.path(), 1, SEGMENT);
    wal.board.say(1, log.ends[20]);
    let known = wal.position();
    fs::remove_dir_all(folder.path()).unwrap();
    wal.board.say(1, log.end());
    assert_eq!(wal.position(), known);
    let digests = wal.digests_at([SEGMENT, log.ends[90]]);
    assert!(digests[0] != 0 && digests[1] == 0);
    log.write(folder.path(), 1, log.end());
    // Redo begins at a mark that is known, or at one that is not.
    let marks = [(SEGMENT, digests[0]), (log.ends[90], digests[1])];
    for (mark, _) in marks {
        let after = super::Wal::new(LogAt { redo: mark, ..wal.at.clone() }, wal.board);
        after.prove(known, marks).unwrap();
    }
    assert_eq!(wal.position().lsn, log.end(), "it is read on when it can be");
}
