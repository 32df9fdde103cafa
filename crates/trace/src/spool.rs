//! Records of a trace in a temporary file, where they are too many for memory.
//!
//! The file has no name, so it is gone with the program. It holds blocks of [`SPOOL_RECORDS`] records: the
//! requests, then their times if there are any. What follows the last whole block is in memory.
//!
//! Invariant: blocks are written whole and never changed, so they can be read at the same time by several
//! threads.

use crate::{Request, Trace};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Records of a block: 512 KiB of requests.
pub(crate) const SPOOL_RECORDS: usize = 1 << 16;
/// The folder of large temporary files without `TMPDIR`; `/tmp` may be memory.
const LARGE_FILES: &str = "/var/tmp";

/// Blocks of records in a file.
#[derive(Debug)]
pub struct Spool {
    file: File,
    blocks: usize,
    has_times: bool,
}

impl PartialEq for Spool {
    /// Two files are never taken for equal.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Spool {
    /// Records in the file.
    pub(crate) fn len(&self) -> usize {
        self.blocks * SPOOL_RECORDS
    }

    fn offset(&self, block: usize) -> u64 {
        let record = size_of::<Request>() + if self.has_times { size_of::<u64>() } else { 0 };
        (block * SPOOL_RECORDS * record) as u64
    }

    /// Reads a block.
    pub(crate) fn read(
        &self,
        block: usize,
        requests: &mut Vec<Request>,
        times_us: &mut Vec<u64>,
    ) -> std::io::Result<()> {
        requests.resize(SPOOL_RECORDS, Request::new(0, crate::Op::Read));
        self.file.read_exact_at(requests.as_mut_bytes(), self.offset(block))?;
        times_us.resize(if self.has_times { SPOOL_RECORDS } else { 0 }, 0);
        self.file
            .read_exact_at(times_us.as_mut_bytes(), self.offset(block) + size_of_val(&requests[..]) as u64)
    }

    /// The time of one record, if records have times.
    pub(crate) fn time_us(&self, at: usize) -> std::io::Result<Option<u64>> {
        if !self.has_times {
            return Ok(None);
        }
        let requests = (SPOOL_RECORDS * size_of::<Request>()) as u64;
        let place = self.offset(at / SPOOL_RECORDS) + requests + (at % SPOOL_RECORDS * 8) as u64;
        let mut time_us = 0_u64;
        self.file.read_exact_at(time_us.as_mut_bytes(), place)?;
        Ok(Some(time_us))
    }
}

/// A spool that grows.
#[derive(Debug, Default)]
pub(crate) struct Spooling(Option<Spool>);

impl Spooling {
    /// Records in it.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, Spool::len)
    }

    /// Moves a block of records out of memory. Errors name the fault and what to do.
    pub fn take(&mut self, trace: &mut Trace) -> Result<(), String> {
        debug_assert_eq!(trace.requests.len(), SPOOL_RECORDS, "blocks are whole");
        let folder = folder();
        let said = |error: std::io::Error| {
            format!(
                "the sampled records do not fit in a temporary file in {} ({error}); set TMPDIR to a folder with room",
                folder.display()
            )
        };
        let spool = match &mut self.0 {
            Some(spool) => spool,
            none => {
                let file = tempfile::tempfile_in(&folder).map_err(said)?;
                none.insert(Spool { file, blocks: 0, has_times: trace.has_times() })
            }
        };
        let at = spool.offset(spool.blocks);
        let requests = trace.requests.as_bytes();
        spool.file.write_all_at(requests, at).map_err(said)?;
        spool.file.write_all_at(trace.times_us.as_bytes(), at + requests.len() as u64).map_err(said)?;
        spool.blocks += 1;
        trace.requests.clear();
        trace.times_us.clear();
        Ok(())
    }

    /// The moved records.
    pub fn finish(self) -> Option<Arc<Spool>> {
        self.0.map(Arc::new)
    }
}

fn folder() -> PathBuf {
    let large = || Some(PathBuf::from(LARGE_FILES)).filter(|folder| Path::is_dir(folder));
    std::env::var_os("TMPDIR").map(PathBuf::from).or_else(large).unwrap_or_else(std::env::temp_dir)
}
