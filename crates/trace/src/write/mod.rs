//! Writing traces.
//!
//! Invariant: what is written is read back as the same trace, as far as the format can hold it; [`Losses`] says what it
//! cannot. A file appears whole under its name, or not at all.

mod compact;
mod oracle;
mod plain;

use crate::{Format, Op, Trace, TraceError};
use std::fmt;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// The formats that can be written.
pub const WRITABLE: [Format; 4] =
    [Format::Entresol, Format::OracleGeneral, Format::OracleGeneralOpNs, Format::Plain];

/// What a format could not hold. Its display is empty, or sentences that say so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Losses {
    /// Writes that became plain references.
    pub writes: usize,
    /// News of changed pages that were left out.
    pub dirty: usize,
    /// Whether times were left out.
    pub times: bool,
    /// Whether times were cut to whole seconds.
    pub fractions: bool,
    /// Whether pages got new numbers, because theirs need more than 32 bits.
    pub numbers: bool,
    /// Whether the names of relations were left out.
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

/// Writes a trace in `format` to `out`.
///
/// # Errors
/// [`TraceError::Option`] if the format cannot be written; a failed write, as [`TraceError::Io`] without a path.
pub fn write_to(trace: &Trace, format: Format, mut out: impl Write) -> Result<Losses, TraceError> {
    let io = |source| TraceError::Io { path: trace.name.clone().into(), action: "writing", source };
    let written = match format {
        Format::Entresol => compact::write(trace, &mut out).map(|()| Losses::default()),
        Format::OracleGeneral => oracle::write::<24>(trace, &mut out),
        Format::OracleGeneralOpNs => oracle::write::<27>(trace, &mut out),
        Format::Plain => plain::write(trace, &mut out),
        other => {
            let known = WRITABLE.map(Format::name).join(", ");
            return Err(TraceError::Option(format!(
                "traces cannot be written as {other}; {known} can be written"
            )));
        }
    };
    let losses = written.map_err(io)?;
    out.flush().map_err(io)?;
    Ok(losses)
}

/// Writes a trace in `format` to a file, compressed if its name ends in `.zst` or `.gz`. The file is put in place when
/// it is whole.
///
/// # Errors
/// As [`write_to`], or what keeps the file from being created.
pub fn write(trace: &Trace, format: Format, path: &Path) -> Result<Losses, TraceError> {
    let io = |source| TraceError::Io { path: path.to_owned(), action: "writing", source };
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let file = temporary(folder).map_err(io)?;
    let name = path.to_string_lossy();
    let losses = if name.ends_with(".zst") {
        let mut out = zstd::stream::write::Encoder::new(BufWriter::new(file.as_file()), 3).map_err(io)?;
        let losses = write_to(trace, format, &mut out)?;
        out.finish().and_then(|mut inner| inner.flush()).map_err(io)?;
        losses
    } else if name.ends_with(".gz") {
        let mut out =
            flate2::write::GzEncoder::new(BufWriter::new(file.as_file()), flate2::Compression::default());
        let losses = write_to(trace, format, &mut out)?;
        out.finish().and_then(|mut inner| inner.flush()).map_err(io)?;
        losses
    } else {
        write_to(trace, format, BufWriter::with_capacity(1 << 20, file.as_file()))?
    };
    file.as_file().sync_all().map_err(io)?;
    file.persist(path).map_err(|error| io(error.error))?;
    Ok(losses)
}

/// A file beside the final one, removed when dropped, with the permissions of an ordinary new file.
fn temporary(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    use std::os::unix::fs::PermissionsExt;
    tempfile::Builder::new()
        .prefix(".entresol-")
        .permissions(std::fs::Permissions::from_mode(0o666))
        .tempfile_in(folder)
}

/// What a format without operations, or without relations, loses of a trace.
fn losses(trace: &Trace, has_ops: bool) -> Losses {
    let count = |op| trace.requests.iter().filter(|request| request.op() == op).count();
    Losses {
        writes: if has_ops { 0 } else { count(Op::Write) },
        dirty: count(Op::Dirty),
        relations: trace.relations.is_some(),
        ..Losses::default()
    }
}
