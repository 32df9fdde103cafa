//! The columns of a text trace without a format's name.
//!
//! Invariant: a [`Columns`] has a column that names the page (an offset), each column once, and no word that
//! stands for two operations.

use crate::TraceError;

/// The content of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// When the request came.
    Time,
    /// Whether it reads or writes.
    Op,
    /// Where it begins.
    Offset,
    /// How long it is; a trace without sizes has requests of one page.
    Size,
    /// The relation, file or volume that it is for.
    Object,
    /// Nothing that matters here.
    Skip,
}

impl Column {
    /// All that can be named.
    pub const ALL: [Column; 6] =
        [Column::Time, Column::Op, Column::Offset, Column::Size, Column::Object, Column::Skip];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Column::Time => "time",
            Column::Op => "op",
            Column::Offset => "offset",
            Column::Size => "size",
            Column::Object => "object",
            Column::Skip => "-",
        }
    }
}

/// What stands between two columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Separator {
    /// One character; columns may have blanks around them.
    Character(char),
    /// Any number of blanks and tabs.
    Blanks,
}

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// So many bytes each.
    Bytes(u64),
    /// Pages of the size into which the trace is split.
    Pages,
}

/// The names of the operations. Case does not matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpWords {
    /// Reads.
    pub reads: Vec<String>,
    /// Writes.
    pub writes: Vec<String>,
    /// Anything else: such lines are skipped.
    pub skipped: Vec<String>,
}

impl Default for OpWords {
    fn default() -> Self {
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        Self { reads: words(&["r", "read"]), writes: words(&["w", "write"]), skipped: Vec::new() }
    }
}

/// The shape of a text trace: one request a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    pub(crate) columns: Vec<Column>,
    pub(crate) layout: Layout,
    pub(crate) words: OpWords,
}

/// How lines are cut, and what their numbers count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// What stands between columns.
    pub separator: Separator,
    /// Lines at the beginning that are no requests.
    pub header_lines: u64,
    /// Nanoseconds of a unit of time.
    pub time_ns: u64,
    /// What offsets count.
    pub offset_unit: Unit,
    /// What sizes count.
    pub size_unit: Unit,
}

impl Default for Layout {
    /// Commas, no header, seconds, bytes.
    fn default() -> Self {
        Self {
            separator: Separator::Character(','),
            header_lines: 0,
            time_ns: 1_000_000_000,
            offset_unit: Unit::Bytes(1),
            size_unit: Unit::Bytes(1),
        }
    }
}

impl Columns {
    /// Columns from the left to the right; a line may have more than are named.
    ///
    /// # Errors
    /// [`TraceError::Option`] if there is no offset, a column is named twice, or a word stands for two
    /// operations.
    pub fn new(columns: Vec<Column>, layout: Layout, words: OpWords) -> Result<Self, TraceError> {
        let refuse = |sentence: String| Err(TraceError::Option(sentence));
        if !columns.contains(&Column::Offset) {
            return refuse("the columns have no offset, so nothing says which page is meant; name it".into());
        }
        for (at, column) in columns.iter().enumerate() {
            if *column != Column::Skip && columns[..at].contains(column) {
                return refuse(format!(
                    "the column {} is named twice; name it once, and - for columns without meaning",
                    column.name()
                ));
            }
        }
        let all: Vec<&String> = [&words.reads, &words.writes, &words.skipped].into_iter().flatten().collect();
        for (at, word) in all.iter().enumerate() {
            if all[..at].iter().any(|other| other.eq_ignore_ascii_case(word)) {
                return refuse(format!(
                    "the word {word:?} is named twice among the operations; it can stand for one of them only"
                ));
            }
        }
        Ok(Self { columns, layout, words })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_name_a_page_once_and_words_one_operation() {
        let new = |columns: &[Column], words: OpWords| {
            Columns::new(columns.to_vec(), Layout::default(), words).map_err(|error| error.to_string())
        };
        let usual = OpWords::default;
        assert!(new(&[Column::Skip, Column::Offset, Column::Skip], usual()).is_ok());
        assert!(new(&[Column::Time, Column::Op], usual()).is_err_and(|e| e.contains("no offset")));
        let twice = new(&[Column::Offset, Column::Op, Column::Op], usual());
        assert!(twice.is_err_and(|e| e.contains("column op is named twice")));
        let both = OpWords { writes: vec!["READ".into()], ..usual() };
        assert!(
            new(&[Column::Offset, Column::Op], both).is_err_and(|e| e.contains("\"READ\" is named twice"))
        );
    }
}
