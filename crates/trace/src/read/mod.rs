//! Reading traces of every format.
//!
//! Invariant: bytes of any kind give a trace or an error that says what is wrong and where, never a panic;
//! memory is in proportion to the requests read.

mod blkparse;
mod cloudphysics;
mod columns;
mod compact;
mod fio;
mod labels;
mod mqsim;
mod msr;
mod oracle;
mod parquet;
mod plain;
mod postgresql;
mod recognise;
mod spc;
mod text;
mod vscsi;

use crate::builder::Built;
use crate::input::Input;
use crate::{Columns, Format, ReadOptions, SampledTrace, Stream, Trace, TraceBuilder, TraceError};
use labels::Labels;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Page size of block traces, where none is asked for.
const BLOCK_PAGE_BYTES: u32 = 4096;

/// Reads the trace in a file, compressed (zstd, gzip) or not.
///
/// # Errors
/// The fault of the file, its place, and what to do.
pub fn read(path: &Path, options: &ReadOptions) -> Result<Trace, TraceError> {
    let labels = Labels::beside(path, options.relations.as_deref())?;
    whole(read_input(Input::open(path, options.watch.clone())?, Some(path), &labels, options)?)
}

/// The files that reading the trace at `path` reads, or looks for.
pub fn files_of(path: &Path, options: &ReadOptions) -> Vec<PathBuf> {
    let relations = match &options.relations {
        Some(named) => vec![named.clone()],
        None => Labels::usual(path).to_vec(),
    };
    [vec![path.to_owned()], relations, postgresql::tables_of(path)].concat()
}

/// Reads the samples that the options ask for, all in one pass over the file. Memory is for sampled pages:
/// their records beyond some ten thousand are in a temporary file. (A PostgreSQL capture has its table of all
/// pages in memory, 8 bytes each.)
///
/// # Errors
/// The fault of the file, its place, and what to do.
pub fn read_samples(path: &Path, options: &ReadOptions) -> Result<Vec<SampledTrace>, TraceError> {
    let labels = Labels::beside(path, options.relations.as_deref())?;
    samples(read_input(Input::open(path, options.watch.clone())?, Some(path), &labels, options)?)
}

/// The same from any source of bytes, as [`read_from`].
///
/// # Errors
/// The fault of the bytes, and its place.
pub fn read_samples_from(
    name: &str,
    bytes: impl Read,
    options: &ReadOptions,
) -> Result<Vec<SampledTrace>, TraceError> {
    let labels = Labels::from_option(options.relations.as_deref())?;
    samples(read_input(Input::new(Path::new(name), bytes)?, None, &labels, options)?)
}

fn whole(built: Built) -> Result<Trace, TraceError> {
    match built {
        Built::Whole(trace) => Ok(trace),
        Built::Samples(..) => {
            Err(TraceError::Option("all of the trace is needed here, no samples of it".into()))
        }
    }
}

fn samples(built: Built) -> Result<Vec<SampledTrace>, TraceError> {
    match built {
        Built::Samples(samples, _) => Ok(samples),
        Built::Whole(_) => Err(TraceError::Option("no sample was asked for; name a rate and a seed".into())),
    }
}

/// Reads a trace from any source of bytes; `name` is its name in messages. It has no accompanying files: a
/// PostgreSQL capture gets no relations.
///
/// # Errors
/// The fault of the bytes, and its place.
pub fn read_from(name: &str, bytes: impl Read, options: &ReadOptions) -> Result<Trace, TraceError> {
    let labels = Labels::from_option(options.relations.as_deref())?;
    whole(read_input(Input::new(Path::new(name), bytes)?, None, &labels, options)?)
}

fn read_input(
    mut input: Input<'_>,
    path: Option<&Path>,
    labels: &Labels,
    options: &ReadOptions,
) -> Result<Built, TraceError> {
    // Bad options are bad for every format.
    options.page_bytes_or(BLOCK_PAGE_BYTES)?;
    if input.head().0.is_empty() {
        return Err(TraceError::Empty {
            name: input.name().to_owned(),
            detail: ": the file is empty".to_owned(),
        });
    }
    if let Some(columns) = &options.columns {
        return read_columns(&mut input, columns, labels, options);
    }
    let format = match options.format {
        Some(format) => format,
        None => recognise::format_of(&input)?,
    };
    if options.stream == Stream::Below && format != Format::Postgresql {
        return Err(TraceError::OneStream { name: input.name().to_owned(), format });
    }
    let trace = match format {
        Format::Entresol => return compact::read(&mut input, options),
        Format::Postgresql => postgresql::read(&mut input, path, labels, options)?,
        Format::OracleGeneral => oracle::read::<24>(&mut input, options)?,
        Format::OracleGeneralOpNs => oracle::read::<27>(&mut input, options)?,
        Format::Vscsi => vscsi::read(&mut input, options)?,
        Format::Parquet => parquet::read(&input, path, options)?,
        _ => text::read(&mut input, format, labels, options)?,
    };
    if trace.is_empty() {
        let detail = match format {
            Format::Postgresql => {
                format!(" {} the buffer pool (its other stream may have some)", options.stream.name())
            }
            _ => format!(" that the {format} format has"),
        };
        return Err(TraceError::Empty { name: input.name().to_owned(), detail });
    }
    Ok(trace)
}

/// Reads a text whose columns the caller names.
fn read_columns(
    input: &mut Input<'_>,
    columns: &Columns,
    labels: &Labels,
    options: &ReadOptions,
) -> Result<Built, TraceError> {
    let page_bytes = options.page_bytes_or(BLOCK_PAGE_BYTES)?;
    let trace = text::read_with(input, &mut columns::Shaped::new(columns, page_bytes), labels, options)?;
    if trace.is_empty() {
        let detail = " in the columns that are named".to_owned();
        return Err(TraceError::Empty { name: input.name().to_owned(), detail });
    }
    Ok(trace)
}

/// An empty trace of the input's name and of pages of `usual` bytes, unless others are asked for.
fn builder(input: &Input<'_>, options: &ReadOptions, usual: u32) -> Result<TraceBuilder, TraceError> {
    let builder = TraceBuilder::new(input.name(), options.page_bytes_or(usual)?);
    Ok(builder.sampled(&options.samples))
}
