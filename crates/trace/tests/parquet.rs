//! Parquet files: a table as a notebook writes it (`data/requests.parquet`, by pyarrow: 24 rows in three row
//! groups, zstd, nullable columns), and the same damaged.

use entresol_trace::{Op, ReadOptions, Trace, TraceError, read};
use std::path::{Path, PathBuf};

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/requests.parquet")
}

fn shown(trace: &Trace) -> Vec<(u64, Op, bool)> {
    let page = |dense: u32| trace.pages[dense as usize];
    trace.requests.iter().map(|request| (page(request.page()), request.op(), request.continues())).collect()
}

#[test]
fn rows_are_requests() {
    let trace = read(&file(), &ReadOptions::default()).expect("a trace");
    let mut expected = Vec::new();
    let ops = [Op::Read, Op::Write, Op::Write, Op::Read];
    for row in 0..24_u64 {
        let (first, pages) = (row * 7 % 11 * 2, [1, 2, 0][row as usize % 3]);
        expected.extend((0..pages).map(|page| (first + page, ops[row as usize % 4], page > 0)));
    }
    assert_eq!(shown(&trace), expected);
    assert_eq!((trace.empty_requests, trace.times_us.last()), (8, Some(&2200)));
    let large = ReadOptions { page_bytes: Some(8192), ..ReadOptions::default() };
    assert_eq!(read(&file(), &large).expect("a trace").len(), 16, "a page a row, but for those of no bytes");
}

#[test]
fn damage_is_an_error_and_no_panic() {
    let whole = std::fs::read(file()).expect("the file");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("damaged");
    let (mut read_well, mut refused) = (0, 0);
    let mut look = |bytes: &[u8]| {
        std::fs::write(&path, bytes).expect("a file");
        match read(&path, &ReadOptions::default()) {
            Ok(_) => read_well += 1,
            Err(TraceError::Damaged { .. } | TraceError::Empty { .. } | TraceError::TooManyPages { .. }) => {
                refused += 1;
            }
            Err(other) => panic!("{other}"),
        }
    };
    for cut in (4..whole.len()).step_by(97) {
        look(&whole[..cut]);
    }
    for at in (4..whole.len()).step_by(3) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        look(&bytes);
    }
    assert!(read_well > 200 && refused > 200, "{read_well} {refused}");
}

#[test]
fn a_stream_is_refused() {
    let bytes = std::fs::read(file()).expect("the file");
    let error = entresol_trace::read_from("t", &bytes[..], &ReadOptions::default()).expect_err("a stream");
    assert!(error.to_string().contains("is read from a file"), "{error}");
}
