//! Writing libCacheSim's oracleGeneral (24-byte records) and oracleGeneralOpNS (27): the layouts are in
//! `read/oracle.rs`. A page's id is its number in the source, and the size of all is the page's.

use super::{Losses, losses};
use crate::{Op, Trace};
use std::io::{self, Write};

/// libCacheSim's operations.
const READ: u8 = 12;
const WRITE: u8 = 13;

/// Writes a trace; times are whole seconds, 0 where the trace has none.
pub(super) fn write<const BYTES: usize>(trace: &Trace, out: &mut impl Write) -> io::Result<Losses> {
    const { assert!(BYTES == 24 || BYTES == 27, "the two sizes of records") };
    let next = next_references(trace);
    let references = trace.requests.iter().enumerate().filter(|(_, request)| request.is_reference());
    for ((index, request), next) in references.zip(next) {
        let time_us = trace.times_us.get(index).copied().unwrap_or(0);
        let time_s = u32::try_from(time_us / 1_000_000).unwrap_or(u32::MAX);
        let mut record = [0; BYTES];
        record[..4].copy_from_slice(&time_s.to_le_bytes());
        record[4..12].copy_from_slice(&trace.pages[request.page() as usize].to_le_bytes());
        record[12..16].copy_from_slice(&trace.page_bytes.to_le_bytes());
        if BYTES == 27 {
            record[16] = if request.op() == Op::Write { WRITE } else { READ };
        }
        record[BYTES - 8..].copy_from_slice(&next.to_le_bytes());
        out.write_all(&record)?;
    }
    Ok(Losses { fractions: trace.has_times(), ..losses(trace, BYTES == 27) })
}

/// For each reference, the number of the next one to the same page, counted from 1 as libCacheSim does; -1:
/// none.
fn next_references(trace: &Trace) -> Vec<i64> {
    let pages: Vec<u32> = trace.requests.iter().filter(|r| r.is_reference()).map(|r| r.page()).collect();
    let mut next = vec![-1; pages.len()];
    let mut after = vec![-1; trace.pages.len()];
    for (index, &page) in pages.iter().enumerate().rev() {
        next[index] = after[page as usize];
        after[page as usize] = index as i64 + 1;
    }
    next
}
