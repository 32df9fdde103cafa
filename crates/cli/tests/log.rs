//! `ENTRESOL_LOG`: what the engine tells on stderr.

mod support;

use std::process::Command;
use support::{Folder, text};

fn detach(level: &str, flash: &str, disk: &str) -> (Option<i32>, String) {
    let program = env!("CARGO_BIN_EXE_entresol");
    let output = Command::new(program)
        .args(["detach", flash, disk])
        .env("ENTRESOL_LOG", level)
        .output()
        .expect("the command runs");
    (output.status.code(), text(&output.stderr))
}

#[test]
fn a_level_that_is_none_is_refused_with_those_there_are() {
    let folder = Folder::new();
    let (status, told) = detach("loud", &folder.at("flash"), &folder.at("disk"));
    assert_eq!(status, Some(2));
    assert!(told.contains("ENTRESOL_LOG") && told.contains("error, warn, info or off"), "{told}");
}
