//! The file of a mutant.
//!
//! ```toml
//! bug = "A flash cache that missed writes to its disk is accepted: its older pages are served."
//!
//! [[hunter]]
//! rig = "caches face/write-back,face-gr/write-back,face-gsc/write-back"
//!
//! [[place]]
//! file = "crates/engine/src/disk/binding.rs"
//! anchor = 'if superblock.epoch < label.epoch {'
//! replacement = 'if superblock.epoch < label.epoch && !ALIVE {'
//! ```
//!
//! `bug` says the consequence for the user of the cache. A hunter is a rig of the test kit with its aim
//! (`crates/testkit/src/mutants/aim.rs`), or a test; each must notice the mutant. A place is a piece of a
//! source file that occurs there once, and the piece that replaces it; the word `ALIVE` in it is true in the
//! process in which this mutant was chosen, and false in all others.

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A planted bug.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mutant {
    /// The name of its file, without the extension.
    #[serde(skip)]
    pub name: String,
    /// The consequence for the user, in a sentence.
    pub bug: String,
    /// Who must notice it.
    pub hunter: Vec<Hunter>,
    /// Where it is.
    #[serde(default)]
    pub place: Vec<Place>,
}

/// A piece of a source file, and what it becomes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Place {
    /// The source file, in the repository.
    pub file: String,
    /// The piece.
    pub anchor: String,
    /// The piece with the bug.
    pub replacement: String,
}

/// Who must notice a mutant.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Hunter {
    /// The hunt of the test kit.
    Rig(Rig),
    /// A test of a package.
    Test(Test),
}

/// See [`Hunter::Rig`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rig {
    /// The caches or stores in which the mutant can have an effect.
    #[serde(rename = "rig")]
    pub aim: String,
}

/// See [`Hunter::Test`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Test {
    /// The package, as `entresol-engine`.
    pub package: String,
    /// The test binary, as `held`: a file or folder of the package's `tests`.
    pub binary: String,
    /// The test, with its module if it is in one.
    pub test: String,
    /// Set for the hunt.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Runs at most, of a test that depends on chance.
    #[serde(default = "once")]
    pub runs_max: u32,
}

fn once() -> u32 {
    1
}

impl Mutant {
    /// The mutants of the folder, by name.
    pub(super) fn all(folder: &Path) -> Result<Vec<Self>> {
        let entries = fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
        let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        files.sort();
        files
            .iter()
            .filter(|file| file.extension().is_some_and(|it| it == "toml"))
            .map(|file| Self::read(file))
            .collect()
    }

    fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file)?;
        let name = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
        let mutant = toml::from_str(&text).with_context(|| format!("{}", file.display()))?;
        let mutant = Self { name, ..mutant };
        match mutant.fault() {
            Some(fault) => bail!("{}: {fault}", file.display()),
            None => Ok(mutant),
        }
    }

    fn fault(&self) -> Option<&'static str> {
        let is_alive_somewhere =
            || self.place.iter().any(|place| place.replacement.contains(super::weave::ALIVE));
        match () {
            () if self.bug.trim().is_empty() => Some("it has no sentence that says what goes wrong"),
            () if self.hunter.is_empty() => Some("it has no hunter"),
            () if self.place.is_empty() => Some("it has no place"),
            () if !is_alive_somewhere() => {
                Some("no replacement has the word ALIVE: it would always be alive")
            }
            () => None,
        }
    }

    /// What is wrong with the tests that hunt it, in sentences.
    pub(super) fn missing_tests(&self, root: &Path) -> Vec<String> {
        let missing = self.hunter.iter().filter_map(Hunter::test).filter(|test| !test.exists(root));
        let told = |test: &Test| {
            let Test { package, binary, test, .. } = test;
            format!(
                "mutant {}: {package} has no test {test} in tests/{binary}; name the one that hunts it in {}/{}.toml",
                self.name,
                super::FOLDER,
                self.name
            )
        };
        missing.map(told).collect()
    }
}

impl Hunter {
    /// The test, if it is one.
    pub(super) fn test(&self) -> Option<&Test> {
        match self {
            Self::Test(test) => Some(test),
            Self::Rig(_) => None,
        }
    }
}

impl Test {
    /// The folder of its package.
    pub(super) fn folder(&self) -> PathBuf {
        Path::new("crates").join(self.package.trim_start_matches("entresol-"))
    }

    fn exists(&self, root: &Path) -> bool {
        let tests = root.join(self.folder()).join("tests");
        let (module, function) = self.test.rsplit_once("::").unwrap_or(("main", &self.test));
        let of_module = tests.join(&self.binary).join(format!("{module}.rs"));
        let files = [of_module, tests.join(format!("{}.rs", self.binary))];
        let texts = files.iter().filter_map(|file| fs::read_to_string(file).ok());
        texts.into_iter().any(|text| text.contains(&format!("fn {function}(")))
    }
}
