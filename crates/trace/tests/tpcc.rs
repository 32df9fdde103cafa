//! The model of TPC-C against a capture of a real PostgreSQL that ran TPC-C: shares of relations, changes,
//! and LRU's miss-ratio curve. Run with `--nocapture` to see the numbers side by side.

mod support;

use entresol_trace::generate::TpccModel;
use entresol_trace::{Info, ReadOptions, Request, Trace, read};
use support::real;

/// Share of the references that miss in an LRU pool of `frames`, by a list through the pages' numbers.
fn lru_miss_ratio(trace: &Trace, requests: &[Request], frames: usize) -> f64 {
    let end = trace.unique_pages();
    // A ring: `end` is between the coldest and the hottest; a page outside points at itself.
    let mut next: Vec<usize> = (0..=end).collect();
    let mut before: Vec<usize> = (0..=end).collect();
    let (mut held, mut misses, mut references) = (0, 0_u64, 0_u64);
    for request in requests.iter().filter(|request| request.is_reference()) {
        let page = request.page() as usize;
        references += 1;
        if next[page] == page {
            misses += 1;
            held += 1;
            if held > frames {
                let coldest = before[end];
                (next[before[coldest]], before[end]) = (end, before[coldest]);
                (next[coldest], before[coldest]) = (coldest, coldest);
                held -= 1;
            }
        } else {
            (next[before[page]], before[next[page]]) = (next[page], before[page]);
        }
        (before[page], next[page]) = (end, next[end]);
        (before[next[end]], next[end]) = (page, page);
    }
    misses as f64 / references as f64
}

#[test]
fn the_list_is_lru() {
    let trace = support::recognised(b"1\n2\n1\n3\n2\n1\n1\n4\n3\n");
    // One frame: only the repeated 1 hits. Two: 1 twice. Three: 1, 2, 1, 1. Four: all but first references.
    for (frames, misses) in [(1, 8.0), (2, 7.0), (3, 5.0), (4, 4.0)] {
        assert_eq!(lru_miss_ratio(&trace, &trace.requests, frames), misses / 9.0, "{frames}");
    }
}

#[test]
fn the_model_resembles_a_real_postgresql() {
    let Some(path) = real("pg15_tpcc_w8.bin.zst") else { return };
    let names = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/pg15_tpcc_w8.relations.toml");
    let mut capture =
        read(&path, &ReadOptions { relations: Some(names), ..ReadOptions::default() }).expect("a capture");
    // The load generator's own checks follow.
    let run = capture.between(0.0, 240.0).expect("it has times");
    capture.requests.truncate(run.end);
    capture.times_us.truncate(run.end);
    let model = TpccModel { references: capture.references() as u64, ..TpccModel::default() };
    let model = model.generate().expect("possible");
    let (theirs, ours) = (Info::of(&capture), Info::of(&model));

    let share = |info: &Info, name: &str| {
        info.relations
            .iter()
            .find(|relation| relation.name == name)
            .map_or(0.0, |r| r.references_share * 100.0)
    };
    println!("{:20} {:>8} {:>8}", "% of references", "capture", "model");
    for relation in &theirs.relations[..16] {
        let (theirs, ours) = (share(&theirs, &relation.name), share(&ours, &relation.name));
        println!("{:20} {theirs:>8.2} {ours:>8.2}", relation.name);
        assert!((theirs - ours).abs() < 2.0, "{}: {theirs} and {ours}", relation.name);
    }
    println!(
        "{:20} {:>8.1} {:>8.1}",
        "change share, %",
        theirs.change_share * 100.0,
        ours.change_share * 100.0
    );
    assert!((theirs.change_share - ours.change_share).abs() < 0.05);

    for frames in [500, 2000, 8000, 32_000] {
        let [theirs, ours] =
            [&capture, &model].map(|trace| lru_miss_ratio(trace, &trace.requests, frames) * 100.0);
        println!("LRU {frames:>6} frames: {theirs:>7.2} {ours:>7.2} % misses");
        assert!((theirs - ours).abs() < 2.5, "{frames} frames: {theirs} and {ours} % misses");
    }
}
