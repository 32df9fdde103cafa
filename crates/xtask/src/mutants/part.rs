//! The mutants that a change may concern, and a part of the others.
//!
//! The gate hunts these. With each commit it is another part, so that every mutant is hunted again and again;
//! a hunt of all is `cargo xtask mutants`.

use super::FOLDER;
use super::file::{Hunter, Mutant};
use crate::programs::output;
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;

/// The sources of the rigs: with a change there, every rig hunts.
const RIGS: &str = "crates/testkit/src/";

/// Which mutants are hunted.
pub(super) struct Part {
    /// The files that differ from those of a revision, by their paths in the repository.
    changed: Vec<String>,
    /// Every so many of the other mutants one, from the place `first` on; 0: none.
    every: usize,
    first: usize,
}

impl Part {
    /// The mutants that the changes since `revision` may concern, those that are not committed included, and
    /// one in `every` of the others.
    ///
    /// # Errors
    ///
    /// Git does not know the revision.
    pub(super) fn since(repository: &Path, revision: &str, every: usize) -> Result<Self> {
        let git = |arguments: &[&str]| output(Command::new("git").args(arguments).current_dir(repository));
        let base = git(&["merge-base", revision, "HEAD"])
            .with_context(|| format!("{revision} and HEAD have no commit in common"))?;
        let mut changed = git(&["diff", "--name-only", &base])?;
        changed += "\n";
        changed += &git(&["ls-files", "--others", "--exclude-standard"])?;
        let commit = git(&["rev-parse", "HEAD"])?;
        let drawn = usize::from_str_radix(&commit[..commit.len().min(8)], 16).context("the commit's name")?;
        Ok(Self {
            changed: changed.lines().filter(|name| !name.is_empty()).map(str::to_owned).collect(),
            every,
            first: drawn.checked_rem(every).unwrap_or(0),
        })
    }

    /// These mutants of all, in order.
    pub(super) fn of<'a>(&self, all: &'a [Mutant]) -> Vec<&'a Mutant> {
        let is_drawn = |at: usize| at.checked_rem(self.every) == Some(self.first);
        let chosen = all.iter().enumerate().filter(|(at, mutant)| is_drawn(*at) || self.concerns(mutant));
        chosen.map(|(_, mutant)| mutant).collect()
    }

    /// Whether the file of the mutant has changed, a file that it is in, or a test that hunts it.
    fn concerns(&self, mutant: &Mutant) -> bool {
        let own = format!("{FOLDER}/{}.toml", mutant.name);
        let is_place = |name: &String| *name == own || mutant.place.iter().any(|place| place.file == *name);
        let is_hunter = |name: &String| mutant.hunter.iter().any(|hunter| is_of(hunter, name));
        self.changed.iter().any(|name| is_place(name) || is_hunter(name))
    }
}

/// Whether the file belongs to the hunter.
fn is_of(hunter: &Hunter, name: &str) -> bool {
    let Some(test) = hunter.test() else { return name.starts_with(RIGS) };
    let tests = test.folder().join("tests").join(&test.binary);
    Path::new(name).starts_with(&tests) || Path::new(name) == tests.with_extension("rs")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(name: &str, rest: &str) -> Mutant {
        let mutant: Mutant = toml::from_str(&format!("bug = \"b\"\n{rest}")).unwrap();
        Mutant { name: name.to_owned(), ..mutant }
    }

    fn all() -> Vec<Mutant> {
        let place =
            |file: &str| format!("[[place]]\nfile = \"{file}\"\nanchor = \"a\"\nreplacement = \"ALIVE\"\n");
        let test = "[[hunter]]\npackage = \"entresol-engine\"\nbinary = \"held\"\ntest = \"t\"\n";
        let rig = "[[hunter]]\nrig = \"caches face\"\n";
        vec![
            mutant("a", &format!("{test}{}", place("crates/core/src/a.rs"))),
            mutant("b", &format!("{rig}{}", place("crates/core/src/b.rs"))),
            mutant("c", &format!("{test}{}", place("crates/core/src/c.rs"))),
            mutant("d", &format!("{rig}{}", place("crates/core/src/d.rs"))),
        ]
    }

    fn names(changed: &[&str], every: usize, first: usize) -> String {
        let part = Part { changed: changed.iter().map(|&name| name.to_owned()).collect(), every, first };
        part.of(&all()).iter().map(|mutant| mutant.name.as_str()).collect()
    }

    #[test]
    fn a_change_concerns_mutants_in_the_file_and_those_that_a_changed_test_hunts() {
        assert_eq!(names(&[], 0, 0), "");
        assert_eq!(names(&["crates/core/src/b.rs", "crates/core/src/bb.rs"], 0, 0), "b");
        assert_eq!(names(&["crates/testkit/mutants/d.toml"], 0, 0), "d");
        assert_eq!(names(&["crates/testkit/src/raw/mod.rs"], 0, 0), "bd");
        assert_eq!(names(&["crates/engine/tests/held.rs"], 0, 0), "ac");
        assert_eq!(names(&["crates/engine/tests/held/main.rs"], 0, 0), "ac");
        assert_eq!(names(&["crates/engine/tests/held_more.rs", "crates/core/tests/held.rs"], 0, 0), "");
    }

    #[test]
    fn the_parts_together_are_all() {
        assert_eq!([names(&[], 3, 0), names(&[], 3, 1), names(&[], 3, 2)], ["ad", "b", "c"]);
        assert_eq!(names(&["crates/core/src/a.rs"], 3, 1), "ab");
    }

    #[test]
    fn a_change_is_what_differs_from_the_common_commit() {
        let folder = tempfile::tempdir().unwrap();
        let git = |arguments: &[&str]| {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(arguments);
            output(git.current_dir(folder.path())).unwrap()
        };
        let write = |name: &str| std::fs::write(folder.path().join(name), name).unwrap();
        git(&["init", "-q", "-b", "trunk"]);
        write("old");
        git(&["add", "-A"]);
        git(&["commit", "-q", "-m", "old"]);
        git(&["checkout", "-q", "-b", "work"]);
        write("committed");
        git(&["add", "-A"]);
        git(&["commit", "-q", "-m", "committed"]);
        write("new");
        let part = Part::since(folder.path(), "trunk", 0).unwrap();
        assert_eq!(part.changed, ["committed", "new"]);
        assert!(Part::since(folder.path(), "no-such-branch", 8).is_err());
    }
}
