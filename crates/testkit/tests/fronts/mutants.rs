//! Named bugs of fronts and back: each is noticed by the kills, or by a directed test. A mutant is chosen
//! once for a process, so each has processes of its own: this test binary again.

use entresol_testkit::mutants::IN_THE_FRONTS;
use parking_lot::Mutex;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

const KILLS: &str = "no_durable_page_is_lost_whoever_is_killed";
const REFUSED: &str = "directed::who_has_other_options_or_another_flash_does_not_attach";
const OVERWRITTEN: &str = "directed::a_page_that_was_overwritten_in_shared_memory_is_not_written";

const FORGOTTEN: &str = "directed::the_back_forgets_on_for_a_front_that_is_killed";
const SEATS: &str = "directed::seats_of_dead_fronts_are_given_to_others";

/// The mutant, the test that notices it, and the point at which fronts are killed meanwhile; empty: any.
const NOTICED: [(&str, &str, &str); 15] = [
    ("frame-offered-before-filled", KILLS, "copy"),
    ("frame-not-announced", KILLS, "frame"),
    ("frame-let-go-too-early", KILLS, "filled"),
    ("unfilled-frame-not-found", KILLS, "frame"),
    ("dead-holder-not-found", KILLS, "latch"),
    ("dead-holder-of-a-group-not-found", KILLS, "copy"),
    ("waiters-not-told", KILLS, "latch"),
    ("seat-of-a-dead-front-kept", SEATS, ""),
    ("write-around-not-announced", KILLS, "around"),
    ("forgotten-before-its-write-is-durable", KILLS, "around"),
    ("older-fronts-go-on", KILLS, ""),
    ("forgetting-not-gone-on-with", FORGOTTEN, ""),
    ("shared-frame-not-proved", OVERWRITTEN, ""),
    ("options-not-compared", REFUSED, ""),
    ("flash-of-another-cache-attached", REFUSED, ""),
];

/// Kills at most: most mutants are noticed within a few.
const KILLS_MAX: &str = "400";
/// Runs at most. What processes do at once is chance, and on a busy machine a run may pass by a mutant.
const RUNS_MAX: usize = 5;

fn is_noticed(mutant: &str, test: &str, point: &str) -> bool {
    let this = std::env::current_exe().expect("the test binary");
    let mut run = Command::new(this);
    // An output that is captured is lost when a stalled run ends itself.
    run.args(["--exact", test, "--nocapture"])
        .env("ENTRESOL_FRONTS_MUTANT", mutant)
        .env("ENTRESOL_FRONT_KILLS", KILLS_MAX);
    if !point.is_empty() {
        run.env("ENTRESOL_FRONT_POINT", point);
    }
    let run = run.stdin(Stdio::null()).output().expect("the test binary runs");
    let text = [run.stdout, run.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    let is_told = |line: &&str| !line.trim().is_empty() && !line.contains("running 1 test");
    let told = ["panicked at", "no process has", "the test has not", "by itself"];
    let is_it = |line: &&str| told.iter().any(|part| line.contains(part));
    let why = text.lines().skip_while(|line| !is_it(line)).filter(is_told).take(2);
    println!("{mutant}: {}", why.collect::<Vec<_>>().join(" "));
    !run.status.success()
}

#[test]
fn each_mutant_of_the_fronts_is_noticed() {
    let mut listed: Vec<_> = NOTICED.map(|(name, _, _)| name).to_vec();
    listed.sort_unstable();
    assert_eq!(listed, IN_THE_FRONTS, "the catalogue lists the same");
    let (next, missed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    // Those that are noticed by nothing going on any more wait most of the time.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some((name, test, point)) = NOTICED.get(next.fetch_add(1, SeqCst)) {
                    if !(0..RUNS_MAX).any(|_| is_noticed(name, test, point)) {
                        missed.lock().push(*name);
                    }
                }
            });
        }
    });
    assert!(missed.lock().is_empty(), "not noticed: {:?}", missed.lock());
}
