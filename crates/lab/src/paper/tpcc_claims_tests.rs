use super::*;
use crate::paper::Outcome;

/// The paper's own tables as if they were our results, with tpmC made up where the text has none.
fn the_papers() -> Vec<TpccResult> {
    let mut results = Vec::new();
    for (column, percent) in face::FLASH_PERCENTS.into_iter().enumerate() {
        for (rank, system) in [LC, FACE, GR, GSC].into_iter().enumerate() {
            let value = |table: face::SizeTable| table.at(system, percent).expect("a row of the table");
            let tpmc =
                face::tpmc(system, percent).unwrap_or(1500.0 + 300.0 * rank as f64 + 100.0 * column as f64);
            results.push(TpccResult {
                system: system.name().into(),
                flash_percent: percent,
                flash_device: "mlc".into(),
                disk_device: "raid0-8".into(),
                tpmC: tpmc,
                flash_hit_rate: Some(value(face::FLASH_HITS) / 100.0),
                write_reduction: value(face::WRITE_REDUCTION) / 100.0,
                duplicate_share: if system == FACE { 0.35 } else { 0.1 },
                flash_utilisation: value(face::FLASH_UTILISATION) / 100.0,
                flash_iops: value(face::FLASH_IOPS),
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

fn verdict_on(results: &[TpccResult], source: &str, claim: &str) -> Verdict {
    let mut found: Vec<_> =
        verdicts(results).into_iter().filter(|v| v.source == source && v.claim.contains(claim)).collect();
    assert_eq!(found.len(), 1, "{source}: {claim}");
    found.remove(0)
}

#[test]
fn the_papers_own_numbers_satisfy_the_papers_claims() {
    for verdict in verdicts(&the_papers()) {
        let expected = if verdict.claim.contains("SLC") { Outcome::NotTested } else { Outcome::Holds };
        assert_eq!(verdict.outcome, expected, "{verdict:?}");
    }
}

/// What is changed in the paper's numbers, and the one claim that must then fail.
type Spoiler = (&'static str, &'static str, fn(&mut TpccResult));

#[test]
fn each_claim_fails_on_numbers_that_contradict_it() {
    let spoilers: [Spoiler; 15] = [
        ("FaCE table 3a", "rises", |r| r.flash_hit_rate = Some(1.0 - r.flash_hits())),
        ("FaCE table 3b", "rises", |r| r.write_reduction = 0.5),
        ("FaCE table 3a", "lc > face-gsc", |r| {
            r.flash_hit_rate = Some(r.flash_hits() + if r.system == "face-gr" { 0.02 } else { 0.0 });
        }),
        ("FaCE §5.3", "2 to 10 points", |r| {
            r.flash_hit_rate = Some(r.flash_hits() + if r.system == "lc" { 0.03 } else { 0.0 });
        }),
        ("FaCE §5.3", "superseded", |r| r.duplicate_share = 0.41),
        ("FaCE table 4a", "above 90 %", |r| r.flash_utilisation -= if r.system == "lc" { 0.05 } else { 0.0 }),
        ("FaCE table 4b", "fall", |r| r.flash_iops = 4000.0 + r.flash_percent * 10.0),
        ("FaCE table 4a", "below 85 %", |r| r.flash_utilisation += 0.01),
        ("FaCE table 4b", "family", |r| r.flash_iops = 8000.0 - r.flash_percent),
        ("FaCE table 4b", "4 times", |r| r.flash_iops *= if r.system == "lc" { 1.2 } else { 1.0 }),
        ("FaCE figure 4a", "face-gsc > face-gr", |r| r.tpmC = if r.system == "lc" { 9000.0 } else { r.tpmC }),
        ("FaCE figure 4a", "rises", |r| r.tpmC = 3000.0),
        ("FaCE §2.3", "about twice", |r| r.tpmC = if r.system == "flash-only" { 4000.0 } else { r.tpmC }),
        ("FaCE figure 4a", "about 3 times", |r| {
            r.tpmC = if r.system == "flash-only" { 1000.0 } else { r.tpmC }
        }),
        ("FaCE figure 4", "lowest", |r| r.tpmC = if r.system == "disk-only" { 1950.0 } else { r.tpmC }),
    ];
    for (source, claim, spoil) in spoilers {
        let mut results = the_papers();
        results.iter_mut().for_each(spoil);
        let verdict = verdict_on(&results, source, claim);
        assert_eq!(verdict.outcome, Outcome::DoesNotHold, "{verdict:?}");
        assert!(verdict.numbers.contains('✗'), "{verdict:?}");
    }
}

#[test]
fn slc_margin_is_judged_on_slc_alone() {
    let mut results = the_papers();
    results.iter_mut().for_each(|r| r.flash_device = "slc".into());
    assert_eq!(verdict_on(&results, "FaCE figure 4b", "SLC").outcome, Outcome::Holds);
    assert_eq!(verdict_on(&results, "FaCE figure 4a", "face-gsc > face-gr").outcome, Outcome::NotTested);
    for r in &mut results {
        r.tpmC = if r.system == "lc" { 4000.0 } else { r.tpmC };
    }
    assert_eq!(verdict_on(&results, "FaCE figure 4b", "SLC").outcome, Outcome::DoesNotHold);
}

#[test]
fn one_size_tests_no_trend_and_says_what_to_run() {
    let mut results = the_papers();
    results.retain(|r| r.flash_percent == 8.0 || r.flash_percent == 0.0);
    let trend = verdict_on(&results, "FaCE table 3a", "rises");
    assert_eq!(trend.outcome, Outcome::NotTested);
    assert!(trend.numbers.contains("--flash-percent 4,8,12,16,20"), "{trend:?}");
    let order = verdict_on(&results, "FaCE table 3a", "lc > face-gsc");
    assert_eq!(order.outcome, Outcome::Holds);
    assert_eq!(order.numbers, "at 8 %: 80.0 % / 76.6 % / 72.6 % / 72.6 %");
}

#[test]
fn no_results_hold_nothing() {
    assert!(verdicts(&[]).iter().all(|v| v.outcome == Outcome::NotTested));
}
