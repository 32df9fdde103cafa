//! The shape of a text trace that is of no known format.

use super::values;
use crate::failure::Failure;
use clap::Args;
use entresol_trace::{Column, Columns, Layout, OpWords, Separator, Unit};

/// The columns of a text, and their contents.
#[derive(Debug, Args)]
#[command(next_help_heading = "Text of any shape")]
pub struct ColumnArgs {
    /// A text with a request a line: the names of its columns, from the left, e.g. time,op,offset,size. Known
    /// are time, op, offset, size, object, and - for a column without meaning; offset must be there. Without
    /// op all are reads, without size each is one page
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', value_parser = values::column)]
    #[arg(allow_hyphen_values = true)]
    columns: Vec<Column>,
    /// What stands between columns: one character, `tab`, or `space` for any number of blanks [default: ,]
    #[arg(long, value_name = "CHARACTER", value_parser = values::separator, requires = "columns")]
    #[arg(allow_hyphen_values = true)]
    separator: Option<Separator>,
    /// Lines at the beginning that are no requests [default: 0]
    #[arg(long, value_name = "N", value_parser = values::header_lines, requires = "columns")]
    #[arg(allow_negative_numbers = true)]
    header_lines: Option<u64>,
    /// Words of the column op that are reads, separated by commas; case does not matter [default: r,read]
    #[arg(
        long,
        value_name = "WORDS",
        value_delimiter = ',',
        requires = "columns",
        allow_hyphen_values = true
    )]
    read_words: Vec<String>,
    /// Words of the column op that are writes [default: w,write]
    #[arg(
        long,
        value_name = "WORDS",
        value_delimiter = ',',
        requires = "columns",
        allow_hyphen_values = true
    )]
    write_words: Vec<String>,
    /// Words of the column op whose lines are skipped (flushes, discards) [default: none]
    #[arg(
        long,
        value_name = "WORDS",
        value_delimiter = ',',
        requires = "columns",
        allow_hyphen_values = true
    )]
    skip_words: Vec<String>,
    /// Unit of times: s, ms, us or ns [default: s]
    #[arg(long, value_name = "UNIT", value_parser = values::time_unit, requires = "columns")]
    time_unit: Option<TimeUnit>,
    /// Unit of offsets: bytes, kib, sectors, pages, or so many bytes [default: bytes]
    #[arg(long, value_name = "UNIT", value_parser = values::size_unit, requires = "columns")]
    offset_unit: Option<Unit>,
    /// Unit of sizes: as of offsets [default: bytes]
    #[arg(long, value_name = "UNIT", value_parser = values::size_unit, requires = "columns")]
    size_unit: Option<Unit>,
}

/// Nanoseconds of a unit of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeUnit(pub u64);

impl ColumnArgs {
    /// As the library wants them; `None` if no columns were named.
    pub fn columns(&self) -> Result<Option<Columns>, Failure> {
        if self.columns.is_empty() {
            return Ok(None);
        }
        let usual = Layout::default();
        let layout = Layout {
            separator: self.separator.unwrap_or(usual.separator),
            header_lines: self.header_lines.unwrap_or(usual.header_lines),
            time_ns: self.time_unit.map_or(usual.time_ns, |TimeUnit(ns)| ns),
            offset_unit: self.offset_unit.unwrap_or(usual.offset_unit),
            size_unit: self.size_unit.unwrap_or(usual.size_unit),
        };
        let or = |given: &Vec<String>, usual: Vec<String>| {
            if given.is_empty() { usual } else { given.clone() }
        };
        let words = OpWords::default();
        let words = OpWords {
            reads: or(&self.read_words, words.reads),
            writes: or(&self.write_words, words.writes),
            skipped: self.skip_words.clone(),
        };
        let columns = Columns::new(self.columns.clone(), layout, words);
        columns.map(Some).map_err(|error| Failure::input(format!("--columns: {error}")))
    }
}
