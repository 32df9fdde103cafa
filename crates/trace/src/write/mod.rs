//! Writing traces.
//!
//! Invariant: a written trace is read back as the same trace, as far as the format can hold it; [`Losses`]
//! has the rest.

mod compact;
mod oracle;
mod plain;

pub(crate) use compact::{Head, RecordWriter};

use crate::{Format, Op, Trace, TraceError};
use std::ffi::OsStr;
use std::fmt;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Written at once.
const BUFFER_BYTES: usize = 1 << 20;
/// zstd's default.
const ZSTD_LEVEL: i32 = 3;

/// The formats that can be written.
pub const WRITABLE: [Format; 4] =
    [Format::Entresol, Format::OracleGeneral, Format::OracleGeneralOpNs, Format::Plain];

/// The losses of a format. Its display is empty, or sentences that say so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Losses {
    /// Writes that became plain references.
    pub writes: usize,
    /// Changes without a reference that were dropped.
    pub dirty: usize,
    /// Whether times were dropped.
    pub times: bool,
    /// Whether times were cut to whole seconds.
    pub fractions: bool,
    /// Whether pages got new numbers, because theirs need more than 32 bits.
    pub numbers: bool,
    /// Whether the names of relations were dropped.
    pub relations: bool,
}

impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lost = Vec::new();
        if self.writes > 0 {
            lost.push(format!("{} writes became references", self.writes));
        }
        if self.dirty > 0 {
            lost.push(format!("{} changes of pages were left out", self.dirty));
        }
        if self.times {
            lost.push("times were left out".to_owned());
        }
        if self.fractions {
            lost.push("times were cut to whole seconds".to_owned());
        }
        if self.numbers {
            lost.push("pages were numbered anew".to_owned());
        }
        if self.relations {
            lost.push("relations were left out".to_owned());
        }
        f.write_str(&lost.join(", "))
    }
}

/// How a file is compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Not at all (Entresol's own format is compressed inside).
    #[default]
    None,
    /// By zstd.
    Zstd,
    /// By gzip.
    Gzip,
}

impl Compression {
    /// The packing by the file's name: `.zst` or `.gz` at its end.
    pub fn of(path: &Path) -> Self {
        match path.extension().and_then(OsStr::to_str) {
            Some("zst") => Compression::Zstd,
            Some("gz") => Compression::Gzip,
            _ => Compression::None,
        }
    }
}

/// Writes a trace in `format` to `out`, whose failures are reported as those of `path`.
///
/// # Errors
/// [`TraceError::Option`] if the format cannot be written; a failed write.
pub fn write(
    trace: &Trace,
    format: Format,
    path: &Path,
    compression: Compression,
    out: impl Write,
) -> Result<Losses, TraceError> {
    if !WRITABLE.contains(&format) {
        let known = WRITABLE.map(Format::name).join(", ");
        return Err(TraceError::Option(format!(
            "traces cannot be written as {format}; {known} can be written"
        )));
    }
    let written = packed(compression, out, |out| encode(trace, format, out));
    written.map_err(|source| TraceError::Io { path: path.to_owned(), action: "writing", source })
}

/// Writes Entresol's own format, with the records that `records` makes.
pub(crate) fn write_records(
    head: &Head<'_>,
    compression: Compression,
    out: impl Write,
    records: impl FnOnce(&mut RecordWriter<'_, &mut dyn Write>) -> io::Result<()>,
) -> io::Result<()> {
    packed(compression, out, |mut out| {
        let mut writer = RecordWriter::begin(head, &mut out)?;
        records(&mut writer)?;
        writer.finish()
    })
}

/// Lets `encode` write through a buffer and a compression to `out`, and ends both.
fn packed<T>(
    compression: Compression,
    out: impl Write,
    encode: impl FnOnce(&mut dyn Write) -> io::Result<T>,
) -> io::Result<T> {
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, out);
    let done = match compression {
        Compression::None => encode(&mut out)?,
        Compression::Zstd => {
            let mut encoder = zstd::stream::write::Encoder::new(&mut out, ZSTD_LEVEL)?;
            let done = encode(&mut encoder)?;
            encoder.finish()?;
            done
        }
        Compression::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(&mut out, flate2::Compression::default());
            let done = encode(&mut encoder)?;
            encoder.finish()?;
            done
        }
    };
    out.flush()?;
    Ok(done)
}

/// Encodes a trace in a format that can be written.
fn encode(trace: &Trace, format: Format, mut out: &mut dyn Write) -> io::Result<Losses> {
    match format {
        Format::OracleGeneral => oracle::write::<24>(trace, &mut out),
        Format::OracleGeneralOpNs => oracle::write::<27>(trace, &mut out),
        Format::Plain => plain::write(trace, &mut out),
        _ => compact::write(trace, &mut out).map(|()| Losses::default()),
    }
}

/// The losses of a trace in a format without operations, or without relations.
fn losses(trace: &Trace, has_ops: bool) -> Losses {
    let count = |op| trace.requests.iter().filter(|request| request.op() == op).count();
    Losses {
        writes: if has_ops { 0 } else { count(Op::Write) },
        dirty: count(Op::Dirty),
        relations: trace.relations.is_some(),
        ..Losses::default()
    }
}
