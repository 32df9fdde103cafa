//! Writing plain page numbers, one reference a line.

use super::{Losses, losses};
use crate::Trace;
use std::io::{self, Write};

/// Writes a trace. Where a page's number has more than 32 bits (the trace has several objects), all get their
/// dense numbers instead.
pub(super) fn write(trace: &Trace, out: &mut impl Write) -> io::Result<Losses> {
    let numbers = trace.pages.iter().any(|&page| page > u64::from(u32::MAX));
    for request in trace.requests.iter().filter(|request| request.is_reference()) {
        match numbers {
            false => writeln!(out, "{}", trace.pages[request.page() as usize])?,
            true => writeln!(out, "{}", request.page())?,
        }
    }
    Ok(Losses { times: trace.has_times(), numbers, ..losses(trace, false) })
}
