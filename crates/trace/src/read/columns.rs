//! Text of any shape: one request a line, and the caller says what its columns are.

use super::text::{Line, LineParser, Object, decimal_us, number, quoted};
use crate::Op;
use crate::columns::{Column, Columns, Separator, Unit};

/// The parser for such lines.
pub(super) struct Shaped<'c> {
    columns: &'c Columns,
    page_bytes: u64,
    /// Remaining header lines.
    header_lines: u64,
    /// The columns that matter, by number.
    at: [Option<usize>; Column::ALL.len()],
}

impl<'c> Shaped<'c> {
    pub fn new(columns: &'c Columns, page_bytes: u32) -> Self {
        let at = Column::ALL.map(|column| match column {
            Column::Skip => None,
            column => columns.columns.iter().position(|other| *other == column),
        });
        let header_lines = columns.layout.header_lines;
        Self { columns, page_bytes: page_bytes.into(), header_lines, at }
    }

    /// The column's field of a line.
    fn field<'a>(&self, line: &'a str, column: Column) -> Result<Option<&'a str>, String> {
        let Some(at) = self.at[column as usize] else { return Ok(None) };
        let found = match self.columns.layout.separator {
            Separator::Character(separator) => line.split(separator).nth(at).map(str::trim),
            Separator::Blanks => line.split_whitespace().nth(at),
        };
        match found {
            Some(field) => Ok(Some(field)),
            None => Err(format!(
                "expected {} columns, of which number {} is the {}, found {} in {} (is the separator right?)",
                self.columns.columns.len(),
                at + 1,
                column.name(),
                self.count(line),
                quoted(line)
            )),
        }
    }

    fn count(&self, line: &str) -> usize {
        match self.columns.layout.separator {
            Separator::Character(separator) => line.split(separator).count(),
            Separator::Blanks => line.split_whitespace().count(),
        }
    }

    /// The operation of the line; `None`: it is skipped.
    fn op(&self, line: &str) -> Result<Option<Op>, String> {
        let Some(word) = self.field(line, Column::Op)? else { return Ok(Some(Op::Read)) };
        let words = &self.columns.words;
        let is_of = |list: &[String]| list.iter().any(|known| known.eq_ignore_ascii_case(word));
        if is_of(&words.reads) {
            Ok(Some(Op::Read))
        } else if is_of(&words.writes) {
            Ok(Some(Op::Write))
        } else if is_of(&words.skipped) {
            Ok(None)
        } else {
            Err(format!(
                "the op is {}, neither a read ({}) nor a write ({}); name the words that mean one, or those to be left out",
                quoted(word),
                words.reads.join(", "),
                words.writes.join(", ")
            ))
        }
    }

    /// A field in bytes.
    fn bytes(&self, field: &str, what: &str, unit: Unit) -> Result<u64, String> {
        let count = number(field, what)?;
        let each = match unit {
            Unit::Bytes(bytes) => bytes,
            Unit::Pages => self.page_bytes,
        };
        // Beyond 64 bits of bytes it is beyond 32 bits of pages, too: the end of the range says so later.
        Ok(count.saturating_mul(each))
    }

    fn time_us(&self, field: &str) -> Result<u64, String> {
        let what = "the time";
        match self.columns.layout.time_ns {
            unit_ns if unit_ns >= 1000 => decimal_us(field, what, unit_ns / 1000),
            unit_ns => {
                number(field.split('.').next().unwrap_or(field), what).map(|units| units * unit_ns / 1000)
            }
        }
    }
}

impl LineParser for Shaped<'_> {
    fn line<'a>(&mut self, line: &'a str) -> Result<Line<'a>, String> {
        if self.header_lines > 0 {
            self.header_lines -= 1;
            return Ok(Line::Nothing);
        }
        if line.trim().is_empty() {
            return Ok(Line::Nothing);
        }
        let layout = &self.columns.layout;
        let Some(op) = self.op(line)? else { return Ok(Line::Nothing) };
        let offset = self.field(line, Column::Offset)?.expect("columns without an offset are refused");
        let first = self.bytes(offset, "the offset", layout.offset_unit)?;
        let bytes = match self.field(line, Column::Size)? {
            Some(size) => self.bytes(size, "the size", layout.size_unit)?,
            None => self.page_bytes - first % self.page_bytes,
        };
        let object = match self.field(line, Column::Object)? {
            Some("") => return Err("the object has no name".to_owned()),
            Some(name) => Object::Named(name),
            None => Object::Only,
        };
        match self.field(line, Column::Time)? {
            Some(time) => Ok(Line::Extent { object, first, bytes, op, time_us: self.time_us(time)? }),
            None => Ok(Line::Untimed { object, first, bytes, op }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::{Layout, OpWords};

    fn parsed(columns: &[Column], layout: Layout, line: &'static str) -> Result<Line<'static>, String> {
        let columns = Columns::new(columns.to_vec(), layout, OpWords::default()).expect("sound");
        let mut parser = Shaped::new(&columns, 4096);
        parser.line(line)
    }

    #[test]
    fn fields_are_where_the_columns_say_in_the_units_that_are_given() {
        use Column::{Object as Volume, Offset, Op as What, Size, Skip, Time};
        let usual = Layout::default();
        let line = parsed(&[Time, What, Offset, Size], usual, "1.5, Write ,8192,512,more");
        let (object, op) = (Object::Only, Op::Write);
        assert_eq!(line, Ok(Line::Extent { object, first: 8192, bytes: 512, op, time_us: 1_500_000 }));
        let blanks = Layout {
            separator: Separator::Blanks,
            time_ns: 1,
            offset_unit: Unit::Bytes(512),
            size_unit: Unit::Pages,
            ..usual
        };
        let line = parsed(&[Skip, Volume, Size, Offset, Time], blanks, " x  vol1\t2 3   4999 ");
        let (object, op) = (Object::Named("vol1"), Op::Read);
        assert_eq!(line, Ok(Line::Extent { object, first: 1536, bytes: 8192, op, time_us: 4 }));
        let pages = Layout { offset_unit: Unit::Pages, ..usual };
        let (object, op) = (Object::Only, Op::Read);
        assert_eq!(
            parsed(&[Offset], pages, "7"),
            Ok(Line::Untimed { object, first: 7 * 4096, bytes: 4096, op })
        );
    }

    #[test]
    fn headers_and_empty_lines_say_nothing() {
        let layout = Layout { header_lines: 1, ..Layout::default() };
        let columns = Columns::new(vec![Column::Offset], layout, OpWords::default()).expect("sound");
        let mut parser = Shaped::new(&columns, 4096);
        assert_eq!(parser.line("offset"), Ok(Line::Nothing));
        assert_eq!(parser.line("  "), Ok(Line::Nothing));
        assert!(parser.line("offset").is_err_and(|why| why.contains("the offset is \"offset\"")));
    }

    #[test]
    fn what_does_not_fit_is_said() {
        use Column::{Offset, Op as What, Time};
        let refused = |line| parsed(&[Time, What, Offset], Layout::default(), line).expect_err("refused");
        assert!(refused("1,flush,3").contains("neither a read (r, read) nor a write (w, write)"));
        assert!(refused("1,r").contains("expected 3 columns, of which number 3 is the offset, found 2"));
        assert!(refused("soon,r,3").contains("the time is \"soon\""));
        assert!(refused("1,r,-3").contains("the offset is \"-3\""));
    }
}
