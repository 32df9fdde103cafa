use super::*;
use crate::paper::claim::tests::assert_tolerances_decide;
use crate::paper::{Outcome, face};

fn run(system: &str, interval: f64, restart_s: f64) -> RestartResult {
    let series = |second: u32| {
        let up = f64::from(second) >= restart_s;
        let tpmc = if !up {
            0.0
        } else if system == "disk-only" {
            800.0
        } else {
            3000.0
        };
        [f64::from(second), tpmc]
    };
    RestartResult {
        system: system.into(),
        redo: "plain".into(),
        checkpoint_interval_s: interval,
        restart_s,
        directory_restore_s: if system == "face-gsc" { 2.5 } else { 0.0 },
        redo_from_flash_share: if system == "face-gsc" { 0.985 } else { 0.0 },
        tpmC_after: (0..1000).map(series).collect(),
        ..RestartResult::default()
    }
}

/// Table 6 as if it were our results.
fn the_papers() -> Vec<RestartResult> {
    let mut results = Vec::new();
    for (system, row) in face::RESTART_S {
        for (interval, seconds) in face::CHECKPOINT_INTERVALS_S.into_iter().zip(row) {
            results.push(run(system.name(), interval, seconds));
        }
    }
    results
}

fn outcomes(results: &[RestartResult]) -> Vec<Outcome> {
    judged_restart(results).into_iter().map(|judged| judged.verdict.outcome).collect()
}

#[test]
fn the_papers_own_numbers_satisfy_the_papers_claims() {
    assert_eq!(outcomes(&the_papers()), [Outcome::Holds; 6]);
}

#[test]
fn tolerances_decide() {
    assert_tolerances_decide(CLAIMS, the_papers().as_slice());
}

#[test]
fn each_claim_fails_on_numbers_that_contradict_it() {
    let spoilers: [fn(&mut RestartResult); 6] = [
        |r| r.restart_s *= if r.system == "face-gsc" && r.checkpoint_interval_s == 180.0 { 1.1 } else { 1.0 },
        |r| r.restart_s *= if r.system == "face-gsc" && r.checkpoint_interval_s == 60.0 { 0.9 } else { 1.0 },
        |r| r.restart_s = if r.checkpoint_interval_s == 120.0 { r.restart_s * 0.75 } else { r.restart_s },
        |r| r.redo_from_flash_share = 0.97,
        |r| r.directory_restore_s *= if r.checkpoint_interval_s == 60.0 { 2.0 } else { 1.0 },
        |r| r.tpmC_after[500][1] = if r.system == "disk-only" { 90_000.0 } else { 3000.0 },
    ];
    for (claim, spoil) in spoilers.into_iter().enumerate() {
        let mut results = the_papers();
        results.iter_mut().for_each(spoil);
        for (index, outcome) in outcomes(&results).into_iter().enumerate() {
            // A restart that is not four times as quick saves less than 77 %, too.
            let fails = index == claim || (claim, index) == (0, 1);
            let expected = if fails { Outcome::DoesNotHold } else { Outcome::Holds };
            assert_eq!(outcome, expected, "claim {index} after spoiling {claim}");
        }
    }
}

#[test]
fn nothing_is_claimed_without_a_partner() {
    let alone = [run("lc", 60.0, 100.0)];
    assert_eq!(outcomes(&alone), [Outcome::NotJudged; 6]);
    let other_interval = [run("face-gsc", 60.0, 93.0), run("disk-only", 120.0, 786.0)];
    assert_eq!(outcomes(&other_interval)[0], Outcome::NotJudged);
}

#[test]
fn only_faces_log_is_judged() {
    let mut results = the_papers();
    results.iter_mut().for_each(|r| r.redo = "usual".into());
    assert_eq!(outcomes(&results), [Outcome::NotJudged; 6]);
}

#[test]
fn scaled_claims_fail_on_numbers_that_contradict_them() {
    let scaled = |results: &[RestartResult]| -> Vec<Outcome> {
        judged(SCALED, &[results]).into_iter().map(|judged| judged.verdict.outcome).collect()
    };
    assert_eq!(scaled(&the_papers()), [Outcome::Holds; 3]);
    let spoilers: [fn(&mut RestartResult); 3] = [
        |r| r.restart_s *= if r.system == "face-gsc" { 2.0 } else { 1.0 },
        |r| r.redo_from_flash_share = 0.97,
        |r| r.tpmC_after[500][1] = if r.system == "disk-only" { 90_000.0 } else { 3000.0 },
    ];
    for (claim, spoil) in spoilers.into_iter().enumerate() {
        let mut results = the_papers();
        results.iter_mut().for_each(spoil);
        let expected = [0, 1, 2].map(|at| if at == claim { Outcome::DoesNotHold } else { Outcome::Holds });
        assert_eq!(scaled(&results), expected, "after spoiling {claim}");
    }
    assert_tolerances_decide(SCALED, the_papers().as_slice());
}

#[test]
fn windows_are_means_and_gaps_are_zero() {
    assert_eq!(windows(&[[0.0, 10.0], [9.0, 20.0], [25.0, 7.0]]), [15.0, 0.0, 7.0]);
    assert_eq!(windows(&[]), [0.0; 0]);
}
