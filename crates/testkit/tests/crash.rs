//! A crash at every operation of a short run of several clients, with torn writes and lost unsynced ones;
//! restarts, and crashes of restarts: no acknowledged commit is lost, nothing uncommitted is visible, trees
//! and flash are sound.
//!
//! `ENTRESOL_CRASH=full` looks at every operation on every system (the default does so on FaCE with GSC, and
//! at some on the others); `ENTRESOL_SEED=n` begins with another seed. A failure prints the command that
//! replays it.

mod support;

use entresol_core::{Lists, PolicyKind, Survives};
use entresol_testkit::birth::Birth;
use entresol_testkit::{Bank, Campaign, Report, Subject};
use support::{seed, stride};

const TRANSACTIONS: u64 = 32;

fn crash(system: Subject, bank: &Bank, usual_stride: u64) -> Report {
    let campaign = Campaign { stride: stride(usual_stride), ..Campaign::new(system, seed(), TRANSACTIONS) };
    let report = campaign.run(bank);
    report.expect_sound();
    println!("{}", report);
    assert!(report.operations > 1000, "{report}");
    assert!(report.crashes > report.operations / campaign.stride / 2, "{report}");
    assert!(report.crashes_in_restart > report.crashes / 10, "{report}");
    assert!(report.losers > report.crashes / 10, "no transactions to roll back: {report}");
    assert!(report.disk_writes > 200 && report.checkpoints >= 3, "{report}");
    report
}

fn crash_cached(policy: PolicyKind, bank: &Bank, usual_stride: u64) -> Report {
    let report = crash(Subject::cached(policy), bank, usual_stride);
    assert!(report.flash_hits > 50, "{report}");
    assert!(report.warm > report.restarts / 10, "restarts find nothing on flash: {report}");
    assert_eq!(
        report.second_chances > 0,
        policy.facts().log().is_some_and(|log| log.second_chances.is_some()),
        "{report}"
    );
    report
}

#[test]
fn face_gsc_survives_a_crash_at_every_operation() {
    crash_cached(PolicyKind::FaceGsc, &Bank::default(), 1);
}

#[test]
fn face_gr_survives_crashes() {
    crash_cached(PolicyKind::FaceGr, &Bank::default(), 5);
}

#[test]
fn face_survives_crashes() {
    crash_cached(PolicyKind::Face, &Bank::default(), 5);
}

#[test]
fn lazy_cleaning_survives_crashes() {
    crash_cached(PolicyKind::Lc, &Bank::default(), 5);
}

#[test]
fn tac_survives_crashes() {
    crash_cached(PolicyKind::Tac, &Bank::default(), 11);
}

#[test]
fn exadata_survives_crashes() {
    crash_slots(PolicyKind::Exadata);
}

/// 1. A store works and is shut down quickly: dirty pages stay on flash.
/// 2. It is opened, works, and crashes at any operation, from the open to the end of another quick shutdown.
/// 3. It is opened again.
#[test]
fn a_warm_start_with_dirty_pages_survives_crashes() {
    for policy in [PolicyKind::Loc, PolicyKind::Glb] {
        let mut dirty = 0;
        for nth in 0..4 {
            // Of odd seeds, which end quickly, too.
            let usual = Campaign::new(Subject::cached(policy), (seed() | 1) + 2 * nth, TRANSACTIONS);
            let campaign = Campaign { stride: stride(11), materialised: true, ..usual };
            let report = campaign.run(&Bank::default());
            report.expect_sound();
            println!("{}: {} dirty pages at first; {report}", policy.name(), report.materialised);
            assert!(report.crashes > report.operations / campaign.stride / 2, "{report}");
            dirty += report.materialised;
        }
        assert!(dirty >= 10, "{}: {dirty} dirty pages at first", policy.name());
    }
}

#[test]
fn loc_survives_crashes() {
    crash_slots(PolicyKind::Loc);
}

#[test]
fn glb_survives_crashes() {
    crash_slots(PolicyKind::Glb);
}

#[test]
fn flashcache_survives_crashes() {
    crash_slots(PolicyKind::Flashcache);
}

#[test]
fn policies_for_comparison_survive_crashes() {
    // LRU, FIFO, CLOCK, and what may be added: one list, and nothing survives.
    let is_one = |policy: &PolicyKind| {
        let facts = policy.facts().slots().filter(|facts| facts.lists == Lists::Fixed(1));
        facts.is_some_and(|facts| facts.survives == Survives::Never && !facts.clean_only)
    };
    PolicyKind::ALL.into_iter().filter(is_one).for_each(crash_slots);
}

/// A cache that restarts empty.
fn crash_slots(policy: PolicyKind) {
    let report = crash(Subject::cached(policy), &Bank::default(), 11);
    assert!(report.flash_hits > 50, "{report}");
}

#[test]
fn reuse_survives_crashes() {
    crash_cached(PolicyKind::Reuse, &Bank::default(), 5);
    crash(Subject::write_through(PolicyKind::Reuse), &Bank::default(), 11);
    [PolicyKind::ReuseSlots, PolicyKind::S3Fifo].into_iter().for_each(crash_slots);
}

#[test]
fn write_through_survives_crashes() {
    crash(Subject::write_through(PolicyKind::FaceGsc), &Bank::default(), 5);
}

#[test]
fn sce_survives_crashes() {
    let report = crash(Subject::FRAGMENTS, &Bank::default(), 11);
    assert!(report.flash_hits > 50, "{report}");
}

#[test]
fn the_disk_alone_survives_crashes() {
    crash(Subject::DISK_ONLY, &Bank::default(), 5);
}

#[test]
fn a_store_is_made_completely_or_not_at_all() {
    let bank = Bank { accounts: 200, ..Bank::default() };
    for system in Subject::all() {
        let birth = Birth::new(&bank, system, seed()).unwrap();
        let (mut nothing, mut some) = (0, 0);
        for at in (1..=birth.operations()).step_by(stride(3) as usize) {
            match birth.crash_at(at).unwrap_or_else(|why| panic!("{system}, operation {at}: {why}")) {
                Some(rows) if rows > 0 => some += 1,
                _ => nothing += 1,
            }
        }
        assert!(nothing > 3 && some > 3, "{system}: {nothing} without rows, {some} with rows");
    }
}

/// A page that FaCE destages stays on flash until the disk has it: torn writes to disk need no images in the
/// log.
#[test]
fn the_face_family_needs_no_page_images() {
    let bank = Bank { full_page_writes: false, ..Bank::default() };
    for policy in [PolicyKind::Face, PolicyKind::FaceGr, PolicyKind::FaceGsc] {
        crash_cached(policy, &bank, 6);
    }
}
