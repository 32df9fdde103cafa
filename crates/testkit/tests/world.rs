//! The world itself: it notices what it is there to notice, and its copies are what a crash leaves.

use entresol_core::PolicyKind;
use entresol_testkit::{Bank, Campaign, Report, Subject, Tpcc, Workload};

const GSC: Subject = Subject::cached(PolicyKind::FaceGsc);

fn few(system: Subject) -> Campaign {
    Campaign { stride: 16, ..Campaign::new(system, 3, 16) }
}

/// A crash reached by living up to it leaves the very bytes, and the very knowledge, that the copy holds.
fn copies_are_what_crashes_leave<W: Workload<Oracle: PartialEq>>(campaign: &Campaign, workload: &W) {
    let copies = campaign.copies(workload).unwrap();
    assert!(copies.len() >= 6);
    for (at, media, oracle) in copies.into_iter().step_by(6) {
        let (left, known) = campaign.crash_at(workload, at).unwrap();
        assert!(left.bytes() == media.bytes(), "operation {at} of {}", campaign.system);
        assert!(known == oracle, "operation {at} of {}: other knowledge", campaign.system);
    }
}

#[test]
fn copies_of_the_bank_are_what_crashes_leave() {
    for system in Subject::all() {
        copies_are_what_crashes_leave(&few(system), &Bank::default());
    }
}

#[test]
fn copies_of_tpcc_are_what_crashes_leave() {
    copies_are_what_crashes_leave(&Campaign { stride: 101, ..few(GSC) }, &Tpcc::default());
}

fn with_liar(system: Subject, liar: &'static str) -> Report {
    Campaign { liar: Some(liar), ..few(system) }.run(&Bank::default())
}

#[test]
fn a_device_that_lies_about_syncs_is_found_out() {
    let systems = [("log", Subject::all()), ("flash", vec![GSC]), ("disk", Subject::all())];
    for (liar, systems) in systems {
        for system in systems {
            let report = with_liar(system, liar);
            assert!(!report.failures.is_empty(), "{system} gets away with a lying {liar}");
        }
    }
}

#[test]
fn torn_writes_are_found_where_nothing_repairs_them() {
    let bank = Bank { full_page_writes: false, ..Bank::default() };
    for system in [Subject::DISK_ONLY, Subject::cached(PolicyKind::Lc)] {
        let report = few(system).run(&bank);
        assert!(report.failures.iter().any(|failure| failure.message.contains("is damaged")), "{report}");
    }
}

#[test]
fn failures_come_in_order_and_replay_alone() {
    let report = with_liar(GSC, "flash");
    assert!(report.failures.is_sorted_by_key(|failure| failure.at));
    for failure in report.failures.iter().take(3) {
        let alone = Campaign { liar: Some("flash"), only: Some(failure.at), ..few(GSC) };
        assert_eq!(alone.run(&Bank::default()).failures, std::slice::from_ref(failure));
        assert!(failure.to_string().contains(&format!("--at {}", failure.at)));
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let run = |threads| Campaign { threads, ..few(GSC) }.run(&Bank::default());
    assert_eq!(run(1), run(3));
}
