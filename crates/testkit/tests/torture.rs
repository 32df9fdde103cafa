//! A short torture with fixed seeds, and the runs that have found something before.
//!
//! `ENTRESOL_SEED=n` begins with another seed. `entresol torture` does the same for as long as one likes.

mod support;

use entresol_engine::Mode;
use entresol_testkit::torture::{FaultKind, Target, TortureOptions, torture};
use support::seed;

/// States of each policy.
const STATES: u64 = 1_500;

#[test]
fn nothing_is_lost_under_any_policy() {
    for target in Target::all().into_iter().filter(|target| target.mode() == Mode::WriteBack) {
        let options = TortureOptions { targets: vec![target], ..TortureOptions::new(seed(), STATES) };
        let report = torture(&options);
        println!("{report}");
        report.expect_sound();
        assert!(report.tally.states() >= STATES, "{report}");
        assert!(
            report.tally.states_by_fault.get(&FaultKind::Crash).is_some_and(|states| *states > 10),
            "{report}"
        );
        assert!(report.tally.faults_detected > 0, "{report}");
    }
}

/// What these runs found is in CHANGELOG.md under Safety.
#[test]
fn what_was_found_before_stays_mended() {
    let found = [("all", 1, 6), ("all", 1, 23), ("all", 2, 5), ("face-gsc/write-back", 9, 0)];
    for (system, seed, run) in found {
        let targets = Target::named(system);
        let options = TortureOptions { only: Some(run), targets, ..TortureOptions::new(seed, 1) };
        torture(&options).expect_sound();
    }
}
