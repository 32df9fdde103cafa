//! Apache Parquet: a table with a row a request, as notebooks write it. Its columns are found by name:
//! `offset` (bytes) or `page` (page numbers); and if they are there `size` (bytes), `op`, `time_us`,
//! `object`.
//!
//! Invariant: a file of any bytes gives a trace or an error; a row group is never held as a whole. The
//! library panics on some damaged pages (a dictionary that is named and not there): that is caught, and is
//! an error.
//! Source of the format: <https://parquet.apache.org/docs/file-format/>.

use crate::builder::{Built, Misfit};
use crate::input::Input;
use crate::{Op, Place, ReadOptions, TraceBuilder, TraceError};
use entresol_core::PageId;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use std::cell::Cell;
use std::fs::File;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Once;

/// How a file begins, and ends.
pub(super) const MAGIC: &[u8] = b"PAR1";
/// Rows that are read together.
const ROWS: usize = 64 << 10;
/// Names of columns.
const NAMES: [&str; 6] = ["page", "offset", "size", "op", "time_us", "object"];

thread_local! {
    /// Whether a panic of this thread is caught and told as an error.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Where each of [`NAMES`] is among the file's columns.
struct Found([Option<usize>; 6]);

/// Reads the trace in the file at `path`; a stream cannot be read, since the description of the table is at
/// its end.
pub(super) fn read(
    input: &Input<'_>,
    path: Option<&Path>,
    options: &ReadOptions,
) -> Result<Built, TraceError> {
    // Nothing outlives a panic but the error.
    quietly(|| read_rows(input, path, options)).unwrap_or_else(|| {
        let reason = "the Parquet file is damaged: a page is not what its head says".to_owned();
        Err(TraceError::Damaged { name: input.name().to_owned(), place: Place::Row(0), reason })
    })
}

/// What `work` gives; `None` if it panics, without a word on stderr.
fn quietly<T>(work: impl FnOnce() -> T) -> Option<T> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                usual(info);
            }
        }));
    });
    QUIET.set(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(work));
    QUIET.set(false);
    outcome.ok()
}

fn read_rows(input: &Input<'_>, path: Option<&Path>, options: &ReadOptions) -> Result<Built, TraceError> {
    let name = input.name().to_owned();
    let damaged =
        |row: u64, reason: String| TraceError::Damaged { name: name.clone(), place: Place::Row(row), reason };
    let Some(path) = path else {
        return Err(damaged(0, "a Parquet trace is read from a file, not from a stream".to_owned()));
    };
    let io = |source| TraceError::Io { path: path.to_owned(), action: "opening", source };
    let wrong =
        |row: u64, error: ParquetError| damaged(row, format!("the Parquet file cannot be read ({error})"));
    let file = File::open(path).map_err(io)?;
    let bytes = file.metadata().map_err(io)?.len();
    let file = SerializedFileReader::new(file).map_err(|error| wrong(0, error))?;
    let found = columns(&file).map_err(|reason| damaged(0, reason))?;
    let mut builder = super::builder(input, options, super::BLOCK_PAGE_BYTES)?;
    let rows_of_all = u64::try_from(file.metadata().file_metadata().num_rows()).unwrap_or(0);
    let bytes_of_row = bytes as f64 / rows_of_all.max(1) as f64;
    let mut row = 0;
    for group in 0..file.num_row_groups() {
        let group = file.get_row_group(group).map_err(|error| wrong(row, error))?;
        let mut rows = Rows::new(&*group, &found).map_err(|error| wrong(row, error))?;
        let mut left = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        while left > 0 {
            let count = left.min(ROWS);
            rows.next(count).map_err(|reason| damaged(row, reason))?;
            for at in 0..count {
                add(&mut builder, &rows, at)
                    .map_err(|misfit| misfit.at(&name, Place::Row(row + at as u64)))?;
            }
            row += count as u64;
            left -= count;
            if let Some(watch) = &options.watch {
                watch.tell((row as f64 * bytes_of_row) as u64, bytes);
            }
        }
    }
    Ok(builder.finish_any(str::to_owned))
}

/// The columns, or what is wrong with the table.
fn columns(file: &SerializedFileReader<File>) -> Result<Found, String> {
    let schema = file.metadata().file_metadata().schema_descr();
    let there: Vec<String> = schema.columns().iter().map(|column| column.path().string()).collect();
    let found = NAMES.map(|name| there.iter().position(|column| column == name));
    match found {
        [None, None, ..] => {
            Err(format!("it has no column `page` or `offset`; its columns are {}", there.join(", ")))
        }
        [Some(_), Some(_), ..] => {
            Err("it has a column `page` and a column `offset`; leave one of them out".to_owned())
        }
        [Some(_), _, Some(_), ..] => {
            Err("it has a column `size`, which only `offset` has a use for".to_owned())
        }
        _ => Ok(Found(found)),
    }
}

/// Some rows of a row group.
struct Rows {
    readers: [Option<ColumnReader>; 6],
    values: [Vec<u64>; 6],
}

impl Rows {
    fn new(group: &dyn RowGroupReader, found: &Found) -> Result<Self, ParquetError> {
        let mut readers = [const { None }; 6];
        for (reader, column) in readers.iter_mut().zip(found.0) {
            *reader = column.map(|column| group.get_column_reader(column)).transpose()?;
        }
        Ok(Self { readers, values: Default::default() })
    }

    /// Reads `count` rows of each column. An error says which column is wrong.
    fn next(&mut self, count: usize) -> Result<(), String> {
        for (at, name) in NAMES.into_iter().enumerate() {
            let Some(reader) = &mut self.readers[at] else { continue };
            let values = &mut self.values[at];
            values.clear();
            let of =
                |values: Result<Vec<u64>, String>| values.map_err(|why| format!("the column `{name}` {why}"));
            *values = of(match reader {
                ColumnReader::Int64ColumnReader(reader) => integers(reader, count, i64::cast_unsigned),
                // 32 bits, and shorter ones. Negative numbers become too large to fit.
                ColumnReader::Int32ColumnReader(reader) => {
                    integers(reader, count, |value| u64::from(value.cast_unsigned()))
                }
                ColumnReader::BoolColumnReader(reader) if name == "op" => integers(reader, count, u64::from),
                ColumnReader::ByteArrayColumnReader(reader) if name == "op" => {
                    integers(reader, count, |word| word_of(word.data()))
                }
                _ => Err("is of a type that is not read; give whole numbers (of `op` also truths or words)"
                    .to_owned()),
            })?;
        }
        Ok(())
    }

    fn value(&self, column: usize, at: usize) -> Option<u64> {
        self.values[column].get(at).copied()
    }
}

/// `count` values of a column, as `shown` makes numbers of them.
fn integers<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    count: usize,
    shown: impl Fn(T::T) -> u64,
) -> Result<Vec<u64>, String> {
    let (mut values, mut levels) = (Vec::with_capacity(count), Vec::new());
    while values.len() < count {
        let left = count - values.len();
        let got = reader.read_records(left, Some(&mut levels), None, &mut values);
        let (records, read, _) = got.map_err(|error| format!("cannot be read ({error})"))?;
        if read < records {
            return Err("has a row without a value".to_owned());
        }
        if records == 0 {
            return Err("ends before the others".to_owned());
        }
    }
    Ok(values.into_iter().map(shown).collect())
}

/// A word of `op` as a number: 0 a read, 1 a write, 2 news of a change; anything else is none.
fn word_of(word: &[u8]) -> u64 {
    match word.to_ascii_lowercase().as_slice() {
        b"r" | b"read" => 0,
        b"w" | b"write" => 1,
        b"d" | b"dirty" => 2,
        _ => u64::MAX,
    }
}

fn add(builder: &mut TraceBuilder, rows: &Rows, at: usize) -> Result<(), Misfit> {
    let op = match rows.value(3, at) {
        None | Some(0) => Op::Read,
        Some(1) => Op::Write,
        Some(2) => Op::Dirty,
        Some(_) => {
            let reason = "the operation is not 0 or read, 1 or write, 2 or dirty";
            return Err(Misfit::Senseless(reason.to_owned()));
        }
    };
    let time_us = rows.value(4, at);
    let object = rows.value(5, at).unwrap_or(0);
    let object =
        u32::try_from(object).map_err(|_| Misfit::TooMany(format!("object {object} does not fit")))?;
    match rows.value(0, at) {
        Some(page) => {
            let number =
                u32::try_from(page).map_err(|_| Misfit::TooMany(format!("page {page} does not fit")))?;
            builder.page(PageId::new(object, number), op, time_us)
        }
        None => {
            let offset = rows.value(1, at).unwrap_or(0);
            builder.extent(object, offset, rows.value(2, at).unwrap_or(1), op, time_us)
        }
    }
}
