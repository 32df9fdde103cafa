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
        flash_reads: Vec::new(),
        flash_hits: Vec::new(),
        consistent: true,
    }
}

/// As the paper's figures are drawn.
fn as_drawn() -> Evidence {
    Evidence {
        metadata: vec![1000.0, 990.0, 980.0],
        crash: [restarted(true, 240.0, 10.0), restarted(false, 300.0, 12.0)],
        shutdown: [restarted(true, 10.0, 0.0), restarted(false, 10.0, 10.0)],
    }
}

#[test]
fn tolerances_decide() {
    assert_tolerances_decide(CLAIMS, &as_drawn());
}

#[test]
fn each_claim_fails_on_evidence_that_contradicts_it() {
    let spoilers: [Spoiler<Evidence>; 6] = [
        ("sbp.figure4.metadata", |e| e.metadata[2] = 949.0),
        ("sbp.figure6.recovery", |e| e.crash[0].restart_s = 301.0),
        ("sbp.figure6.stable", |e| e.crash[0].tpmc.iter_mut().take(9).for_each(|point| point.0 += 90.0)),
        ("sbp.figure7.redo-from-flash", |e| e.crash[0].redo_from_flash = 20),
        ("sbp.figure9.shutdown", |e| e.shutdown[1].tpmc.iter_mut().for_each(|point| point.1 *= 0.95)),
        ("sbp.s4.consistent", |e| e.shutdown[1].consistent = false),
    ];
    assert_eq!(spoilers.len(), CLAIMS.len(), "a spoiler for each claim");
    assert_spoiled(&spoilers, as_drawn, |evidence| judged(CLAIMS, &[evidence]));
}
