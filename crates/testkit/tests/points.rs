//! Every named code point of the engine, of fragments and of the store is reached by the short runs of
//! [`entresol_testkit::points`]; only with the feature `coverage`. A point that nothing reaches fails.
//!
//! ```text
//! cargo test --release -p entresol-testkit --features coverage --test points -- --nocapture
//! ```

use entresol_testkit::points::{RUNS, UNREACHED, points};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Instant;

/// The names of the points that nothing has reached so far.
fn missed() -> BTreeSet<&'static str> {
    points().filter(|point| point.count() == 0).map(|point| point.name()).collect()
}

#[test]
fn every_code_point_is_reached_or_has_a_reason() {
    let excused: BTreeSet<&str> = UNREACHED.iter().map(|(name, _)| *name).collect();
    let rounds = RUNS.iter().map(|run| run.rounds).max().unwrap();
    let all = (0..rounds).flat_map(|round| RUNS.iter().map(move |run| (round, run)));
    let all: Vec<_> = all.filter(|(round, run)| *round < run.rounds).collect();
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |cores| cores.get()) {
            scope.spawn(|| {
                while !missed().is_subset(&excused) {
                    let Some((round, run)) = all.get(next.fetch_add(1, SeqCst)) else { return };
                    let before = missed();
                    if let Err(what) = (run.run)(7 + round) {
                        wrong.lock().push(format!("{}, seed {}: {what}", run.name, 7 + round));
                    }
                    let reached = before.difference(&missed()).count();
                    let seconds = begin.elapsed().as_secs_f64();
                    println!("{seconds:6.1} s  round {round:2}, {}: {reached} more points", run.name);
                }
            });
        }
    });
    let names: BTreeSet<&str> = points().map(|point| point.name()).collect();
    println!("{} code points, {} of them not reached: {:#?}", names.len(), missed().len(), missed());
    assert!(wrong.lock().is_empty(), "{}", wrong.lock().join("\n"));
    assert!(names.len() > 90, "the points are compiled in");
    assert!(UNREACHED.iter().all(|(_, reason)| reason.len() > 20), "each has a reason");
    let of_none: Vec<_> = excused.difference(&names).collect();
    assert!(of_none.is_empty(), "no such points: {of_none:?}");
    let missed = missed();
    let unexpected: Vec<_> = missed.difference(&excused).collect();
    assert!(unexpected.is_empty(), "not reached, and without a reason: {unexpected:#?}");
    let reached: Vec<_> = excused.difference(&missed).collect();
    assert!(reached.is_empty(), "reached, though there is a reason why not: {reached:#?}");
}
