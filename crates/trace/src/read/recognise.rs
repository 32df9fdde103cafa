//! Which format a trace has, from its first records.
//!
//! Invariant: no single record decides. A format is taken if most of the records at the beginning are of it,
//! so that a damaged record is reported as such and not as an unknown format.

use super::{compact, oracle, parquet, plain, postgresql, text, vscsi};
use crate::input::{HEAD_BYTES, Input, MARK};
use crate::{Format, TraceError};

/// Share of the first records that must fit.
const TEXT_SHARE_MIN: f64 = 0.5;
/// The same for binary formats, whose records fit by chance more easily.
const BINARY_SHARE_MIN: f64 = 0.9;
/// Lines that are looked at.
const LINES_MAX: usize = 200;
/// Records that are looked at.
const RECORDS_MAX: usize = 1000;

/// The format of a trace's content.
pub(super) fn format_of(input: &Input<'_>) -> Result<Format, TraceError> {
    let (head, whole) = input.head();
    let found = if head.starts_with(&compact::MAGIC) {
        Some(Format::Entresol)
    } else if head.starts_with(parquet::MAGIC) {
        Some(Format::Parquet)
    } else if is_text(head) {
        text_format(head, whole)
    } else {
        binary_format(head, whole)
    };
    found.ok_or_else(|| TraceError::Unrecognised { name: input.name().to_owned(), known: Format::names() })
}

/// Whether nearly all bytes are text: a damaged line does not make it binary.
fn is_text(head: &[u8]) -> bool {
    let control = head.iter().filter(|&&byte| byte < b' ' && !matches!(byte, b'\n' | b'\r' | b'\t')).count();
    control * 50 <= head.len()
}

fn text_format(head: &[u8], whole: bool) -> Option<Format> {
    let text = String::from_utf8_lossy(head.strip_prefix(MARK).unwrap_or(head));
    // The last line of a head may be a part of one.
    let end = if whole { text.len() } else { text.rfind('\n').unwrap_or(text.len()) };
    let text = &text[..end];
    let candidates = Format::ALL.into_iter().filter_map(|format| Some((line_share(format, text)?, format)));
    // Numbers and nothing else that are no page numbers: the nearest format reports their fault.
    best(candidates, TEXT_SHARE_MIN).or_else(|| plain::only_numbers(text).then_some(Format::Plain))
}

/// Share of the first lines that a text format's parser accepts; 0 if none names a page.
fn line_share(format: Format, text: &str) -> Option<f64> {
    let mut parser = text::parser(format, text)?;
    let (mut lines, mut fit, mut requests) = (0, 0, 0);
    for line in text.lines().take(LINES_MAX) {
        lines += 1;
        if let Ok(line) = parser.line(line) {
            fit += 1;
            requests += usize::from(line != text::Line::Nothing);
        }
    }
    Some(if requests == 0 { 0.0 } else { f64::from(fit) / f64::from(lines) })
}

fn binary_format(head: &[u8], whole: bool) -> Option<Format> {
    debug_assert!(head.len() <= HEAD_BYTES);
    // Of equals the first: small captures of PostgreSQL may pass for libCacheSim's, hardly ever the other way
    // round.
    let candidates = [
        (postgresql::likeness(head), Format::Postgresql, 9),
        (vscsi::likeness(head), Format::Vscsi, 8),
        (oracle::likeness::<27>(head), Format::OracleGeneralOpNs, 27),
        (oracle::likeness::<24>(head), Format::OracleGeneral, 24),
    ];
    // A file that is no whole number of records is cut off, or of another format: rather the latter.
    let shares = candidates.map(|(share, format, record)| {
        let whole_records = !whole || head.len().is_multiple_of(record);
        (if whole_records { share } else { share - 0.05 }, format)
    });
    best(shares.into_iter(), BINARY_SHARE_MIN)
}

/// The format with the largest share, the first of equals, if it is at least `share_min`.
fn best(candidates: impl Iterator<Item = (f64, Format)>, share_min: f64) -> Option<Format> {
    let better = |a: (f64, Format), b: (f64, Format)| if b.0 > a.0 { b } else { a };
    candidates.reduce(better).filter(|(share, _)| *share >= share_min).map(|(_, format)| format)
}

/// The share of the first records that fit; 0 if there is none.
pub(super) fn share<const BYTES: usize>(
    records: &[[u8; BYTES]],
    mut fits: impl FnMut(&[u8; BYTES]) -> bool,
) -> f64 {
    let records = &records[..records.len().min(RECORDS_MAX)];
    if records.is_empty() {
        return 0.0;
    }
    records.iter().filter(|record| fits(record)).count() as f64 / records.len() as f64
}
