//! Where the real traces are, and short ways to read and compare.
#![allow(dead_code, reason = "each test file uses its part")]

use entresol_trace::{Op, ReadOptions, Request, Trace};
use std::path::{Path, PathBuf};

/// A real trace, or `None` with a printed reason where the folder of shared traces is absent.
pub fn real(name: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let shared = std::env::var_os("ENTRESOL_SHARED").map_or_else(beside, PathBuf::from);
    let path = shared.join("traces").join(name);
    if path.is_file() {
        return Some(path);
    }
    println!("skipped: {} is absent (ENTRESOL_SHARED names the folder that has traces/)", path.display());
    None
}

/// Numbers of requests by operation: reads, writes, changes.
pub fn ops(trace: &Trace) -> [usize; 3] {
    [Op::Read, Op::Write, Op::Dirty].map(|op| trace.requests.iter().filter(|r| r.op() == op).count())
}

/// Number of host requests.
pub fn host_requests(trace: &Trace) -> usize {
    trace.requests.iter().filter(|request| !request.continues()).count()
}

/// Requests with the source's page numbers.
pub fn original(trace: &Trace) -> Vec<(u64, Op, bool)> {
    let page = |request: &Request| trace.pages[request.page() as usize];
    trace.requests.iter().map(|r| (page(r), r.op(), r.continues())).collect()
}

/// Reads bytes whose format is to be recognised.
pub fn recognised(bytes: &[u8]) -> Trace {
    entresol_trace::read_from("t", bytes, &ReadOptions::default()).expect("a trace")
}

/// The sentence with which bytes are refused.
pub fn refused(bytes: &[u8]) -> String {
    let error = entresol_trace::read_from("t", bytes, &ReadOptions::default()).expect_err("no trace");
    error.to_string()
}
