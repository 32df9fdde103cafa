//! Versions of PostgreSQL: which ones the patches were tried on, and which one a command means.
//!
//! The patches of a major version are made to apply to every minor version of it. `SHA256SUMS` in their
//! folder has a line for each that was tried: the checksum of its source, and the name that Debian gives the
//! file.

use crate::paths;
use anyhow::{Context, Result, bail};
use std::fmt::{Display, Formatter};
use std::fs;
use std::io::Write;
use std::str::FromStr;

/// The major versions that there are patches for.
pub const MAJORS: [u32; 2] = [17, 18];

/// A minor version, as 18.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// 18 of 18.6.
    pub major: u32,
    /// 6 of 18.6.
    pub minor: u32,
}

impl Display for Version {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number =
            |text: &str| text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
        let parts = text.split_once('.').and_then(|(major, minor)| Some((number(major)?, number(minor)?)));
        match parts {
            Some((major, minor)) if MAJORS.contains(&major) => Ok(Version { major, minor }),
            Some(_) => Err(format!("there are patches for {} only", names(&MAJORS))),
            None => Err("a version looks like 18.6".to_owned()),
        }
    }
}

/// What a command is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The newest minor version of it that was tried and can be had.
    Major(u32),
    /// This one.
    Minor(Version),
}

impl Default for Wanted {
    fn default() -> Self {
        Wanted::Major(MAJORS[MAJORS.len() - 1])
    }
}

impl Display for Wanted {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Wanted::Major(major) => write!(out, "{major}"),
            Wanted::Minor(version) => write!(out, "{version}"),
        }
    }
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match MAJORS.iter().find(|major| major.to_string() == text) {
            Some(major) => Ok(Wanted::Major(*major)),
            None => text.parse().map(Wanted::Minor).map_err(|why| {
                format!("{why}; name a major version ({}), or a minor one, as 18.6", names(&MAJORS))
            }),
        }
    }
}

/// A source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Of PostgreSQL.
    pub version: Version,
    /// SHA-256, in hex.
    pub sha256: String,
}

impl Source {
    /// The name Debian gives the file.
    pub fn name(&self) -> String {
        format!("postgresql-{}_{}.orig.tar.bz2", self.version.major, self.version)
    }

    /// The line of `SHA256SUMS`.
    fn of_line(line: &str) -> Option<Self> {
        let (sha256, name) = line.split_once("  ")?;
        let version = name.split_once('_')?.1.strip_suffix(".orig.tar.bz2")?.parse().ok()?;
        let source = Source { version, sha256: sha256.to_owned() };
        (sha256.len() == 64 && source.name() == name).then_some(source)
    }

    /// Adds it to those that were tried, if it is not among them.
    ///
    /// # Errors
    ///
    /// `SHA256SUMS` cannot be read or written.
    pub(super) fn was_tried(&self) -> Result<()> {
        if tried(self.version.major)?.contains(self) {
            return Ok(());
        }
        let file = paths::patches(self.version.major).join("SHA256SUMS");
        let mut sums = fs::OpenOptions::new()
            .append(true)
            .open(&file)
            .with_context(|| format!("{} cannot be written", file.display()))?;
        writeln!(sums, "{}  {}", self.sha256, self.name())?;
        Ok(())
    }
}

/// The sources of a major version that were tried, the newest one first.
///
/// # Errors
///
/// `SHA256SUMS` is missing or has other lines than those of checksums and names.
pub fn tried(major: u32) -> Result<Vec<Source>> {
    let file = paths::patches(major).join("SHA256SUMS");
    let text = fs::read_to_string(&file).with_context(|| format!("{} cannot be read", file.display()))?;
    let sources: Option<Vec<_>> = text.lines().map(Source::of_line).collect();
    match sources {
        Some(mut sources) if !sources.is_empty() => {
            sources.sort_by_key(|source| std::cmp::Reverse(source.version));
            Ok(sources)
        }
        _ => bail!("{} has other lines than a checksum and a name", file.display()),
    }
}

/// The sources that are meant, the best one first.
///
/// # Errors
///
/// The version was not tried.
pub fn meant(wanted: Wanted) -> Result<Vec<Source>> {
    match wanted {
        Wanted::Major(major) => tried(major),
        Wanted::Minor(version) => {
            let tried = tried(version.major)?;
            let known = names(&tried.iter().map(|source| source.version).collect::<Vec<_>>());
            let found = tried.into_iter().find(|source| source.version == version);
            let found = found.with_context(|| {
                format!(
                    "PostgreSQL {version} was not tried with the patches ({known}); `cargo xtask postgres try \
                     {version} --source FILE` does that"
                )
            })?;
            Ok(vec![found])
        }
    }
}

/// "17", "17 and 18", "17.11, 17.12 and 18.6".
pub(super) fn names<T: Display>(all: &[T]) -> String {
    let all: Vec<_> = all.iter().map(T::to_string).collect();
    match all.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => "none".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_a_major_or_a_minor_one_that_has_patches() {
        let six = Version { major: 18, minor: 6 };
        assert_eq!("17".parse(), Ok(Wanted::Major(17)));
        assert_eq!("18.6".parse(), Ok(Wanted::Minor(six)));
        assert_eq!(Wanted::default(), Wanted::Major(18));
        assert_eq!(Wanted::Minor(six).to_string(), "18.6");
        for bad in ["16", "16.4", "18.", "18.6.1", "18.+6", "18.x", "", "latest"] {
            let said = bad.parse::<Wanted>().unwrap_err();
            assert!(said.contains("name a major version (17 and 18), or a minor one"), "{said}");
        }
    }

    #[test]
    fn a_line_names_its_version() {
        let sum = "dd27f2b3c59e73ed14aa3324901242bf69a032a6347805f274e6260322d42979";
        let source = Source::of_line(&format!("{sum}  postgresql-17_17.11.orig.tar.bz2")).unwrap();
        assert_eq!(source.version, Version { major: 17, minor: 11 });
        for bad in ["postgresql-18_17.11.orig.tar.bz2", "postgresql-17_17.11.tar.bz2", "a/b", ""] {
            assert_eq!(Source::of_line(&format!("{sum}  {bad}")), None, "{bad}");
        }
    }

    #[test]
    fn the_newest_version_that_was_tried_is_the_first() {
        for major in MAJORS {
            let tried = tried(major).unwrap();
            assert!(tried.is_sorted_by(|one, next| one.version > next.version), "{tried:?}");
            assert_eq!(meant(Wanted::Major(major)).unwrap(), tried);
            let last = tried.last().unwrap();
            assert_eq!(meant(Wanted::Minor(last.version)).unwrap(), std::slice::from_ref(last));
        }
        let said = meant("17.1".parse().unwrap()).unwrap_err().to_string();
        assert!(said.contains("17.1 was not tried") && said.contains("try 17.1 --source"), "{said}");
    }
}
