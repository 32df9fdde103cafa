//! The style of the repository as far as a program can check it: widths, lengths, paths, commit subjects.
//!
//! rustfmt checks the width of code and clippy the length of functions (`clippy.toml`); what neither of them
//! does is here. Each exception is listed by name. An exception that is not needed any more fails its test,
//! too.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Columns of a comment, as in `rustfmt.toml`.
const COLUMNS_MAX: usize = 110;
/// Lines of a source file.
const LINES_MAX: usize = 500;
/// Source files that may be longer.
const LONG_FILES: &[&str] = &[
    "crates/engine/tests/damage.rs",
    "crates/runtime/src/sim/world.rs",
    "crates/testkit/src/torture/judge.rs",
    "crates/testkit/src/torture/trial.rs",
    "crates/testkit/tests/shared_region.rs",
];

/// Characters of a commit's subject.
const SUBJECT_MAX: usize = 72;
/// The last commit before subjects were checked.
const SUBJECTS_AFTER: &str = "06a7724";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two folders above this crate")
}

/// All files below `folder`, without build outputs and git's own.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.file_name().and_then(|name| name.to_str()) {
            Some(".git" | "target") => {}
            _ if path.is_dir() => files(&path, found),
            _ => found.push(path),
        }
    }
}

/// Text files by their path in the repository, sorted.
fn texts() -> Vec<(String, String)> {
    let mut found = Vec::new();
    files(root(), &mut found);
    found.sort();
    let name = |path: &Path| path.strip_prefix(root()).expect("below it").to_str().expect("UTF-8").to_owned();
    found.iter().filter_map(|path| Some((name(path), fs::read_to_string(path).ok()?))).collect()
}

fn sources() -> Vec<(String, String)> {
    let all: Vec<_> = texts().into_iter().filter(|(name, _)| name.ends_with(".rs")).collect();
    assert!(all.len() > 100, "the sources were found");
    all
}

/// What a comment line says; nothing for other lines.
fn comment(line: &str) -> Option<&str> {
    let said = line.trim_start().strip_prefix("//")?;
    Some(said.trim_start_matches(['/', '!']).trim())
}

/// The numbers of the lines of `text` that are comments wider than allowed. Tables, and blocks between
/// fences, keep their shape.
fn wide_comments(text: &str) -> Vec<usize> {
    let mut wide = Vec::new();
    let mut fenced = false;
    for (line, number) in text.lines().zip(1..) {
        let Some(said) = comment(line) else {
            fenced = false;
            continue;
        };
        fenced ^= said.starts_with("```");
        if line.chars().count() > COLUMNS_MAX && !fenced && !said.starts_with('|') {
            wide.push(number);
        }
    }
    wide
}

#[test]
fn comments_are_no_wider_than_code() {
    let mut wide = Vec::new();
    for (name, text) in sources() {
        wide.extend(wide_comments(&text).into_iter().map(|line| format!("{name}:{line}")));
    }
    assert!(wide.is_empty(), "comments wider than {COLUMNS_MAX} columns:\n{}", wide.join("\n"));
}

#[test]
fn files_have_a_bounded_length() {
    let long: Vec<_> = sources()
        .into_iter()
        .filter(|(_, text)| text.lines().count() > LINES_MAX)
        .map(|(name, _)| name)
        .collect();
    assert_eq!(long, LONG_FILES, "the files with more than {LINES_MAX} lines are those listed here");
}

#[test]
fn no_file_names_a_place_on_one_machine() {
    // In pieces, so that this file does not name them.
    let places =
        [concat!("/wo", "rk/"), concat!("/tmp/", "out"), concat!("/ho", "me/"), concat!("/ro", "ot/")];
    let mut found = Vec::new();
    for (name, text) in texts() {
        let lines = text.lines().enumerate();
        let named = lines.filter(|(_, line)| places.iter().any(|place| line.contains(place)));
        found.extend(named.map(|(at, line)| format!("{name}:{}: {line}", at + 1)));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn no_file_has_the_marks_of_a_merge() {
    // In pieces, so that this file has none.
    let marks = [concat!("<<<<", "<<< "), concat!(">>>>", ">>> ")];
    let mut found = Vec::new();
    for (name, text) in texts() {
        let marked = text.lines().enumerate().filter(|(_, line)| marks.iter().any(|m| line.starts_with(m)));
        found.extend(marked.map(|(at, line)| format!("{name}:{}: {line}", at + 1)));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn commit_subjects_fit() {
    let range = format!("{SUBJECTS_AFTER}..HEAD");
    let git = Command::new("git")
        .args(["log", "--no-merges", "--format=%h %s", &range])
        .current_dir(root())
        .output();
    let log = match git {
        Ok(output) if output.status.success() => String::from_utf8(output.stdout).expect("UTF-8"),
        Ok(output) => {
            println!("skipped: git log {range}: {}", String::from_utf8_lossy(&output.stderr));
            return;
        }
        Err(error) => {
            println!("skipped: git cannot be run: {error}");
            return;
        }
    };
    for line in log.lines() {
        let (_, subject) = line.split_once(' ').unwrap_or_default();
        let characters = subject.chars().count();
        assert!(
            characters <= SUBJECT_MAX,
            "{line}: {characters} characters, at most {SUBJECT_MAX} are allowed"
        );
    }
}

/// The numbers of the lines of `text`, but for its tests at the end, that print without a thought for the
/// reader.
fn bare_prints(text: &str) -> Vec<usize> {
    let product = text.split("#[cfg(test)]\nmod ").next().expect("a piece");
    let macros = ["println!(", "print!(", "dbg!("];
    let lines = product.lines().zip(1..).filter(|(line, _)| comment(line).is_none());
    lines
        .filter(|(line, _)| macros.iter().any(|name| line.contains(name)))
        .map(|(_, number)| number)
        .collect()
}

/// They panic when the terminal is gone, the reader of the pipe has ended, or the file system is full.
#[test]
fn nothing_in_the_product_prints_but_through_one_module() {
    let mut found = Vec::new();
    for (name, text) in sources() {
        let is_product =
            name.starts_with("crates/") && name.contains("/src/") && !name.starts_with("crates/xtask/");
        if is_product && !name.ends_with("/tests.rs") {
            found.extend(bare_prints(&text).into_iter().map(|line| format!("{name}:{line}")));
        }
    }
    assert!(
        found.is_empty(),
        "use entresol_runtime::say, or output::print of the command:\n{}",
        found.join("\n")
    );
}

#[test]
fn a_wide_comment_is_recognised() {
    let wide = "x".repeat(COLUMNS_MAX);
    assert_eq!(
        wide_comments(&format!("// {wide}\n// |{wide}\n// ```\n// {wide}\n// ```\n{wide}\n/// {wide}")),
        [1, 7]
    );
}

#[test]
fn a_bare_print_is_recognised() {
    let text =
        "println!(1);\n// println!(2);\n  eprint!(3);\nprint(4);\n#[cfg(test)]\nmod tests {\nprintln!(5);";
    assert_eq!(bare_prints(text), [1, 3]);
}
