//! From which checkpoint on the server's log replaces the flash, if that is lost: `DATA/entresol/horizon`.
//!
//! The file is text, which is replaced as a whole. Each line is a word and what it says:
//!
//! ```text
//! entresol horizon 1
//! number 17
//! safe 0/3000028
//! promised 12
//! checkpoint 12 0/3000110 0/30000D8 1
//! lost 0/4000110 1
//! checksum 9ABCDEF0
//! ```
//!
//! | line | says |
//! |---|---|
//! | `number` | of the newest complete checkpoint; they are counted from 1 on |
//! | `safe` | the log from before this LSN must not be replayed over newer files |
//! | `promised` | with the log from this checkpoint on, the files need no flash; without the line, none replaces it |
//! | `checkpoint` | number, LSN of its record, REDO pointer, timeline; the newest, and all from the horizon on |
//! | `lost` | the flash is lost, and redo replaces it: redo must reach the record at this LSN; timeline |
//! | `checksum` | CRC32C of the lines before |
//!
//! Invariants:
//! 1. The server keeps its log from the REDO pointer of the promised checkpoint on. A newer promise is
//!    durable before older log is removed.
//! 2. The promised checkpoint has its REDO pointer at `safe` or later.
//! 3. With `lost`, no cache is opened until a checkpoint is complete that has its REDO pointer behind that
//!    record. The flash was given up before the first change.

use crate::locator::Folders;
use crate::small_file::SmallFile;
use crate::wal::show;
use entresol_core::{HorizonAt, KeptCheckpoint, KeptCheckpoints, LogBound, Lsn};
use entresol_format::checksum;
use std::collections::VecDeque;
use std::fmt::Write as _;

const HEAD: &str = "entresol horizon 1\n";

/// A record of a checkpoint. In a history of timelines LSNs grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Record {
    pub lsn: u64,
    pub timeline: u32,
}

/// A complete checkpoint.
pub(crate) type Checkpoint = KeptCheckpoint<Record>;

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    pub number: u64,
    pub safe: u64,
    pub promised: Option<u64>,
    pub kept: Vec<Checkpoint>,
    pub lost: Option<Record>,
}

impl Said {
    /// From where on the log replaces the flash.
    pub fn horizon(&self) -> Option<Checkpoint> {
        self.kept.iter().copied().find(|kept| Some(kept.number) == self.promised)
    }

    fn text(&self) -> String {
        let mut text = format!("{HEAD}number {}\nsafe {}\n", self.number, show(self.safe));
        // Writing to a string does not fail.
        let mut line = |line: std::fmt::Arguments<'_>| _ = writeln!(text, "{line}");
        if let Some(number) = self.promised {
            line(format_args!("promised {number}"));
        }
        for Checkpoint { number, record, redo_point } in &self.kept {
            let (record, timeline) = (show(record.lsn), record.timeline);
            line(format_args!("checkpoint {number} {record} {} {timeline}", show(redo_point.0)));
        }
        if let Some(Record { lsn, timeline }) = self.lost {
            line(format_args!("lost {} {timeline}", show(lsn)));
        }
        let sum = checksum::of(text.as_bytes());
        _ = writeln!(text, "checksum {sum:08X}");
        text
    }

    /// `None`: it is damaged, or of another version.
    fn from_text(text: &str) -> Option<Self> {
        let (lines, sum) = text.strip_suffix('\n')?.rsplit_once("checksum ")?;
        if checksum::of(lines.as_bytes()) != u32::from_str_radix(sum, 16).ok()? {
            return None;
        }
        let mut said = Self::default();
        for line in lines.strip_prefix(HEAD)?.lines() {
            let mut words = line.split(' ');
            let word = words.next()?;
            let mut next = || words.next();
            match word {
                "number" => said.number = next()?.parse().ok()?,
                "safe" => said.safe = lsn_of(next()?)?,
                "promised" => said.promised = Some(next()?.parse().ok()?),
                "checkpoint" => {
                    let (number, lsn) = (next()?.parse().ok()?, lsn_of(next()?)?);
                    let (redo_point, timeline) = (Lsn(lsn_of(next()?)?), next()?.parse().ok()?);
                    said.kept.push(Checkpoint { number, record: Record { lsn, timeline }, redo_point });
                }
                "lost" => {
                    said.lost = Some(Record { lsn: lsn_of(next()?)?, timeline: next()?.parse().ok()? });
                }
                _ => return None,
            }
        }
        Some(said)
    }
}

/// An LSN as PostgreSQL writes it.
fn lsn_of(text: &str) -> Option<u64> {
    let (high, low) = text.split_once('/')?;
    let part = |text| u32::from_str_radix(text, 16).ok();
    Some(u64::from(part(high)?) << 32 | u64::from(part(low)?))
}

/// The file.
#[derive(Clone, Debug)]
pub(crate) struct HorizonFile(SmallFile);

impl HorizonFile {
    /// In the cluster's folder.
    pub fn of(folders: &Folders) -> Self {
        Self(SmallFile::at(folders.binding().join("horizon")))
    }

    /// What it says. `None`: it is not there.
    ///
    /// # Errors
    /// A sentence.
    pub fn read(&self) -> Result<Option<Said>, String> {
        let damaged = || format!("\"{}\" is damaged", self.0.path().display());
        let said = |bytes: Vec<u8>| str::from_utf8(&bytes).ok().and_then(Said::from_text).ok_or_else(damaged);
        self.0.read()?.map(said).transpose()
    }

    /// Says it durably.
    ///
    /// # Errors
    /// A sentence.
    pub fn write(&self, said: &Said) -> Result<(), String> {
        self.0.write(said.text().as_bytes())
    }

    /// No log replaces the flash.
    ///
    /// # Errors
    /// A sentence.
    pub fn remove(&self) -> Result<(), String> {
        self.0.remove()
    }
}

/// A complete checkpoint: its record, and its REDO pointer.
pub(crate) type Newest = (Record, u64);

/// What the log is kept for: the checkpoints from the horizon on, and the file that names them.
#[derive(Debug)]
pub(crate) struct Horizon {
    file: HorizonFile,
    checkpoints: KeptCheckpoints<Record>,
    /// See the file.
    safe: u64,
    /// The REDO pointer of the newest checkpoint that was counted, whether its log is kept or not.
    counted: u64,
    /// The horizon that the file names.
    said: Option<Checkpoint>,
}

impl Horizon {
    /// Of a cluster whose cache is opened. `newest`: the checkpoint that pg_control names, if that is known.
    /// What the file says counts if the cluster needs its flash.
    ///
    /// # Errors
    /// A sentence.
    pub fn open(file: HorizonFile, is_needed: bool, newest: Option<Newest>) -> Result<Self, String> {
        // A damaged file promises nothing.
        let said = file.read().ok().flatten().filter(|said| is_needed && said.lost.is_none());
        let is_of_now = |said: &Said| match (said.kept.last(), newest) {
            (Some(last), Some((_, redo))) => last.redo_point.0 <= redo,
            _ => false,
        };
        let said = said.filter(is_of_now).unwrap_or_default();
        let horizon = said.horizon();
        let is_kept = |kept: &Checkpoint| horizon.is_some_and(|horizon| kept.number >= horizon.number);
        let kept: VecDeque<_> = said.kept.into_iter().filter(is_kept).collect();
        let checkpoints = KeptCheckpoints::new(LogBound(1), said.number, kept);
        let counted = checkpoints.kept().last().map_or(0, |last| last.redo_point.0);
        let mut this = Self { file, checkpoints, safe: said.safe, counted, said: None };
        let at = horizon.map_or(HorizonAt::Nowhere, |kept| HorizonAt::Record(kept.record));
        // One that the file does not know was complete before it could be said.
        match this.unknown(newest) {
            Some(newest) => this.add(newest, at)?,
            None => this.say()?,
        }
        Ok(this)
    }

    /// The number of the newest checkpoint.
    pub fn number(&self) -> u64 {
        self.checkpoints.number()
    }

    /// From where on the log replaces the flash, as the file says.
    pub fn said(&self) -> Option<Checkpoint> {
        self.said
    }

    /// From where on the log is kept: from the horizon on, or from a checkpoint that may be it. If a newer
    /// horizon could not be written, the file still names the older one.
    pub fn keeps_from(&self) -> Option<u64> {
        self.said.into_iter().chain(self.checkpoints.kept().next()).map(|kept| kept.redo_point.0).min()
    }

    /// Checkpoint `newest` is complete while older pages are still copied for a horizon: it is not to be one
    /// whose log is longer than `bound`.
    pub fn limit(&mut self, newest: Option<Newest>, bound: u64) {
        let is_long = |(newest, from): (Newest, u64)| newest.1.saturating_sub(from) > bound;
        if self.checkpoints.promised().is_none() && newest.zip(self.keeps_from()).is_some_and(is_long) {
            self.checkpoints = KeptCheckpoints::new(LogBound(bound.max(1)), self.number(), VecDeque::new());
        }
    }

    /// The log from before `safe` must not be replayed over newer files.
    ///
    /// # Errors
    /// A sentence. The file may not say so.
    pub fn cut(&mut self, safe: u64) -> Result<(), String> {
        if safe <= self.safe {
            return Ok(());
        }
        self.safe = safe;
        if self.checkpoints.promised().is_some_and(|promised| promised.redo_point.0 < safe) {
            self.checkpoints.promise(HorizonAt::Nowhere);
            self.say()?;
        }
        Ok(())
    }

    /// Of a log of `bound` bytes: pages with a base before the number that is returned are to be on disk
    /// before the horizon is [named](Horizon::name). `all`: as little of the log as possible is to be needed.
    ///
    /// # Errors
    /// A sentence.
    pub fn wanted(&mut self, newest: Option<Newest>, bound: u64, all: bool) -> Result<u64, String> {
        self.checkpoints.set_bound(LogBound(bound.max(1)));
        let newest = self.unknown(newest);
        if let Some(promised) = self.checkpoints.promised().filter(|_| !all) {
            let redo = newest.map_or(promised.redo_point.0, |(_, redo)| redo);
            return Ok(self.checkpoints.wanted(Lsn(redo), false));
        }
        if let Some(newest) = newest {
            let at = self.checkpoints.promised().map(|kept| HorizonAt::Record(kept.record));
            self.add(newest, at.unwrap_or(HorizonAt::Nowhere))?;
        }
        Ok(self.number())
    }

    /// The pages that were wanted are on disk; those with a base before the number `told` are, or all
    /// (u64::MAX). Returns the number before which pages are to be copied next.
    ///
    /// # Errors
    /// A sentence.
    pub fn name(&mut self, newest: Option<Newest>, told: u64) -> Result<u64, String> {
        let newest = self.unknown(newest);
        let at = self.checkpoints.of(told);
        let last = self.checkpoints.kept().last().map(|kept| kept.redo_point.0);
        let redo = match at {
            HorizonAt::Nowhere => None,
            HorizonAt::Itself => newest.map(|(_, redo)| redo).or(last),
            HorizonAt::Record(_) => self.checkpoints.kept_from(at).map(|lsn| lsn.0),
        };
        let at = if redo.is_some_and(|redo| redo >= self.safe) { at } else { HorizonAt::Nowhere };
        match newest {
            Some(newest) => self.add(newest, at)?,
            None => {
                self.checkpoints.promise(at);
                self.say()?;
            }
        }
        let promised = self.checkpoints.promised();
        Ok(promised.map_or(self.number(), |_| self.checkpoints.wanted_soon()))
    }

    /// A checkpoint that is newer than any that is known.
    fn unknown(&self, newest: Option<Newest>) -> Option<Newest> {
        newest.filter(|(_, redo)| *redo > self.counted)
    }

    fn add(&mut self, (record, redo): Newest, at: HorizonAt<Record>) -> Result<(), String> {
        let said = self.checkpoints.next(at);
        self.checkpoints.complete(said, record, Lsn(redo));
        self.counted = redo;
        self.say()
    }

    fn say(&mut self) -> Result<(), String> {
        let promised = self.checkpoints.promised();
        self.file.write(&Said {
            number: self.number(),
            safe: self.safe,
            promised: promised.map(|promised| promised.number),
            kept: self.checkpoints.kept().collect(),
            lost: None,
        })?;
        self.said = promised;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const BOUND: u64 = 1000;

    fn newest(redo: u64) -> Option<Newest> {
        Some((Record { lsn: redo + 8, timeline: 1 }, redo))
    }

    fn file() -> (tempfile::TempDir, HorizonFile) {
        let folder = tempfile::tempdir().unwrap();
        let file = HorizonFile(SmallFile::at(folder.path().join("horizon")));
        (folder, file)
    }

    /// A checkpoint with this REDO pointer. All pages have the base that is asked for, or `oldest`.
    fn checkpoint(horizon: &mut Horizon, redo: u64, oldest: u64) -> Option<u64> {
        let wanted = horizon.wanted(newest(redo), BOUND, false).unwrap();
        horizon.name(newest(redo), wanted.max(oldest)).unwrap();
        horizon.said().map(|said| said.redo_point.0)
    }

    #[test]
    fn what_the_file_says_is_read_again() {
        let (_folder, file) = file();
        assert_eq!(file.read(), Ok(None));
        let checkpoint = |number: u64| Checkpoint {
            number,
            record: Record { lsn: number << 33, timeline: 2 },
            redo_point: Lsn((number << 33) - 40),
        };
        let said = Said {
            number: 18,
            safe: 3 << 32 | 7,
            promised: Some(17),
            kept: vec![checkpoint(17), checkpoint(18)],
            lost: Some(Record { lsn: 99, timeline: 3 }),
        };
        file.write(&said).unwrap();
        assert_eq!(file.read(), Ok(Some(said.clone())));
        assert_eq!(said.horizon(), Some(checkpoint(17)));
        let text = fs::read_to_string(file.0.path()).unwrap();
        assert!(text.contains("checkpoint 17 22/0 21/FFFFFFD8 2\n"), "{text}");
        for (from, to) in [("17", "16"), ("lost 0/63", "lost 0/64"), (HEAD, "entresol horizon 2\n")] {
            fs::write(file.0.path(), text.replacen(from, to, 1)).unwrap();
            assert!(file.read().unwrap_err().ends_with("is damaged"), "{from}");
        }
        file.remove().unwrap();
        file.remove().unwrap();
        assert_eq!(file.read(), Ok(None));
    }

    #[test]
    fn the_log_is_kept_within_its_bound_once_all_older_pages_are_on_disk() {
        let (_folder, file) = file();
        let mut horizon = Horizon::open(file.clone(), true, newest(100)).unwrap();
        assert_eq!((horizon.said(), horizon.number()), (None, 1));
        assert_eq!(horizon.wanted(newest(200), BOUND, false), Ok(2), "all that is older than the newest");
        horizon.name(newest(200), 1).unwrap();
        assert_eq!(horizon.said(), None, "a page of before stays, and the log of then is not kept");
        assert_eq!(checkpoint(&mut horizon, 300, 0), Some(300));
        assert_eq!(checkpoint(&mut horizon, 500, 3), Some(300));
        assert_eq!(checkpoint(&mut horizon, 1050, 3), Some(300), "750 bytes");
        assert_eq!(horizon.wanted(newest(1051), BOUND, false), Ok(4), "are the most");
        let again = Horizon::open(file, true, newest(1050)).unwrap();
        assert_eq!((again.said(), again.number()), (horizon.said(), 5));
    }

    #[test]
    fn a_checkpoint_that_was_complete_before_it_could_be_said_is_counted_at_the_open() {
        let (_folder, file) = file();
        let mut horizon = Horizon::open(file.clone(), true, newest(100)).unwrap();
        checkpoint(&mut horizon, 200, 0);
        let again = Horizon::open(file.clone(), true, newest(300)).unwrap();
        assert_eq!((again.number(), again.said()), (3, horizon.said()));
        let said = file.read().unwrap().unwrap();
        for (is_needed, newest) in [(false, newest(300)), (true, newest(299)), (true, None)] {
            file.write(&said).unwrap();
            let other = Horizon::open(file.clone(), is_needed, newest).unwrap();
            assert_eq!(other.said(), None, "{is_needed} {newest:?}");
        }
    }

    #[test]
    fn a_checkpoint_whose_log_is_too_long_does_not_become_the_horizon() {
        let (_folder, file) = file();
        let mut horizon = Horizon::open(file, true, newest(100)).unwrap();
        assert_eq!(horizon.wanted(newest(200), BOUND, false), Ok(2));
        for (redo, kept) in [(1200, Some(200)), (1201, None)] {
            horizon.limit(newest(redo), BOUND);
            assert_eq!(horizon.keeps_from(), kept, "{redo}");
        }
        horizon.name(newest(200), 2).unwrap();
        assert_eq!((horizon.said(), horizon.keeps_from()), (None, None), "its log may be gone");
        assert_eq!(checkpoint(&mut horizon, 1201, 0), Some(1201));
        horizon.limit(newest(1 << 40), BOUND);
        assert_eq!(horizon.keeps_from(), Some(1201), "the log of a horizon is kept, whatever its length");
    }

    #[test]
    fn the_log_is_kept_for_the_horizon_that_the_file_names() {
        let (folder, file) = file();
        let mut horizon = Horizon::open(file.clone(), true, newest(100)).unwrap();
        assert_eq!(checkpoint(&mut horizon, 200, 0), Some(200));
        let wanted = horizon.wanted(newest(300), BOUND, true).unwrap();
        // Where the next one is written first, nothing can be written.
        fs::create_dir(folder.path().join("horizon.new")).unwrap();
        horizon.name(newest(300), wanted.max(3)).unwrap_err();
        let said = file.read().unwrap().unwrap().horizon();
        assert_eq!(said.map(|said| said.redo_point.0), Some(200));
        assert_eq!(horizon.keeps_from(), Some(200));
        fs::remove_dir(folder.path().join("horizon.new")).unwrap();
        assert_eq!(checkpoint(&mut horizon, 400, 3), Some(300));
        assert_eq!(horizon.keeps_from(), Some(300));
    }

    #[test]
    fn a_log_that_must_not_be_replayed_replaces_nothing() {
        let (_folder, file) = file();
        let mut horizon = Horizon::open(file.clone(), true, newest(100)).unwrap();
        checkpoint(&mut horizon, 200, 0);
        horizon.cut(200).unwrap();
        assert!(horizon.said().is_some());
        horizon.cut(201).unwrap();
        assert_eq!(horizon.said(), None);
        assert_eq!(file.read().unwrap().unwrap().promised, None);
        assert_eq!(checkpoint(&mut horizon, 200, 0), None, "the same checkpoint");
        assert_eq!(checkpoint(&mut horizon, 201, 0), Some(201));
        assert_eq!(horizon.wanted(newest(201), BOUND, true), Ok(3));
        horizon.cut(300).unwrap();
        horizon.cut(250).unwrap();
        horizon.name(newest(250), u64::MAX).unwrap();
        assert_eq!(horizon.said(), None, "the disk has everything, but a crash would begin at 250");
        assert_eq!(checkpoint(&mut horizon, 300, u64::MAX), Some(300));
    }
}
