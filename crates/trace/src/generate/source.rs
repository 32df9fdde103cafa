//! Traces that are made record by record: kept in memory, or written as they are made.
//!
//! Invariant: a source gives the same records each time, so that a trace written in two passes equals the
//! trace in memory.

use crate::numbering::Numbering;
use crate::write::{Compression, Head, write_records};
use crate::{Op, Relations, Request, Trace, TraceBuilder, TraceError};
use entresol_core::PageId;
use std::io::{self, Write};
use std::path::Path;

/// Takes a record: page, operation, time in microseconds.
pub type Take<'a> = dyn FnMut(PageId, Op, Option<u64>) -> io::Result<()> + 'a;

/// What makes a trace record by record. All records have times, or none has.
pub trait Source {
    /// The trace's name.
    fn name(&self) -> String;
    /// Bytes of a page.
    fn page_bytes(&self) -> u32;
    /// Names of the objects of pages, by number; empty if they have none.
    fn objects(&self) -> Vec<&'static str>;
    /// Says whether the parameters are possible.
    ///
    /// # Errors
    /// [`TraceError::Option`] says which is not and what is.
    fn check(&self) -> Result<(), TraceError>;
    /// Gives all records to `take`, in order; the parameters are possible.
    ///
    /// # Errors
    /// What `take` returns.
    fn each(&self, take: &mut Take<'_>) -> io::Result<()>;
}

/// The trace in memory.
pub(super) fn in_memory(source: &dyn Source) -> Result<Trace, TraceError> {
    source.check()?;
    let mut builder = TraceBuilder::new(source.name(), source.page_bytes());
    for object in source.objects() {
        builder.object(object).expect("there are few objects");
    }
    let done = source.each(&mut |page, op, time_us| {
        builder.page(page, op, time_us).expect("there are fewer pages than 2^32 - 1");
        Ok(())
    });
    done.expect("memory takes all records");
    Ok(builder.finish(str::to_owned))
}

/// Writes the trace in Entresol's own format, with memory for its pages only: the records are made twice,
/// first to number the pages. Failures of `out` are reported as those of `path`. Returns how many records and
/// pages there are.
///
/// # Errors
/// [`TraceError::Option`] if a parameter is out of range; a failed write.
pub fn write_as_made(
    source: &dyn Source,
    path: &Path,
    compression: Compression,
    out: impl Write,
) -> Result<(u64, u64), TraceError> {
    source.check()?;
    let failed = |source| TraceError::Io { path: path.to_owned(), action: "writing", source };
    let (mut numbering, mut requests, mut has_times) = (Numbering::default(), 0, false);
    let first = source.each(&mut |page, _, time_us| {
        numbering.number(page).expect("there are fewer pages than 2^32 - 1");
        requests += 1;
        has_times = time_us.is_some();
        Ok(())
    });
    first.map_err(failed)?;
    let pages = numbering.pages().to_vec();
    let objects = source.objects();
    let relations = (!objects.is_empty()).then(|| {
        let of_page = pages.iter().map(|&page| PageId(page).object() as u16).collect();
        Relations::new(of_page, objects.iter().map(|&name| name.to_owned()).collect())
    });
    let head = Head {
        name: &source.name(),
        page_bytes: source.page_bytes(),
        requests,
        has_times,
        pages: &pages,
        relations: relations.as_ref(),
    };
    let mut start_us = None;
    let written = write_records(&head, compression, out, |writer| {
        source.each(&mut |page, op, time_us| {
            let (dense, _) = numbering.number(page).expect("it was numbered in the first pass");
            let time_us = time_us.map(|time_us| time_us - *start_us.get_or_insert(time_us));
            writer.record(Request::new(dense, op), time_us.unwrap_or(0))
        })
    });
    written.map_err(failed)?;
    Ok((requests, pages.len() as u64))
}
