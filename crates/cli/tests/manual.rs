//! Manual pages and completions, which packages install.

mod support;

use std::process::Command;
use support::{Folder, done, refused};

/// The commands of a help text's list.
fn listed(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    // Lines that are indented more continue the one before.
    let named = lines.take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
    named.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
fn each_command_has_a_page() {
    let folder = Folder::new();
    done(&["manual", &folder.at("")]);
    let commands = listed(&done(&["--help"]).0);
    assert!(commands.len() > 10, "{commands:?}");
    for command in commands.iter().filter(|command| *command != "help") {
        let page = std::fs::read_to_string(folder.path(&format!("entresol-{command}.1"))).expect(command);
        assert!(page.contains(".SH SYNOPSIS"), "{page}");
    }
    let page =
        std::fs::read_to_string(folder.path("entresol-volume-create.1")).expect("of a command's command");
    assert!(page.contains("mounted or in use"), "{page}");
    assert!(!folder.path("entresol-worker.1").exists(), "hidden commands have none");
    refused(&["manual", &folder.at("nowhere")], &["is no folder"]);
}

/// bash completes by the script as it is printed.
#[test]
fn completions_are_those_of_the_command() {
    let folder = Folder::new();
    folder.file("script", done(&["completions", "bash"]).0);
    let script = "source ./script; COMP_WORDS=(entresol volume re); COMP_CWORD=2; \
                  _entresol entresol re volume; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let output =
        Command::new("bash").args(["-c", script]).current_dir(folder.root()).output().expect("there is bash");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said.split_whitespace().collect::<Vec<_>>(), ["resize", "replace-flash"], "{output:?}");
    for shell in ["zsh", "fish"] {
        assert!(done(&["completions", shell]).0.contains("replace-flash"), "{shell}");
    }
    refused(&["completions", "tcsh"], &["tcsh", "bash"]);
}
