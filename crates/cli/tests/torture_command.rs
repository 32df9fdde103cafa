//! `entresol torture`, which is only in builds with the feature `torture`.

mod support;

use support::{Folder, done, json, refused};

#[test]
fn bad_arguments_are_refused_with_what_is_allowed() {
    refused(&["torture", "--system", "sce/write-back"], &["--system", "sce/write-through"]);
    refused(&["torture", "--states", "0"], &["--states", "1 to"]);
    refused(&["torture", "--seconds", "-1"], &["--seconds", "more than 0"]);
    refused(&["torture", "--violations", "1001"], &["--violations", "1 to 1000"]);
    refused(&["torture", "--threads", "0"], &["--threads", "1 to 1024"]);
}

#[test]
fn the_report_counts_states_and_code_points() {
    let folder = Folder::new();
    let file = folder.at("torture.json");
    let (shown, _) = done(&["torture", "--states", "2000", "--system", "face-gsc", "--json", &file]);
    assert!(shown.contains("code points reached: "), "{shown}");
    let report = json(&file);
    assert!(report["states"].as_u64() >= Some(2000), "{report}");
    assert_eq!(report["violations"], 0, "{report}");
    let reached = report["points"].as_object().expect("an object").values();
    assert!(reached.filter(|count| count.as_u64() > Some(0)).count() > 5, "{report}");
}
