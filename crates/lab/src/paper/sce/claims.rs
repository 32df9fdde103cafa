//! SCE's claims over our runs.

use super::evidence::{Measured, Runs, change};
use crate::paper::{Check, Claim, Statement, Tolerance};

/// "Several times" (figure 6 says 4).
const SEVERAL: f64 = 2.0;
/// flashcache's flash writes by its reads with a small cache: "too much" (figure 4b says about 9).
const TOO_MANY_WRITES: f64 = 3.0;
/// A cache counts as warm at this share of the hit rate that flashcache ends with.
const WARM: f64 = 0.9;

pub(crate) const CLAIMS: &[Claim<Runs>] = &[
    Claim {
        statement: Statement {
            id: "sce.figure1.flashcache-slower",
            source: "SCE figure 1",
            says: "flashcache (write-through) with flash of 1/4 and of 1/2 of the database is slower than no cache",
            tolerance: Tolerance::Direction,
            ..Statement::BASE
        },
        judge: flashcache_slower,
    },
    Claim {
        statement: Statement {
            id: "sce.figure4.sce-faster",
            source: "SCE figure 4",
            says: "with flash of 1/4 of the database sce is faster than no cache, and flashcache slower",
            tolerance: Tolerance::Direction,
            ..Statement::BASE
        },
        judge: sce_faster,
    },
    Claim {
        statement: Statement {
            id: "sce.figure4.writes-per-read",
            source: "SCE figure 4",
            says: "flashcache writes several times what it reads on flash (at least 3 ×; the paper has about 9 ×)",
            tolerance: Tolerance::AtLeast(TOO_MANY_WRITES),
            ..Statement::BASE
        },
        judge: writes_per_read,
    },
    Claim {
        statement: Statement {
            id: "sce.figure5.both-faster",
            source: "SCE figure 5",
            says: "with flash for all of the database both are faster than no cache, and sce is faster than flashcache",
            tolerance: Tolerance::Direction,
            ..Statement::BASE
        },
        judge: both_faster,
    },
    Claim {
        statement: Statement {
            id: "sce.figure5.warm-first",
            source: "SCE figure 5",
            says: "sce is warm first (at 0.9 of the hit rate that flashcache ends with)",
            tolerance: Tolerance::AtEach(&[WARM]),
            ..Statement::BASE
        },
        judge: warm_first,
    },
    Claim {
        statement: Statement {
            id: "sce.figures4-5.fewer-writes",
            source: "SCE figures 4, 5",
            says: "sce writes less to flash than flashcache for the same references",
            tolerance: Tolerance::Direction,
            ..Statement::BASE
        },
        judge: fewer_writes,
    },
    Claim {
        statement: Statement {
            id: "sce.figure6.several-times",
            source: "SCE figure 6",
            says: "under a skewed, spatially local OLTP load sce is several times as fast as no cache (at least 2 ×)",
            tolerance: Tolerance::AtLeast(SEVERAL),
            ..Statement::BASE
        },
        judge: several_times,
    },
    Claim {
        statement: Statement {
            id: "sce.figure6.flashcache-slower",
            source: "SCE figure 6",
            says: "flashcache (write-through) is slower than no cache under it",
            tolerance: Tolerance::Direction,
            ..Statement::BASE
        },
        judge: flashcache_slower_under_oltp,
    },
    Claim {
        statement: Statement {
            id: "sce.figure6.over-write-back",
            source: "SCE figure 6",
            says: "sce does better than flashcache in write-back mode",
            tolerance: Tolerance::Direction,
            reason: Some(
                "what flashcache saves the volume in write-back depends on how much is written, which the paper does \
                 not say",
            ),
            ..Statement::BASE
        },
        judge: over_write_back,
    },
    Claim {
        statement: Statement {
            id: "sce.figure6.response",
            source: "SCE figure 6",
            says: "response is longer with flashcache (write-through) than without a cache, and shorter with sce",
            tolerance: Tolerance::Direction,
            reason: Some("the paper's 14 times are more than a queue of a fixed number of clients can give"),
            ..Statement::BASE
        },
        judge: response,
    },
];

/// Whether throughput is higher than that of `base`, or lower if `faster` is false.
fn against(measured: &Measured, base: &Measured, faster: bool, size: &str) -> Check {
    let change = change(measured, base);
    let agrees = if faster { change > 0.0 } else { change < 0.0 };
    Check { agrees, numbers: format!("{} at {size}: {change:+.0} %", measured.system.name()) }
}

fn flashcache_slower(runs: &Runs, _: Tolerance) -> Vec<Check> {
    let [small, half, _] = &runs.flashcache;
    vec![against(small, &runs.none, false, "20 GiB"), against(half, &runs.none, false, "40 GiB")]
}

fn sce_faster(runs: &Runs, _: Tolerance) -> Vec<Check> {
    let (sce, flashcache) = (&runs.sce[0], &runs.flashcache[0]);
    vec![against(sce, &runs.none, true, "20 GiB"), against(flashcache, &runs.none, false, "20 GiB")]
}

fn writes_per_read(runs: &Runs, tolerance: Tolerance) -> Vec<Check> {
    let [read, written, ..] = runs.flashcache[0].traffic_mib_s;
    let per_read = written / read.max(1e-9);
    let numbers = format!("{per_read:.1} × ({written:.1} and {read:.1} MiB/s)");
    vec![Check { agrees: tolerance.allows(per_read), numbers }]
}

fn both_faster(runs: &Runs, _: Tolerance) -> Vec<Check> {
    let (sce, flashcache) = (&runs.sce[1], &runs.flashcache[2]);
    vec![
        against(sce, &runs.none, true, "80 GiB"),
        against(flashcache, &runs.none, true, "80 GiB"),
        Check {
            agrees: sce.throughput > flashcache.throughput,
            numbers: format!("sce by flashcache: {:+.0} %", change(sce, flashcache)),
        },
    ]
}

/// Seconds until a cache finds `level` of the DRAM misses; `None`: it never does.
fn warm_after(measured: &Measured, level: f64) -> Option<f64> {
    measured.hit_curve.iter().find(|(_, hits)| *hits >= level).map(|(seconds, _)| *seconds)
}

fn warm_first(runs: &Runs, tolerance: Tolerance) -> Vec<Check> {
    let (sce, flashcache) = (&runs.sce[1], &runs.flashcache[2]);
    let seconds = |at: Option<f64>| at.map_or("never".to_owned(), |at| format!("{at:.1} s"));
    let last = flashcache.hit_curve.last().map_or(0.0, |(_, hits)| *hits);
    let at = |share: &f64| {
        let [sce, flashcache] = [sce, flashcache].map(|measured| warm_after(measured, share * last));
        Check {
            agrees: sce.is_some_and(|sce| flashcache.is_none_or(|flashcache| sce < flashcache)),
            numbers: format!("{} and {}", seconds(sce), seconds(flashcache)),
        }
    };
    tolerance.shares().iter().map(at).collect()
}

fn fewer_writes(runs: &Runs, _: Tolerance) -> Vec<Check> {
    let fewer = |sce: &Measured, flashcache: &Measured, size: &str| Check {
        agrees: sce.flash_written_mib < flashcache.flash_written_mib,
        numbers: format!("{size}: {:.0} and {:.0} MiB", sce.flash_written_mib, flashcache.flash_written_mib),
    };
    let [small, _, large] = &runs.flashcache;
    vec![fewer(&runs.sce[0], small, "20 GiB"), fewer(&runs.sce[1], large, "80 GiB")]
}

/// Throughput under the OLTP load, as a multiple of that without a cache.
fn times(runs: &Runs, measured: &Measured) -> f64 {
    measured.throughput / runs.oltp[0].throughput
}

fn several_times(runs: &Runs, tolerance: Tolerance) -> Vec<Check> {
    let times = times(runs, &runs.oltp[3]);
    vec![Check { agrees: tolerance.allows(times), numbers: format!("{times:.1} ×") }]
}

fn flashcache_slower_under_oltp(runs: &Runs, _: Tolerance) -> Vec<Check> {
    let times = times(runs, &runs.oltp[1]);
    vec![Check { agrees: times < 1.0, numbers: format!("{times:.2} ×") }]
}

fn over_write_back(runs: &Runs, _: Tolerance) -> Vec<Check> {
    let [_, _, back, sce] = &runs.oltp;
    let numbers = format!("{:.1} and {:.1} × no cache", times(runs, sce), times(runs, back));
    vec![Check { agrees: sce.throughput > back.throughput, numbers }]
}

fn response(runs: &Runs, _: Tolerance) -> Vec<Check> {
    let [none, through, _, sce] = &runs.oltp;
    let [through, sce] = [through, sce].map(|measured| measured.response_us / none.response_us);
    let numbers = format!("{through:.2} × and {sce:.2} ×");
    vec![Check { agrees: through > 1.0 && sce < 1.0, numbers }]
}

#[cfg(test)]
#[path = "claims_tests.rs"]
mod tests;
