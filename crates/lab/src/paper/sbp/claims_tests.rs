use super::*;
use crate::paper::claim::tests::{Spoiler, assert_spoiled, assert_tolerances_decide};
use crate::paper::judged;

/// A restart that takes `seconds`, then ten points that rise by `step` to 1,000 tpmC.
fn restarted(warm: bool, seconds: f64, step: f64) -> Restarted {
    let point = |at: u32| (seconds + f64::from(at), (1000.0 - step * (9.0 - f64::from(at))).max(0.0));
    let mut tpmc = vec![(0.0, 0.0), (seconds, 0.0)];
    tpmc.extend((0..10).map(point));
    Restarted {
        warm,
        restart_s: seconds,
        redo_pages: 100,
        redo_from_flash: if warm { 60 } else { 20 },
        tpmc,
        flash_reads: vec![(0.25, if warm { 30.0 } else { 0.0 }), (0.75, if warm { 60.0 } else { 0.0 })],
        cpu: vec![(seconds / 2.0, 0.0), (seconds + 1.0, 0.5), (seconds + 60.0, 0.5)],
        flash_hits: Vec::new(),
        directory_writes: 2.0,
        consistent: true,
    }
}

/// As the paper's figures are drawn.
fn as_drawn() -> Evidence {
    Evidence {
        metadata: vec![1000.0, 990.0, 980.0],
        crash: [restarted(true, 240.0, 10.0), restarted(false, 300.0, 12.0)],
        logged: [(900, 700.0), (800, 1000.0), (810, 990.0)].map(|(log_pages, tpmc)| Ran { tpmc, log_pages }),
        base: restarted(true, 360.0, 0.0),
        shutdown: [restarted(true, 10.0, -1.0), restarted(false, 10.0, 10.0)],
    }
}

#[test]
fn tolerances_decide() {
    assert_tolerances_decide(CLAIMS, &as_drawn());
}

#[test]
fn each_claim_fails_on_evidence_that_contradicts_it() {
    let spoilers: [Spoiler<Evidence>; 11] = [
        ("sbp.s3.directory-writes", |e| e.shutdown[0].directory_writes = 2.3),
        ("sbp.figure4.metadata", |e| e.metadata[2] = 949.0),
        ("sbp.figure6.recovery", |e| e.crash[0].restart_s = 301.0),
        ("sbp.figure5.log-pages", |e| e.logged[2].log_pages = 901),
        ("sbp.s5-5.base", |e| e.base.restart_s = 299.0),
        ("sbp.figure8.cpu", |e| e.crash[1].cpu[0].1 = 0.6),
        ("sbp.figure9.peak", |e| {
            let warm = &mut e.shutdown[0].tpmc;
            warm.iter_mut().enumerate().for_each(|(at, point)| point.1 = 1001.0 + at as f64);
        }),
        ("sbp.figure6.stable", |e| e.crash[0].tpmc.iter_mut().take(9).for_each(|point| point.0 += 90.0)),
        ("sbp.figure7.redo-from-flash", |e| e.crash[1].flash_reads[1].1 = 2.0),
        ("sbp.figure9.shutdown", |e| e.shutdown[1].tpmc.iter_mut().for_each(|point| point.1 *= 0.95)),
        ("sbp.s4.consistent", |e| e.shutdown[1].consistent = false),
    ];
    // The claim about the size of the metadata is of our layout, which no run can contradict.
    assert_eq!(spoilers.len() + 1, CLAIMS.len(), "a spoiler for each claim");
    assert_spoiled(&spoilers, as_drawn, |evidence| judged(CLAIMS, &[evidence]));
}
