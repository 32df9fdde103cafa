//! What cannot be done is refused with exit status 2 and one sentence, before anything is built or changed.

use std::fs;
use std::process::{Command, Output};
use tempfile::TempDir;

fn xtask(arguments: &[&str]) -> Output {
    let target = TempDir::new().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_entresol-xtask"));
    let output = command.args(arguments).env("CARGO_TARGET_DIR", target.path()).output().expect("it runs");
    let built = fs::read_dir(target.path()).expect("the folder").count();
    assert_eq!(built, 0, "{arguments:?} has made something");
    output
}

fn refused(arguments: &[&str]) -> String {
    let output = xtask(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    String::from_utf8(output.stderr).expect("UTF-8")
}

#[test]
fn bad_input_is_refused() {
    let folder = TempDir::new().expect("a folder");
    let full = folder.path().join("full");
    fs::create_dir(&full).expect("a folder");
    fs::write(full.join("file"), "x").expect("a file");
    let full = full.to_str().expect("UTF-8");

    let said = refused(&["postgres", "build", "--source", "absent.tar.bz2"]);
    assert!(said.contains("absent.tar.bz2 is no file; bring"), "{said}");
    let said = refused(&["postgres", "build", "--version", "16"]);
    assert!(said.contains("name a major version (17 and 18), or a minor one"), "{said}");
    let said = refused(&["postgres", "build", "--version", "17.1"]);
    assert!(said.contains("17.1 was not tried") && said.contains("try 17.1 --source FILE"), "{said}");
    let said = refused(&["postgres", "try", "18.1", "--user", "nobody", "--source", "absent.tar.bz2"]);
    assert!(said.contains("absent.tar.bz2 is no file"), "{said}");
    let said = refused(&["postgres", "run", full, "--user", "nobody"]);
    assert!(said.contains("is not empty and no PostgreSQL cluster; nothing was changed"), "{said}");
    let said = refused(&["postgres", "run", full, "--user", "a user that does not exist"]);
    assert!(said.contains("there is no user"), "{said}");
    let new = folder.path().join("new");
    let new = new.to_str().expect("UTF-8");
    let run = |more: &[&str]| refused(&[&["postgres", "run", new, "--user", "nobody"], more].concat());
    let said = run(&["--flash", folder.path().to_str().expect("UTF-8")]);
    assert!(said.contains("is a folder; name a file or a block device"), "{said}");
    let absent = format!("{new}-flash");
    let said = run(&["--flash", &absent]);
    assert!(said.contains("does not exist; give its size with --gib"), "{said}");
    let said = run(&["--gib", "1"]);
    assert!(said.contains("--flash"), "{said}");
    let said = run(&["--flash", &absent, "--gib", "0"]);
    assert!(said.contains("0 is not in 1..="), "{said}");
    let said = run(&["--flash", &format!("{new}'s"), "--gib", "1"]);
    assert!(said.contains("has a character"), "{said}");
    assert!(!folder.path().join("new").exists());
    let said = refused(&["postgres", "test", "--only", "everything"]);
    assert!(said.contains("possible values"), "{said}");
    refused(&["postgres", "bench", "throttled", "--set", "no value"]);
    refused(&["postgres", "bench", "throttled", "--load", "tpch"]);
    let said = refused(&["package", "--program", "absent"]);
    assert!(said.contains("absent") && said.contains("no file"), "{said}");
    refused(&["package", "--revision", "0"]);
    refused(&["postgres", "bench"]);
    refused(&["postgres", "run"]);
    refused(&["postgres"]);
    refused(&[]);
}

#[test]
fn help_is_an_answer() {
    let output = xtask(&["postgres", "test", "--help"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stdout).contains("--only"));
}
