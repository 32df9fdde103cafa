//! The common part of the text formats: a file is read line by line, and a format parses one line.
//!
//! Invariant: recognising a format is parsing some lines with the parser that will read them all.

use super::{Labels, blkparse, cloudphysics, fio, mqsim, msr, plain, spc};
use crate::builder::{Built, Misfit};
use crate::input::{Input, Lines};
use crate::{Format, Op, ReadOptions, TraceBuilder, TraceError};
use entresol_core::PageId;

/// What one line says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Line<'a> {
    /// Nothing about pages: a header, a mark, a summary.
    Nothing,
    /// A request for some bytes of an object.
    Extent { object: Object<'a>, first: u64, bytes: u64, op: Op, time_us: u64 },
    /// The same without a time. Of one trace, all requests or none.
    Untimed { object: Object<'a>, first: u64, bytes: u64, op: Op },
    /// A reference to a page, without a time.
    Page(u32),
}

/// How a line names its volume or file.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Object<'a> {
    /// There is only one in a trace.
    Only,
    /// By one name.
    Named(&'a str),
    /// By a host and a disk's number.
    Disk(&'a str, &'a str),
}

/// A text format's parser.
pub(super) trait LineParser {
    /// The content of the line; `Err` says what was expected and what was found.
    fn line<'a>(&mut self, line: &'a str) -> Result<Line<'a>, String>;
}

/// The parser of a format, if it is a text format; `head` is the beginning of the content.
pub(super) fn parser(format: Format, head: &str) -> Option<Box<dyn LineParser>> {
    Some(match format {
        Format::CloudPhysics => Box::new(cloudphysics::CloudPhysics),
        Format::Mqsim => Box::new(mqsim::Mqsim),
        Format::Msr => Box::new(msr::Msr),
        Format::Spc => Box::new(spc::Spc),
        Format::Blkparse => Box::new(blkparse::Blkparse::new(head)),
        Format::Fio => Box::new(fio::Fio::default()),
        Format::Plain => Box::new(plain::Plain),
        _ => return None,
    })
}

/// Reads a trace in a text format.
pub(super) fn read(
    input: &mut Input<'_>,
    format: Format,
    labels: &Labels,
    options: &ReadOptions,
) -> Result<Built, TraceError> {
    let head = String::from_utf8_lossy(input.head().0).into_owned();
    let mut parser = parser(format, &head).expect("the caller passes text formats only");
    read_with(input, parser.as_mut(), labels, options)
}

/// Reads a trace of lines that `parser` understands.
pub(super) fn read_with(
    input: &mut Input<'_>,
    parser: &mut dyn LineParser,
    labels: &Labels,
    options: &ReadOptions,
) -> Result<Built, TraceError> {
    let mut builder = super::builder(input, options, super::BLOCK_PAGE_BYTES)?;
    let name = input.name().to_owned();
    let mut lines = Lines::new(input);
    let mut key = String::new();
    loop {
        let misfit = {
            let Some(line) = lines.next()? else { break };
            match parser.line(line) {
                Ok(line) => add(&mut builder, &line, &mut key).err(),
                Err(reason) => Some(Misfit::Senseless(reason)),
            }
        };
        if let Some(misfit) = misfit {
            return Err(misfit.at(&name, lines.place()));
        }
    }
    Ok(builder.finish_any(|label| labels.name(label)))
}

fn add(builder: &mut TraceBuilder, line: &Line<'_>, key: &mut String) -> Result<(), Misfit> {
    match *line {
        Line::Nothing => Ok(()),
        Line::Page(number) => builder.page(PageId::new(0, number), Op::Read, None),
        Line::Extent { ref object, first, bytes, op, time_us } => {
            let object = number_of(builder, object, key)?;
            builder.extent(object, first, bytes, op, Some(time_us))
        }
        Line::Untimed { ref object, first, bytes, op } => {
            let object = number_of(builder, object, key)?;
            builder.extent(object, first, bytes, op, None)
        }
    }
}

/// The number of an object in the trace; `key` is room for its name.
fn number_of(builder: &mut TraceBuilder, object: &Object<'_>, key: &mut String) -> Result<u32, Misfit> {
    match *object {
        Object::Only => Ok(0),
        Object::Named(name) => builder.object(name),
        Object::Disk(host, disk) => {
            key.clear();
            key.extend([host, ".", disk]);
            builder.object(key)
        }
    }
}

/// The fields of a line separated by `separator`: exactly `N`, called `names`.
pub(super) fn fields<'a, const N: usize>(
    line: &'a str,
    separator: char,
    names: &str,
) -> Result<[&'a str; N], String> {
    let mut found = [""; N];
    let mut count = 0;
    for field in line.split(separator) {
        if count < N {
            found[count] = field.trim();
        }
        count += 1;
    }
    match count == N {
        true => Ok(found),
        false => Err(format!("expected {N} fields ({names}), found {count} in {}", quoted(line))),
    }
}

/// A whole number, in decimal.
pub(super) fn number(text: &str, what: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{what} is {}, not a whole number of at most 64 bits", quoted(text)))
}

/// A decimal number of units of `unit_us` microseconds, as microseconds; exact to the last digit that counts.
pub(super) fn decimal_us(text: &str, what: &str, unit_us: u64) -> Result<u64, String> {
    let bad = || format!("{what} is {}, not a time", quoted(text));
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return Err(bad());
    }
    let whole: u64 = whole.parse().map_err(|_| bad())?;
    let mut scale_us = unit_us as f64;
    let mut fraction_us = 0.0;
    for digit in fraction.bytes().take(18) {
        scale_us /= 10.0;
        fraction_us += f64::from(digit - b'0') * scale_us;
    }
    whole.checked_mul(unit_us).and_then(|us| us.checked_add(fraction_us.round() as u64)).ok_or_else(bad)
}

/// Sectors of 512 bytes, as bytes.
pub(super) fn sectors(text: &str, what: &str) -> Result<u64, String> {
    let sectors = number(text, what)?;
    // Beyond 64 bits of bytes it is beyond 32 bits of pages, too: the end of the range says so later.
    Ok(sectors.saturating_mul(512))
}

/// Text in quotes, shortened.
pub(super) fn quoted(text: &str) -> String {
    let short: String = text.chars().take(60).collect();
    format!("{short:?}{}", if short.len() < text.len() { "…" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact_to_the_microsecond() {
        assert_eq!(decimal_us("5633898", "time", 1_000_000), Ok(5_633_898_000_000));
        assert_eq!(decimal_us("0.026214", "time", 1_000_000), Ok(26_214));
        assert_eq!(decimal_us("1.0000009", "time", 1_000_000), Ok(1_000_001));
        for text in ["", ".", "-1", "1e9", "1.-", "nan", "99999999999999999999"] {
            assert!(decimal_us(text, "time", 1_000_000).is_err(), "{text}");
        }
    }
}
