//! What tests of the command share: running it, what it said, and a folder whose content they know.
#![allow(dead_code, reason = "each file of tests is a program of its own and uses some of this")]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs the command to its end.
pub fn entresol<A: AsRef<OsStr>>(arguments: &[A]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_entresol"))
        .args(arguments)
        .env_remove("RUST_BACKTRACE")
        .output()
        .expect("the command was built for this test")
}

/// What was printed.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is UTF-8")
}

/// Exit status 0; returns stdout and stderr.
pub fn done(arguments: &[&str]) -> (String, String) {
    let output = entresol(arguments);
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
    (shown, said)
}

/// Exit status 2, nothing on stdout, and one line on stderr with every one of `parts`.
pub fn refused(arguments: &[&str], parts: &[&str]) {
    let output = entresol(arguments);
    let sentence = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {sentence}");
    assert_eq!(text(&output.stdout), "", "{arguments:?}");
    assert_eq!(sentence.lines().count(), 1, "{arguments:?}: {sentence}");
    assert!(sentence.starts_with("entresol: "), "{arguments:?}: {sentence}");
    for part in parts {
        assert!(sentence.contains(part), "{arguments:?}: no {part:?} in {sentence}");
    }
}

/// A file's JSON.
pub fn json(path: impl AsRef<Path>) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(path).expect("written")).expect("JSON")
}

/// A trace in the plain format: references to pages below `pages`, some far more often than others.
pub fn plain_trace(references: usize, pages: u64) -> String {
    let mut state = 7u64;
    let mut below = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    (0..references).map(|_| format!("{}\n", below(pages) * below(pages) / pages)).collect()
}

/// A temporary folder.
pub struct Folder(tempfile::TempDir);

impl Folder {
    /// An empty one.
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    /// One with a [`plain_trace`] in it, called `trace`.
    pub fn with_trace(references: usize, pages: u64) -> Self {
        let folder = Self::new();
        folder.file("trace", plain_trace(references, pages));
        folder
    }

    /// The journal of the volume `data.toml` is in this folder, or there is none.
    pub fn keep_journal(&self, name: Option<&str>) {
        let path = self.path("data.toml");
        let text = std::fs::read_to_string(&path).expect("a volume was made");
        let journal = name.map_or(String::new(), |name| self.at(name));
        let line = |line: &str| match line.starts_with("journal = ") {
            true => format!("journal = {journal:?}\n"),
            false => format!("{line}\n"),
        };
        std::fs::write(&path, text.lines().map(line).collect::<String>()).expect("the folder is writable");
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        self.0.path()
    }

    /// The path of something in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// The same, as an argument.
    pub fn at(&self, name: &str) -> String {
        self.path(name).to_str().expect("a UTF-8 path").to_owned()
    }

    /// Writes a file in it; returns its path.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        std::fs::write(self.path(name), content).expect("a writable folder");
        self.at(name)
    }

    /// What is in it, sorted.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.root()).expect("a folder");
        let mut names: Vec<_> = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}
