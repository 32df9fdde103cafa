//! The files of a write-ahead log, by the timelines that a server has followed.
//!
//! A segment's file is named by a timeline and its number. Where a timeline begins within a segment, its file
//! has the bytes of the one before, too; so the newest timeline that has the segment counts, as in
//! PostgreSQL's recovery.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes of the log to which the segments of one "log file" in their names add up.
const NAMED_BYTES: u64 = 1 << 32;

/// The files in one folder.
pub(super) struct Segments {
    folder: PathBuf,
    pub(super) segment_bytes: u64,
    /// The timeline that `history` is of, with those before it, the newest first; each with the place where
    /// it begins.
    history: Vec<(u32, u64)>,
    /// The file that was read last, its timeline and number.
    open: Option<(u32, u64, File)>,
}

impl Segments {
    pub(super) fn new(folder: &Path, segment_bytes: u64) -> Self {
        Self { folder: folder.to_owned(), segment_bytes, history: Vec::new(), open: None }
    }

    /// Reads the log of `timeline` from `at` on.
    ///
    /// # Errors
    /// The file system's; [`io::ErrorKind::NotFound`] if there is no such segment.
    pub(super) fn read(&mut self, timeline: u32, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.follow(timeline)?;
        let (mut at, mut left) = (at, buffer);
        while !left.is_empty() {
            let within = at % self.segment_bytes;
            let length = left.len().min((self.segment_bytes - within) as usize);
            let (some, rest) = left.split_at_mut(length);
            self.file(at / self.segment_bytes)?.read_exact_at(some, within)?;
            (at, left) = (at + length as u64, rest);
        }
        Ok(())
    }

    /// Learns the timelines before this one.
    fn follow(&mut self, timeline: u32) -> io::Result<()> {
        if self.history.first().is_some_and(|(newest, _)| *newest == timeline) {
            return Ok(());
        }
        let mut ends: Vec<(u32, u64)> = Vec::new();
        if timeline > 1 {
            let path = self.folder.join(format!("{timeline:08X}.history"));
            let text = fs::read_to_string(&path)
                .map_err(|error| io::Error::new(error.kind(), format!("\"{}\": {error}", path.display())))?;
            ends = text.lines().filter_map(parent).collect();
        }
        // A timeline begins where the one before it ends.
        let mut begins = 0;
        let mut history = Vec::with_capacity(ends.len() + 1);
        for (older, end) in ends {
            history.push((older, begins));
            begins = end;
        }
        history.push((timeline, begins));
        history.reverse();
        (self.history, self.open) = (history, None);
        Ok(())
    }

    /// The file of the segment with this number.
    fn file(&mut self, number: u64) -> io::Result<&File> {
        if self.open.as_ref().is_none_or(|(_, open, _)| *open != number) {
            self.open = Some(self.find(number)?);
        }
        Ok(&self.open.as_ref().expect("it was opened just now").2)
    }

    fn find(&self, number: u64) -> io::Result<(u32, u64, File)> {
        let end = (number + 1) * self.segment_bytes;
        let mut missing = String::new();
        for (timeline, _) in self.history.iter().filter(|(_, begins)| *begins < end) {
            let path = self.folder.join(name(*timeline, number, self.segment_bytes));
            match File::open(&path) {
                Ok(file) => return Ok((*timeline, number, file)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    missing = format!("there is no \"{}\"", path.display());
                }
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(io::ErrorKind::NotFound, missing))
    }
}

/// A line of a history file: a timeline, and where it ended.
fn parent(line: &str) -> Option<(u32, u64)> {
    let mut words = line.split_whitespace();
    let timeline = words.next()?.parse().ok()?;
    let (high, low) = words.next()?.split_once('/')?;
    let half = |digits| u64::from_str_radix(digits, 16).ok();
    Some((timeline, half(high)? << 32 | half(low)?))
}

/// The name of a segment's file.
pub(super) fn name(timeline: u32, number: u64, segment_bytes: u64) -> String {
    let per_name = NAMED_BYTES / segment_bytes;
    format!("{timeline:08X}{:08X}{:08X}", number / per_name, number % per_name)
}
