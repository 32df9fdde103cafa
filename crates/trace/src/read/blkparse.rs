//! The text that `blkparse` prints: `major,minor cpu sequence seconds pid action rwbs sector + sectors
//! [process]`.
//!
//! A request is logged once for every step of its life; one step is taken, so that it counts once: queueing
//! (Q), or else issue to the driver (D), or else completion (C), whichever the beginning of the file has.
//! Discards, flushes without data, and the summary at the end are skipped.

use super::text::{Line, LineParser, Object, decimal_us, quoted, sectors};
use crate::Op;

/// The parser, for one action.
pub(super) struct Blkparse {
    action: &'static str,
}

impl Blkparse {
    /// For the text that begins with `head`.
    pub fn new(head: &str) -> Self {
        let has = |action: &&str| head.lines().any(|line| line.split_whitespace().nth(5) == Some(*action));
        Self { action: ["Q", "D"].into_iter().find(|action| has(action)).unwrap_or("C") }
    }
}

/// Whether a line begins with `major,minor`, as events do and the summary does not.
fn is_device(word: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    word.split_once(',').is_some_and(|(major, minor)| digits(major) && digits(minor))
}

/// Whether a line belongs to the summary.
fn is_summary(line: &str) -> bool {
    let text = line.trim_start();
    let starts =
        ["CPU", "Total", "Throughput", "Events", "Skips", "Reads", "Read ", "Writes", "IO unplugs", "PC "];
    text.is_empty() || starts.iter().any(|start| text.starts_with(start))
}

impl LineParser for Blkparse {
    fn line<'a>(&mut self, line: &'a str) -> Result<Line<'a>, String> {
        if is_summary(line) {
            return Ok(Line::Nothing);
        }
        let mut words = line.split_whitespace();
        let device = words.next().unwrap_or_default();
        if !is_device(device) {
            return Err(format!("expected an event that begins with major,minor, found {}", quoted(line)));
        }
        let time = words.by_ref().nth(2).ok_or_else(|| format!("no time in {}", quoted(line)))?;
        let time_us = decimal_us(time, "the time", 1_000_000)?;
        let action = words.by_ref().nth(1).ok_or_else(|| format!("no action in {}", quoted(line)))?;
        if action != self.action {
            return Ok(Line::Nothing);
        }
        let kind = words.next().ok_or_else(|| format!("no kind (such as R or WS) in {}", quoted(line)))?;
        // A leading F is a flush before the data; a later one is "forced unit access".
        let op = match kind.trim_start_matches('F').bytes().next() {
            Some(b'R') => Op::Read,
            Some(b'W') => Op::Write,
            _ => return Ok(Line::Nothing),
        };
        let (Some(first), Some("+"), Some(count)) = (words.next(), words.next(), words.next()) else {
            // A flush has no extent.
            return match kind.starts_with('F') {
                true => Ok(Line::Nothing),
                false => Err(format!("no `sector + sectors` in {}", quoted(line))),
            };
        };
        Ok(Line::Extent {
            object: Object::Named(device),
            first: sectors(first, "the sector")?,
            bytes: sectors(count, "the number of sectors")?,
            op,
            time_us,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]
  8,0    3        2     0.000001829   697  Q   W 223490 + 8 [kjournald]
  8,0    3        3     0.000002197   697  Q  RA 76 + 16 [dd]
  8,0    3        4     0.000002299   697  D   W 223490 + 8 [kjournald]
  8,0    3        5     0.000002500   697  Q   D 99 + 8 [fstrim]
  8,0    3        6     0.000002600   697  Q  FN [kworker/0:1H]
  8,0    3        0     0.000002700     0  m   N cfq697 insert_request
CPU3 (8,0):
 Reads Queued:           1,        8KiB  Writes Queued:           1,        4KiB

Total (8,0):
Events (8,0): 7 entries";

    #[test]
    fn each_request_counts_once() {
        let mut parser = Blkparse::new(TEXT);
        let lines = TEXT.lines().map(|line| parser.line(line).expect("blkparse's"));
        let found: Vec<_> = lines.filter(|line| *line != Line::Nothing).collect();
        let extent = |first, bytes, op, time_us| Line::Extent {
            object: Object::Named("8,0"),
            first,
            bytes,
            op,
            time_us,
        };
        assert_eq!(found, [extent(223_490 * 512, 4096, Op::Write, 2), extent(76 * 512, 8192, Op::Read, 2)]);
    }

    #[test]
    fn completions_serve_where_nothing_else_was_traced() {
        let line = "8,0 3 4 0.5 697 C W 8 + 8 [0]";
        assert!(matches!(Blkparse::new(line).line(line), Ok(Line::Extent { bytes: 4096, .. })));
    }

    #[test]
    fn other_lines_are_refused() {
        for bad in
            ["hello", "8,0 3 4", "8,0 3 4 soon 697 Q W 8 + 8", "8,0 3 4 0.1 697 Q W 8", "8,x 1 2 3 4 5"]
        {
            assert!(Blkparse::new("8,0 3 4 0.1 697 Q W 8 + 8").line(bad).is_err(), "{bad}");
        }
    }
}
