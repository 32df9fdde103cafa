use super::super::System;
use super::*;
use crate::paper::claim::tests::{Spoiler, assert_spoiled, assert_tolerances_decide, outcome_of};
use crate::paper::{Judged, Outcome, judged};

/// MiB read from flash and written to it after so many seconds: SCE's reads overtake after a quarter.
fn flash_mib(system: System, seconds: f64) -> [f64; 2] {
    if system == System::Sce { [2.0 * seconds, seconds + 25.0] } else { [seconds, 3.0 * seconds] }
}

/// A run that finds so many of the DRAM misses after `warm_s`.
fn measured(system: System, throughput: f64, response_us: f64, warm_s: f64) -> Measured {
    Measured {
        system,
        throughput,
        response_us,
        hit_rate: 0.5,
        throughput_curve: Vec::new(),
        hit_curve: vec![(0.0, 0.0), (warm_s, 0.46), (100.0, 0.5)],
        flash_curve: [0.0, 25.0, 50.0, 75.0, 100.0]
            .map(|seconds| (seconds, flash_mib(system, seconds)))
            .to_vec(),
        traffic_mib_s: if system == System::Sce { [8.0, 5.0, 14.0, 17.0] } else { [2.5, 22.0, 14.0, 17.0] },
        flash_written_mib: if system == System::Sce { 100.0 } else { 900.0 },
    }
}

/// As the paper says.
fn as_said() -> Runs {
    let flashcache = |throughput| measured(System::WRITE_THROUGH, throughput, 100.0, 50.0);
    let sce = |throughput| measured(System::Sce, throughput, 100.0, 20.0);
    let around = Measured {
        traffic_mib_s: [2.0, 14.0, 14.0, 17.0],
        ..measured(System::WRITE_AROUND, 99.0, 100.0, 50.0)
    };
    let large_blocks = Measured { flash_written_mib: 0.0, ..flashcache(99.0) };
    Runs {
        around,
        large_blocks,
        none: measured(System::NoCache, 100.0, 100.0, 0.0),
        flashcache: [flashcache(77.4), flashcache(90.5), flashcache(139.0)],
        sce: [sce(132.0), sce(189.0)],
        oltp: [
            measured(System::NoCache, 100.0, 100.0, 0.0),
            measured(System::WRITE_THROUGH, 20.9, 1400.0, 0.0),
            measured(System::WRITE_BACK, 180.0, 47.0, 0.0),
            Measured { traffic_mib_s: [200.0, 20.0, 5.0, 5.0], ..measured(System::Sce, 401.7, 45.0, 0.0) },
        ],
    }
}

#[test]
fn tolerances_decide() {
    assert_tolerances_decide(CLAIMS, &as_said());
}

#[test]
fn each_claim_fails_on_evidence_that_contradicts_it() {
    let spoilers: [Spoiler<Runs>; 19] = [
        ("sce.figure1.flashcache-slower", |r| r.flashcache[1].throughput = 101.0),
        ("sce.s2.write-around", |r| r.around.throughput = 106.0),
        ("sce.s3-3.size-mismatch", |r| r.large_blocks.flash_written_mib = 1.0),
        ("sce.figure4.sce-faster", |r| r.sce[0].throughput = 99.0),
        ("sce.figure4.traffic", |r| r.sce[0].traffic_mib_s[1] = 12.0),
        ("sce.figure4.writes-per-read", |r| r.flashcache[0].traffic_mib_s = [4.0, 11.9, 14.0, 17.0]),
        ("sce.figure5.both-faster", |r| r.flashcache[2].throughput = 99.0),
        ("sce.abstract.over-flashcache", |r| r.sce[1].throughput = 138.0),
        ("sce.figure5.warm-first", |r| r.sce[1].hit_curve[1].0 = 51.0),
        ("sce.figure5.reads-overtake", |r| r.sce[1].flash_curve[3].1[1] = 151.0),
        ("sce.figures4-5.fewer-writes", |r| r.sce[0].flash_written_mib = 901.0),
        ("sce.figure6.several-times", |r| r.oltp[3].throughput = 199.0),
        ("sce.figure6.flashcache-slower", |r| {
            r.oltp[1].throughput = 101.0;
            r.oltp[2].throughput = 203.0;
        }),
        ("sce.figure6.write-back", |r| r.oltp[1].throughput = 95.0),
        ("sce.figure6.write-back-response", |r| r.oltp[2].response_us = 50.0),
        ("sce.figure6.over-write-back", |r| r.oltp[2].throughput = 402.0),
        ("sce.figure6.flashcache-response", |r| r.oltp[1].response_us = 99.0),
        ("sce.figure6.sce-response", |r| {
            r.oltp[3].response_us = 101.0;
            r.oltp[2].response_us = 101.0;
        }),
        ("sce.figure6.reads-per-write", |r| r.oltp[3].traffic_mib_s[1] = 101.0),
    ];
    // The claim about memory is of our types, which no run can contradict.
    assert_eq!(spoilers.len() + 1, CLAIMS.len(), "a spoiler for each claim");
    assert_spoiled(&spoilers, as_said, |runs| judged(CLAIMS, &[runs]));
}

#[test]
fn sce_is_not_said_to_beat_a_write_back_that_the_paper_did_not_have() {
    let mut runs = as_said();
    runs.oltp[2].throughput = 100.0;
    let judged = judged(CLAIMS, &[&runs]);
    assert_eq!(outcome_of(&judged, "sce.figure6.over-write-back"), Outcome::NotJudged);
}

#[test]
fn the_papers_own_figures_are_within_a_quarter_of_themselves() {
    for Judged { verdict, .. } in judged(CLAIMS, &[&as_said()]) {
        assert_ne!(verdict.within_a_quarter, Some(false), "{verdict:?}");
    }
}
