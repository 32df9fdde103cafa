//! Why a trace cannot be read, written or used.
//!
//! Invariant: each message is one sentence that names the file, the place in it, what was expected and what
//! was found.

use crate::Format;
use std::fmt;
use std::path::PathBuf;

/// Where in a file something is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line, counted from 1.
    Line(u64),
    /// A byte offset into the (decompressed) content, counted from 0.
    Byte(u64),
    /// A row of a table, counted from 0.
    Row(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(line) => write!(f, "line {line}"),
            Place::Byte(byte) => write!(f, "byte {byte}"),
            Place::Row(row) => write!(f, "row {row}"),
        }
    }
}

/// Why a trace cannot be read, written or used.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file could not be opened, read or written.
    #[error("{action} {}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The step: "opening", "reading", "writing".
        action: &'static str,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// A record makes no sense.
    #[error("{name}, {place}: {reason}")]
    Damaged {
        /// The file.
        name: String,
        /// Where in it.
        place: Place,
        /// What was expected and what was found.
        reason: String,
    },
    /// The file ends in the middle of a compressed frame, a record or a section.
    #[error("{name} is cut off: {reason}; fetch or capture the trace again")]
    CutOff {
        /// The file.
        name: String,
        /// The missing option.
        reason: String,
    },
    /// It is packed by a program whose files are not read.
    #[error(
        "{name} is packed by {packer}; unpack it (`{unpack} {name} | zstd > TRACE.zst`), or leave it unpacked: zstd and gzip are \
         read as they are"
    )]
    Packed {
        /// The file.
        name: String,
        /// The program that has packed it.
        packer: &'static str,
        /// What unpacks it.
        unpack: &'static str,
    },
    /// No reader recognises the content.
    #[error(
        "{name}: not a trace in a known format ({known}); name its format if it is one of these, or, if it is a text with a \
         request a line, say what its columns are (`--columns time,op,offset,size`)"
    )]
    Unrecognised {
        /// The file.
        name: String,
        /// The formats that were tried.
        known: String,
    },
    /// There is nothing to replay.
    #[error("{name} holds no request{detail}")]
    Empty {
        /// The file.
        name: String,
        /// Why not, where there is something to say: begins with a separator.
        detail: String,
    },
    /// Another stream than the only one is asked for.
    #[error(
        "{name}: a trace in the {format} format holds one stream; leave out the choice of the one below (`--stream below`)"
    )]
    OneStream {
        /// The file.
        name: String,
        /// Its format.
        format: Format,
    },
    /// A page number or the number of pages does not fit.
    #[error("{name}, {place}: {reason}; entresol numbers pages with 32 bits in each object")]
    TooManyPages {
        /// The file.
        name: String,
        /// Where in it.
        place: Place,
        /// Which number does not fit.
        reason: String,
    },
    /// The sampled records cannot be kept.
    #[error("{name}: {reason}")]
    NoRoom {
        /// The file.
        name: String,
        /// What is wrong and what to do.
        reason: String,
    },
    /// A span of time was asked for and the trace has no times.
    #[error("{name} has no times, so no span of seconds can be cut out of it; leave the span out")]
    NoTimes {
        /// The trace.
        name: String,
    },
    /// An option does not fit the trace, or nothing.
    #[error("{0}")]
    Option(String),
}
