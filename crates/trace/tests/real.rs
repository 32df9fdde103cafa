//! Real traces, against counts that were computed from the files by other means.

mod support;

use entresol_trace::{Place, ReadOptions, Stream, TraceError, read};
use support::{host_requests, ops, real};

/// The share of distinct pages, by relation, is of interest elsewhere; here it must be whole.
fn assert_dense(trace: &entresol_trace::Trace) {
    let mut next = 0;
    for request in &trace.requests {
        assert!(request.page() <= next, "pages are numbered in the order of their first appearance");
        next = next.max(request.page() + 1);
    }
    assert_eq!(next as usize, trace.unique_pages());
    assert!(trace.times_us.is_sorted());
    assert!(trace.times_us.is_empty() || trace.times_us.len() == trace.requests.len());
}

#[test]
fn postgresql_above_and_below() {
    let Some(path) = real("pg15_tpcc_w8.bin.zst") else { return };
    let above = read(&path, &ReadOptions::default()).expect("a capture");
    assert_eq!(ops(&above), [6_416_716, 0, 1_492_961]);
    assert_eq!(above.page_bytes, 8192);
    assert_dense(&above);
    let below =
        read(&path, &ReadOptions { stream: Stream::Below, ..ReadOptions::default() }).expect("a capture");
    assert_eq!(ops(&below), [495_455, 280_726, 0]);
    assert_dense(&below);
    let all: std::collections::BTreeSet<u64> = above.pages.iter().chain(&below.pages).copied().collect();
    assert_eq!(all.len(), 98_595);

    let relations = above.relations.as_ref().expect("there is a table of pages");
    let mut references = vec![0; relations.len()];
    for request in above.requests.iter().filter(|request| request.is_reference()) {
        references[usize::from(relations.of(request.page()).0)] += 1;
    }
    let of = |name: &str| references[relations.names().iter().position(|n| n == name).expect("a relation")];
    assert_eq!(
        [of("16427"), of("16424"), of("16424_vm"), of("16395")],
        [1_821_897, 1_130_424, 32_595, 209_152]
    );
    let span = above.between(80.0, 240.0).expect("it has times");
    assert!(above.times_us[span.start] >= 80_000_000 && above.times_us[span.end - 1] < 240_000_000);
}

#[test]
fn names_come_from_a_file() {
    let Some(path) = real("pg15_tpcc_w8.bin.zst") else { return };
    let names = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/pg15_tpcc_w8.relations.toml");
    let options = ReadOptions { stream: Stream::Below, relations: Some(names), ..ReadOptions::default() };
    let trace = read(&path, &options).expect("a capture");
    let names = trace.relations.expect("relations").names().to_vec();
    assert!(
        ["stock", "stock_vm", "stock_pkey", "order_line_fsm"]
            .iter()
            .all(|name| names.contains(&(*name).into()))
    );
}

#[test]
fn cloudphysics() {
    let Some(path) = real("cloudPhysicsIO.csv.zst") else { return };
    let trace = read(&path, &ReadOptions::default()).expect("a trace");
    assert_eq!(host_requests(&trace), 113_872);
    assert_eq!((trace.references(), trace.unique_pages()), (1_141_869, 269_210));
    let writes = trace.requests.iter().filter(|r| !r.continues() && r.changes()).count();
    assert_eq!(writes, 66_898);
    assert_eq!(trace.seconds(), 7200.0);
    assert_dense(&trace);
}

#[test]
fn mqsim() {
    let Some(path) = real("mqsim_wsrch-small.trace.zst") else { return };
    let trace = read(&path, &ReadOptions::default()).expect("a trace");
    assert_eq!(host_requests(&trace), 24_783);
    assert_eq!((trace.references(), trace.unique_pages()), (93_312, 92_259));
    assert_dense(&trace);
}

#[test]
fn lirs() {
    let Some(path) = real("lirs_ps.trace.gz") else { return };
    let trace = read(&path, &ReadOptions::default()).expect("a trace");
    assert_eq!((trace.requests.len(), trace.unique_pages()), (10_448, 3083));
    assert!(!trace.has_times());
    assert_dense(&trace);
}

#[test]
fn truncated_real_traces_are_refused() {
    let Some(path) = real("cloudPhysicsIO.csv.zst") else { return };
    let bytes = std::fs::read(path).expect("readable");
    for end in [bytes.len() - 1, bytes.len() / 2, 100] {
        let cut = entresol_trace::read_from("t", &bytes[..end], &ReadOptions::default());
        assert!(matches!(cut, Err(TraceError::CutOff { .. })), "{end}: {cut:?}");
    }
    let mut text = zstd::decode_all(&bytes[..]).expect("whole");
    let line = text.split(|&byte| byte == b'\n').take(50_000).map(|line| line.len() + 1).sum::<usize>();
    text[line] = b'x';
    let damaged = entresol_trace::read_from("t", &text[..], &ReadOptions::default());
    match damaged {
        Err(TraceError::Damaged { place: Place::Line(50_001), reason, .. }) => {
            assert!(reason.contains("version"))
        }
        other => panic!("{other:?}"),
    }
}
