//! Each named bug in forgetting and flushing is noticed by the random runs. A mutant is chosen once for a
//! process, so each has a process of its own: this test binary again.
#![cfg(feature = "mutants")]

mod harness;

use entresol_core::PolicyKind;
use harness::world::Mode;
use std::process::Command;

const MUTANT: &str = "ENTRESOL_CORE_MUTANT";

const NOTICED: [&str; 22] = [
    "held-page-leaves",
    "bypass-before-forgetting-is-durable",
    "bypass-despite-older-copy",
    "ghost-taken-for-a-page",
    "released-before-dead-is-durable",
    "forget-leaves-older-staged-copy",
    "record-below-is-the-rear-now",
    "record-before-its-copies",
    "dequeued-page-not-recorded",
    "slots-forgotten-before-frames",
    "slots-walked-before-frames",
    "second-chance-outruns-record",
    "second-chances-out-of-turn",
    "group-not-held-back",
    "flush-counts-writing-pages",
    "flush-takes-held-back-position",
    "flushed-page-not-named-again",
    "cleaned-beside-its-cleaning",
    "cleaned-beside-its-dequeue",
    "dequeue-beside-cleanings",
    "forget-ignores-cleanings",
    "overtaken-page-cleaned",
];

/// The runs, with the mutant that the environment names. Without one it does nothing.
#[test]
fn runs_with_a_mutant() {
    let Ok(mutant) = std::env::var(MUTANT) else { return };
    assert!(mutant.is_empty() || entresol_core::mutant::choose(&mutant), "one mutant");
    for seed in 0..if mutant.is_empty() { 4 } else { 100 } {
        for policy in harness::crash::survivors().chain([PolicyKind::Lc]) {
            harness::run_with_forgets_and_flushes(policy, Mode::Back, seed);
        }
        harness::run_that_keeps_out(seed, 4000);
        harness::run_that_stays(seed, 4000);
        harness::run_that_holds(PolicyKind::FaceGsc, seed);
    }
}

fn is_noticed(mutant: &str) -> bool {
    let this = std::env::current_exe().expect("the test binary");
    let run = Command::new(this).args(["--exact", "runs_with_a_mutant"]).env(MUTANT, mutant).output();
    let run = run.expect("the test binary runs");
    let text = String::from_utf8_lossy(&run.stdout);
    let panic = text.lines().skip_while(|line| !line.contains("panicked at"));
    println!("{mutant}: {}", panic.take(2).collect::<Vec<_>>().join(" "));
    !run.status.success()
}

#[test]
fn mutants_of_forgetting_and_flushing_are_noticed() {
    assert!(!is_noticed(""), "the runs fail without a mutant");
    for mutant in NOTICED {
        assert!(is_noticed(mutant), "{mutant} was not noticed");
    }
}
