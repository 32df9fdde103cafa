//! Destinations of results: stdout, and files that are written whole or not at all.

use crate::failure::Failure;
use anyhow::{Context, anyhow};
use entresol_lab::report::terminal::Widths;
use entresol_runtime::say;
use std::fs::{File, Permissions};
use std::io::{ErrorKind, IsTerminal, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Prints to stdout. A reader that has ended (a closed pipe) is no failure.
pub fn print(text: &str) -> Result<(), Failure> {
    print_to_reader(text).map(drop)
}

/// As [`print()`]. False: the reader has ended, and a command that does nothing but print may end.
pub fn print_to_reader(text: &str) -> Result<bool, Failure> {
    match say::print(text) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        other => Ok(other.map(|()| true).context("writing to stdout")?),
    }
}

/// Tells the owner something on stderr that is no failure.
pub fn notice(text: &str) {
    say::tell(&format!("entresol: notice: {text}"));
}

/// Whether stdout takes colour: a terminal, and `NO_COLOR` unset or empty.
pub fn colour() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Columns of stdout.
pub fn widths() -> Widths {
    match std::io::stdout().is_terminal() {
        true => Widths::of_terminal(textwrap::termwidth()),
        false => Widths::UNBOUND,
    }
}

/// A file to be written at the end.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    folder: PathBuf,
}

impl OutputFile {
    /// Makes sure, before any work, that `path` can be written: its folder exists and takes a new file, and
    /// nothing but a regular file would be replaced, and none of `inputs`: the files that the command reads.
    /// `option` is the option that named it.
    pub fn prepare(option: &str, path: &Path, inputs: &[PathBuf]) -> Result<Self, Failure> {
        let shown = path.display();
        let refuse = |why: &str| Failure::input(format!("{option} {shown}: {why}"));
        if path.file_name().is_none() {
            return Err(refuse("does not name a file; give a path such as result.json"));
        }
        // A link is followed, so that it stays one.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        match std::fs::metadata(&path) {
            Ok(found) if found.is_dir() => return Err(refuse("is a folder; give the path of a file")),
            Ok(found) if !found.is_file() => {
                return Err(refuse("is not a regular file; give the path of a file"));
            }
            _ => {}
        }
        if let Some(input) = inputs.iter().find(|input| is_same_file(&path, input)) {
            let input = input.display();
            return Err(refuse(&format!("is {input}, which this command reads; give another path")));
        }
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        if !folder.is_dir() {
            return Err(refuse(&format!("the folder {} does not exist; create it first", folder.display())));
        }
        temporary(&folder)
            .map_err(|error| refuse(&format!("cannot write to the folder {} ({error})", folder.display())))?;
        Ok(Self { path, folder })
    }

    /// Whether another output would be written over it.
    pub fn is(&self, other: &Self) -> bool {
        is_same_file(&self.path, &other.path)
    }

    /// Where it will be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the whole content and puts it in place in one step.
    pub fn write(&self, content: &[u8]) -> Result<(), Failure> {
        self.write_with(|file| Ok(file.write_all(content)?))
    }

    /// Lets `content` write, and puts the file in place in one step if it succeeds.
    pub fn write_with<T>(&self, content: impl FnOnce(&mut File) -> anyhow::Result<T>) -> Result<T, Failure> {
        let write = || -> anyhow::Result<T> {
            let mut file = temporary(&self.folder)?;
            let written = content(file.as_file_mut())?;
            file.as_file().sync_all()?;
            file.persist(&self.path).map_err(|error| anyhow!(error.error))?;
            Ok(written)
        };
        Ok(write().with_context(|| {
            let shown = self.path.display();
            format!("writing {shown} (nothing was left behind; check space and permissions)")
        })?)
    }
}

/// Whether two paths lead to one file, under whatever names; if they are not there yet: to one place.
fn is_same_file(one: &Path, other: &Path) -> bool {
    match (one.metadata(), other.metadata()) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        (Err(_), Err(_)) => {
            let folder = |path: &Path| std::path::absolute(path).ok()?.parent()?.canonicalize().ok();
            one.file_name() == other.file_name() && folder(one).is_some() && folder(one) == folder(other)
        }
        _ => false,
    }
}

/// A file next to the final one, removed when dropped, with the permissions of an ordinary new file.
fn temporary(folder: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    tempfile::Builder::new()
        .prefix(".entresol-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)
}
