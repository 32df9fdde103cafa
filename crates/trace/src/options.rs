//! How a trace is to be read.

use crate::{Columns, Format, Sample, TraceError};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Which of two streams, where a capture holds both (PostgreSQL): references to the database's buffer pool,
/// or those to a cache below it. Formats with one stream have that one, whatever it is of; to ask them for
/// the one below is an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// Above the buffer pool: references and changes (R, D).
    #[default]
    Above,
    /// Below the buffer pool: its misses and the pages that it writes (M, F).
    Below,
}

impl Stream {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Stream::Above => "above",
            Stream::Below => "below",
        }
    }

    /// The stream called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        [Stream::Above, Stream::Below].into_iter().find(|stream| stream.name() == name)
    }
}

/// How a trace is to be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReadOptions {
    /// The file's format; `None`: recognised from the content.
    pub format: Option<Format>,
    /// The columns of a text, in place of a recognised format.
    pub columns: Option<Columns>,
    /// The stream of a capture that holds two.
    pub stream: Stream,
    /// Page size in bytes into which requests are split; `None`: the format's own, else 4096.
    pub page_bytes: Option<u32>,
    /// A TOML file that names relations; `None`: `FILE.relations.toml` or `relations.toml` next to the trace,
    /// if there is one.
    pub relations: Option<PathBuf>,
    /// Samples to be taken, for [`crate::read_samples`].
    pub samples: Vec<Sample>,
    /// Is told how far the read of a file is.
    pub watch: Option<Watch>,
}

/// Is told how much of a file is read, and how much there is: bytes as they are in the file, compressed or
/// not. Those of a Parquet file are in proportion to its rows.
#[derive(Clone)]
pub struct Watch(Arc<dyn Fn(u64, u64) + Send + Sync>);

impl Watch {
    /// Lets `tell` know.
    pub fn new(tell: impl Fn(u64, u64) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    pub(crate) fn tell(&self, done: u64, all: u64) {
        (self.0)(done, all);
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}

impl PartialEq for Watch {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Smallest page: a sector.
const PAGE_BYTES_MIN: u32 = 512;
/// Largest page.
const PAGE_BYTES_MAX: u32 = 1 << 20;

impl ReadOptions {
    /// The page size, where a format's own is `usual`.
    ///
    /// # Errors
    /// [`TraceError::Option`] if it is no power of two from 512 to 1 MiB.
    pub fn page_bytes_or(&self, usual: u32) -> Result<u32, TraceError> {
        let bytes = self.page_bytes.unwrap_or(usual);
        if bytes.is_power_of_two() && (PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&bytes) {
            return Ok(bytes);
        }
        Err(TraceError::Option(format!(
            "a page of {bytes} bytes is not possible; powers of two from {PAGE_BYTES_MIN} to {PAGE_BYTES_MAX} are"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_sizes_are_powers_of_two() {
        let with = |page_bytes| ReadOptions { page_bytes, ..ReadOptions::default() }.page_bytes_or(4096);
        assert_eq!(with(None).expect("the usual"), 4096);
        assert_eq!(with(Some(512)).expect("a sector"), 512);
        for bytes in [0, 256, 1000, 12_288, 2 << 20, u32::MAX] {
            assert!(with(Some(bytes)).is_err(), "{bytes}");
        }
    }
}
