//! A short torture with fixed seeds in every mode, and the runs that have found something before.
//!
//! `ENTRESOL_SEED=n` begins with another seed. `entresol torture` does the same for as long as one likes.

mod support;

use entresol_core::PolicyKind;
use entresol_engine::Mode;
use entresol_testkit::torture::{Effort, FaultKind, Target, TortureOptions, torture};
use support::seed;

/// States of each policy in write-back mode.
const STATES: u64 = 1_000;
/// States of each policy in each other mode, at fewer moments of more lives.
const QUICK_STATES: u64 = 250;

fn survive(target: Target, effort: Effort, states: u64) {
    let options = TortureOptions { targets: vec![target], effort, ..TortureOptions::new(seed(), states) };
    let report = torture(&options, &|_| ());
    println!("{report}");
    report.expect_sound();
    assert!(report.tally.states() >= states, "{report}");
    let crashes = report.tally.states_by_fault.get(&FaultKind::Crash);
    assert!(crashes.is_some_and(|states| *states > 10), "{report}");
    assert!(report.tally.faults_detected > 0, "{report}");
}

fn targets(mode: Mode) -> Vec<Target> {
    Target::all().into_iter().filter(|target| target.mode() == mode).collect()
}

#[test]
fn nothing_is_lost_under_any_policy() {
    let targets = targets(Mode::WriteBack);
    assert!(targets.contains(&Target::new(PolicyKind::FaceGsc, Mode::WriteBack)));
    targets.into_iter().for_each(|target| survive(target, Effort::THOROUGH, STATES));
}

#[test]
fn nothing_is_lost_in_write_through_mode() {
    targets(Mode::WriteThrough).into_iter().for_each(|target| survive(target, Effort::QUICK, QUICK_STATES));
}

/// Nothing on its flash is needed; so much the more may go wrong while it is in use.
#[test]
fn nothing_is_lost_under_sce() {
    survive(Target::FRAGMENTS, Effort::THOROUGH, STATES);
    survive(Target::FRAGMENTS, Effort::DAMAGE, QUICK_STATES);
}

#[test]
fn nothing_is_lost_in_write_around_and_read_only_mode() {
    for mode in [Mode::WriteAround, Mode::ReadOnly] {
        let targets = targets(mode);
        assert!(!targets.is_empty(), "some policies run in mode {}", mode.name());
        targets.into_iter().for_each(|target| survive(target, Effort::QUICK, QUICK_STATES));
    }
}

/// What these runs found is in CHANGELOG.md under Safety.
#[test]
fn what_was_found_before_stays_mended() {
    let found = [
        ("exadata/write-through", 1, 6),
        ("flashcache/write-through", 1, 23),
        ("face/write-through", 2, 5),
        ("face-gsc/write-back", 9, 0),
        ("tac/write-around", 900, 5286),
        ("fifo/write-back", 900, 7273),
        // A lost write-through, and what a failing sync has lost.
        ("sce", 1, 0),
        ("sce", 1, 2149),
        ("tac", 900, 1317),
        ("face-gsc/write-back", 1, 576),
        // A bit of the newest group on flash flipped while the machine was off: it passed for torn.
        ("all", 9001, 608),
        ("all", 9001, 736),
        // The flash of a cache that had switched itself off came back.
        ("all", 9001, 3691),
        // An invalidation that failed and was asked for again; one that the device had lost.
        ("all", 1, 1372),
        ("all", 1, 22039),
        ("all", 1, 17984),
        // A slot written again with a count that it had once had under an earlier open.
        ("all", 1, 38656),
        // Damage in what write-through copies to disk first.
        ("all", 1, 33058),
        ("all", 1, 257433),
        ("all", 1, 261469),
        // The oldest superblock alone, and a group torn whose slots only a newer one said to be free.
        ("all", 1, 272576),
        // A page driven out of one slot while it was written to another one: only the first was invalidated.
        ("all", 2, 8267),
        // A group that went elsewhere passed for pages that had never been in another one.
        ("all", 7, 65664),
        // A second chance that was durable before its predecessors, and damaged.
        ("all", 2, 101728),
        // The log's sync for a checkpoint failed and lost a commit, whose own sync then succeeded.
        ("all", 2, 59296),
        ("all", 7, 43936),
        // A store made where the checkpoint of one that had been dropped was still under way.
        ("all", 7, 33248),
        ("all", 7, 90592),
        // Checkpoints that gave nothing back filled the log, and a restart could not roll back.
        ("all", 1, 199648),
        // Groups that a killed program had not synced were called durable.
        ("all", 17, 51872),
        // The label that a killed program had not synced was counted on from.
        ("all", 31, 9216),
        // A page that was complete only after the background tasks had looked waited for its slot for ever.
        ("all", 1, 150240),
        // A fault of the oracle: what a restart reads from a disk that is ahead of flash is no promise.
        ("all", 1, 151990),
        // A write that went to another slot left an older version there, with the byte that counts the slot's
        // writes.
        ("all", 1, 10432),
        ("all", 1, 31872),
    ];
    for (system, seed, run) in found {
        let targets = Target::named(system);
        let options = TortureOptions { only: Some(run), targets, ..TortureOptions::new(seed, 1) };
        torture(&options, &|_| ()).expect_sound();
    }
}
