//! Steps that take long: a line of progress, a log, and a sentence when one fails.

use crate::progress::Progress;
use anyhow::{Context, Result, bail};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A step that took less had nothing to do.
const WORTH_SAYING: Duration = Duration::from_secs(1);

/// Lines of the log that the sentence about a failure shows.
const LINES_SHOWN: usize = 3;

/// Runs programs one after another, with all that they print in one file.
pub struct Steps {
    log: PathBuf,
}

impl Steps {
    /// Steps with a new log.
    ///
    /// # Errors
    ///
    /// The file cannot be made.
    pub fn new(log: &Path) -> Result<Self> {
        if let Some(folder) = log.parent() {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("{} cannot be made", folder.display()))?;
        }
        File::create(log).with_context(|| format!("{} cannot be written", log.display()))?;
        Ok(Steps { log: log.to_owned() })
    }

    /// The log.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Runs `command` to its end. `what` says what it does, as in "compiling".
    ///
    /// # Errors
    ///
    /// The program cannot be run, or it fails: the error has the last lines of what it printed.
    pub fn run(&self, what: &str, command: &mut Command) -> Result<()> {
        self.watch(what, command, |_| None)
    }

    /// Runs `command`; `shows` may take something from each line for the line of progress.
    ///
    /// # Errors
    ///
    /// As [`Steps::run`].
    pub fn watch(
        &self,
        what: &str,
        command: &mut Command,
        mut shows: impl FnMut(&str) -> Option<String>,
    ) -> Result<()> {
        let began = Instant::now();
        let mut log = OpenOptions::new().append(true).open(&self.log)?;
        writeln!(log, "== {what}: {command:?}")?;
        // Both of its streams in order, in one pipe.
        let (read, write) = std::io::pipe()?;
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(write.try_clone()?)
            .stderr(write)
            .spawn()
            .with_context(|| format!("{what}: {name} cannot be run"))?;
        // The command holds the pipe's ends, and would keep it open.
        command.stdout(Stdio::null()).stderr(Stdio::null());

        let progress = Progress::new(what);
        let mut last = Vec::new();
        for line in BufReader::new(read).split(b'\n') {
            let line = String::from_utf8_lossy(&line?).into_owned();
            writeln!(log, "{line}")?;
            if let Some(shown) = shows(&line) {
                progress.show(shown);
            }
            if !line.trim().is_empty() {
                last.push(line);
                last.drain(..last.len().saturating_sub(LINES_SHOWN));
            }
        }
        let status = child.wait()?;
        drop(progress);
        if !status.success() {
            let said: Vec<_> = last.iter().map(|line| line.trim()).collect();
            bail!(
                "{what}: {name} failed ({status}): {}; all of it is in {}",
                said.join("; "),
                self.log.display()
            );
        }
        if began.elapsed() >= WORTH_SAYING {
            eprintln!("{what}: {:.1} s", began.elapsed().as_secs_f64());
        }
        Ok(())
    }
}
