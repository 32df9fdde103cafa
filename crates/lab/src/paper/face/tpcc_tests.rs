//! FaCE's claims over the paper's own numbers, and over numbers that contradict them.

use super::grid::{FACE, GR, GSC, LC};
use super::*;
use crate::paper::claim::tests::assert_tolerances_decide;
use crate::paper::{Outcome, Verdict};

/// The paper's own tables as if they were our results, with tpmC made up where the text has none.
fn the_papers() -> Vec<TpccResult> {
    let mut results = Vec::new();
    for (column, percent) in FLASH_PERCENTS.into_iter().enumerate() {
        for (rank, system) in [LC, FACE, GR, GSC].into_iter().enumerate() {
            let value = |table: SizeTable| table.at(system, percent).expect("a row of the table");
            let tpmc = tpmc(system, percent).unwrap_or(1500.0 + 300.0 * rank as f64 + 30.0 * column as f64);
            results.push(TpccResult {
                system: system.name().into(),
                flash_percent: percent,
                flash_device: "mlc".into(),
                disk_device: "raid0-8".into(),
                tpmC: tpmc,
                flash_hit_rate: Some(value(FLASH_HITS) / 100.0),
                write_reduction: value(WRITE_REDUCTION) / 100.0,
                duplicate_share: if system == FACE { 0.35 } else { 0.1 },
                flash_utilisation: value(FLASH_UTILISATION) / 100.0,
                flash_iops: value(FLASH_IOPS),
                ..TpccResult::default()
            });
        }
    }
    for (system, tpmc) in [(System::DiskOnly, 900.0), (System::FlashOnly, 1900.0)] {
        results.push(TpccResult {
            system: system.name().into(),
            flash_device: "mlc".into(),
            disk_device: "raid0-8".into(),
            tpmC: tpmc,
            ..TpccResult::default()
        });
    }
    results
}

fn verdicts(results: &[TpccResult]) -> Vec<Verdict> {
    judged_tpcc(&[results]).into_iter().map(|judged| judged.verdict).collect()
}

fn verdict_on(results: &[TpccResult], id: &str) -> Verdict {
    let mut found: Vec<_> = verdicts(results).into_iter().filter(|verdict| verdict.id == id).collect();
    assert_eq!(found.len(), 1, "{id}");
    found.remove(0)
}

#[test]
fn tolerances_decide() {
    let mut results = the_papers();
    assert_tolerances_decide(TPCC.into_iter().flatten(), results.as_slice());
    results.iter_mut().for_each(|r| r.flash_device = "slc".into());
    assert_tolerances_decide(TPCC.into_iter().flatten(), results.as_slice());
}

#[test]
fn each_claim_is_judged_on_the_device_that_has_its_numbers() {
    let mlc = the_papers();
    let mut slc = the_papers();
    slc.iter_mut().for_each(|r| r.flash_device = "slc".into());
    let both = judged_tpcc(&[&mlc, &slc]);
    assert!(both.iter().all(|judged| judged.verdict.outcome != Outcome::NotJudged), "{both:?}");
    let of_mlc = verdicts(&mlc);
    let same = both.iter().zip(&of_mlc).filter(|(both, mlc)| both.verdict == **mlc).count();
    assert_eq!(same, of_mlc.len() - 4, "only the claims about SLC are judged on SLC");
}

#[test]
fn the_papers_own_numbers_satisfy_the_papers_claims() {
    for verdict in verdicts(&the_papers()) {
        let on_slc = verdict.id.starts_with("face.figure4b.");
        let set = ["face.table3b.lc-reduction", "face.table4a.lc-utilisation", "face.table4b.lc-iops-fall"];
        let set = set.contains(&verdict.id);
        let expected = match (on_slc, set) {
            (true, _) => Outcome::NotJudged,
            (_, true) => Outcome::Given,
            _ => Outcome::Holds,
        };
        assert_eq!(verdict.outcome, expected, "{verdict:?}");
    }
}

/// What is changed in the paper's numbers, and the one claim that must then fail.
type Spoiler = (&'static str, fn(&mut TpccResult));

#[test]
fn each_claim_fails_on_numbers_that_contradict_it() {
    let spoilers: [Spoiler; 22] = [
        ("face.s1.hits", |r| r.flash_hit_rate = Some(0.59)),
        ("face.s1.write-reduction", |r| r.write_reduction = 0.76),
        ("face.table4a.gr-below-face", |r| {
            r.flash_utilisation += if r.system == "face-gr" { 0.2 } else { 0.0 }
        }),
        ("face.table3a.hits-rise", |r| r.flash_hit_rate = Some(1.0 - r.flash_hits())),
        ("face.table3b.write-reduction-rises", |r| r.write_reduction = 0.5),
        ("face.table3a.hit-order", |r| {
            r.flash_hit_rate = Some(r.flash_hits() + if r.system == "face-gr" { 0.02 } else { 0.0 });
        }),
        ("face.s5-3.lc-lead", |r| {
            r.flash_hit_rate = Some(r.flash_hits() + if r.system == "lc" { 0.03 } else { 0.0 });
        }),
        ("face.table3b.lc-reduction", |r| r.write_reduction += if r.system == "lc" { -0.1 } else { 0.0 }),
        ("face.s5-3.gsc-reduction", |r| r.write_reduction += if r.system == "face-gsc" { -0.1 } else { 0.0 }),
        ("face.table4a.gsc-utilisation", |r| r.flash_utilisation += 0.01),
        ("face.figure4a.lc-flat", |r| r.tpmC *= if r.flash_percent == 20.0 { 1.2 } else { 1.0 }),
        ("face.s5-3.duplicates", |r| r.duplicate_share = 0.41),
        ("face.table4a.lc-utilisation", |r| r.flash_utilisation -= if r.system == "lc" { 0.05 } else { 0.0 }),
        ("face.table4b.lc-iops-fall", |r| r.flash_iops = 4000.0 + r.flash_percent * 10.0),
        ("face.table4a.face-utilisation", |r| r.flash_utilisation += 0.01),
        ("face.table4b.face-iops-rise", |r| r.flash_iops = 8000.0 - r.flash_percent),
        ("face.table4b.gsc-over-lc", |r| r.flash_iops *= if r.system == "lc" { 1.2 } else { 1.0 }),
        ("face.figure4a.order", |r| r.tpmC = if r.system == "lc" { 9000.0 } else { r.tpmC }),
        ("face.figure4a.face-scales", |r| r.tpmC = 3000.0),
        ("face.s2-3.small-cache", |r| r.tpmC = if r.system == "flash-only" { 4000.0 } else { r.tpmC }),
        ("face.figure4a.gsc-over-flash-only", |r| {
            r.tpmC = if r.system == "flash-only" { 1000.0 } else { r.tpmC }
        }),
        ("face.figure4.disk-only-last", |r| r.tpmC = if r.system == "disk-only" { 1950.0 } else { r.tpmC }),
    ];
    for (id, spoil) in spoilers {
        let mut results = the_papers();
        results.iter_mut().for_each(spoil);
        let verdict = verdict_on(&results, id);
        assert_eq!(verdict.outcome, Outcome::DoesNotHold, "{verdict:?}");
        assert!(verdict.numbers.contains('✗'), "{verdict:?}");
    }
}

#[test]
fn slc_margin_is_judged_on_slc_alone() {
    let mut results = the_papers();
    results.iter_mut().for_each(|r| r.flash_device = "slc".into());
    assert_eq!(verdict_on(&results, "face.figure4b.gsc-over-lc").outcome, Outcome::Holds);
    assert_eq!(verdict_on(&results, "face.figure4a.order").outcome, Outcome::NotJudged);
    for (id, system, tpmc) in [
        ("face.figure4b.over-flash-only", "flash-only", 3_700.0),
        ("face.figure4b.disk-only-last", "disk-only", 1_950.0),
        ("face.figure4b.face-scales", "face-gr", 1_900.0),
    ] {
        assert_eq!(verdict_on(&results, id).outcome, Outcome::Holds);
        let mut spoiled = results.clone();
        spoiled.iter_mut().filter(|r| r.system == system).for_each(|r| r.tpmC = tpmc);
        assert_eq!(verdict_on(&spoiled, id).outcome, Outcome::DoesNotHold, "{id}");
    }
    for r in &mut results {
        r.tpmC = if r.system == "lc" { 4000.0 } else { r.tpmC };
    }
    assert_eq!(verdict_on(&results, "face.figure4b.gsc-over-lc").outcome, Outcome::DoesNotHold);
}

#[test]
fn one_size_tests_no_trend_and_says_what_to_run() {
    let mut results = the_papers();
    results.retain(|r| r.flash_percent == 8.0 || r.flash_percent == 0.0);
    let trend = verdict_on(&results, "face.table3a.hits-rise");
    assert_eq!(trend.outcome, Outcome::NotJudged);
    assert!(trend.numbers.contains("--flash-percent 4,8,12,16,20"), "{trend:?}");
    let order = verdict_on(&results, "face.table3a.hit-order");
    assert_eq!(order.outcome, Outcome::Holds);
    assert_eq!(order.numbers, "at 8 %: 80.0 % / 76.6 % / 72.6 % / 72.6 %");
}

#[test]
fn no_results_hold_nothing() {
    let none = verdicts(&[]);
    assert!(!none.is_empty() && none.iter().all(|v| v.outcome == Outcome::NotJudged));
}

#[test]
fn claims_about_a_forgetful_lc_fail_on_numbers_that_contradict_them() {
    use crate::paper::claim::tests::{Spoiler, assert_spoiled, assert_tolerances_decide};
    use machines::Machines;
    let as_said = || {
        let mlc = the_papers();
        let forgets = mlc.iter().filter(|r| r.system == "lc").cloned().collect();
        let unpulled = mlc.iter().filter(|r| r.system == "face-gsc").cloned().collect();
        Machines { mlc, forgets, unpulled, ..Machines::default() }
    };
    let spoilers: [Spoiler<Machines>; 5] = [
        ("face.s5-3.lc-lead-forgetful", |m| m.forgets[0].flash_hit_rate = Some(0.76)),
        ("face.table3a.hit-order-forgetful", |m| m.forgets[0].flash_hit_rate = Some(0.69)),
        ("face.table3b.lc-reduction-forgetful", |m| m.forgets[0].write_reduction = 0.5),
        ("face.figure4a.lc-flat-forgetful", |m| m.forgets[0].tpmC = 1000.0),
        ("face.s3-3.pulling", |m| m.unpulled[0].dram_hit_rate += 0.011),
    ];
    assert_eq!(spoilers.len(), lc::CLAIMS.len(), "a spoiler for each claim");
    assert_spoiled(&spoilers, as_said, |machines| judged(lc::CLAIMS, &[machines]));
    assert_tolerances_decide(lc::CLAIMS, &as_said());
    let leads = lc::leads(&as_said());
    assert_eq!(leads.len(), 5);
    assert!(
        leads.iter().all(|(_, [ours, _], paper)| (ours - paper.expect("a row")).abs() < 1e-9),
        "{leads:?}"
    );
}
