//! The programs of the copy that hunt mutants: one build, whichever mutants are hunted.

use super::copy::Copy;
use super::file::{Hunter, Mutant, Test};
use crate::step::Steps;
use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package with the rigs, and its program that hunts with them.
const TESTKIT: &str = "entresol-testkit";
const RIG: &str = "hunt";

/// The packages whose tests hunt, together, and what they are built with: so every build has the same
/// configuration.
const PACKAGES: [&str; 6] =
    ["entresol-block", "entresol-core", "entresol-engine", "entresol-pg", "entresol-store", TESTKIT];
/// Fronts stop at points, to be killed there.
const FEATURES: &str = "entresol-testkit/hooks";

/// The programs, by package and name.
pub(super) struct Programs {
    built: BTreeMap<(String, String), PathBuf>,
    /// The tree they are of.
    pub tree: PathBuf,
    /// Where the output of each hunt is kept.
    pub hunts: PathBuf,
}

/// Cargo's message on an artifact that it has built.
#[derive(Deserialize)]
struct Artifact {
    target: Target,
    manifest_path: PathBuf,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

impl Programs {
    /// Builds what hunts these mutants.
    pub(super) fn build(copy: &Copy, mutants: &[&Mutant]) -> Result<Self> {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["test", "--release", "--no-run", "--locked", "--message-format=json-render-diagnostics"]);
        cargo.arg("--target-dir").arg(&copy.target).current_dir(&copy.tree);
        cargo.args(PACKAGES.iter().flat_map(|package| ["-p", package])).args(["--features", FEATURES]);
        cargo.args(["--example", RIG]);
        let hunters = mutants.iter().flat_map(|mutant| &mutant.hunter);
        let binaries: BTreeSet<&str> =
            hunters.filter_map(Hunter::test).map(|test| test.binary.as_str()).collect();
        cargo.args(binaries.iter().flat_map(|binary| ["--test", binary]));
        let mut built = BTreeMap::new();
        Steps::new(&copy.log)?.watch("building the tree with the mutants", &mut cargo, |line| {
            if let Ok(Artifact { target, manifest_path, executable: Some(program) }) =
                serde_json::from_str(line)
            {
                built.insert((package(&manifest_path), target.name), program);
            }
            line.trim_start().strip_prefix("Compiling ").map(str::to_owned)
        })?;
        Ok(Self { built, tree: copy.tree.clone(), hunts: copy.hunts.clone() })
    }

    /// The program that hunts with the rigs.
    pub(super) fn rig(&self) -> Result<&Path> {
        self.find(TESTKIT, RIG)
    }

    /// The binary of a test.
    pub(super) fn test(&self, test: &Test) -> Result<&Path> {
        self.find(&test.package, &test.binary)
    }

    fn find(&self, package: &str, name: &str) -> Result<&Path> {
        let found = self.built.get(&(package.to_owned(), name.to_owned()));
        let found = found.map(PathBuf::as_path);
        found.with_context(|| {
            format!("cargo has not built {name} of {package}; is it one of {}?", PACKAGES.join(", "))
        })
    }
}

/// The package in whose folder this manifest is.
fn package(manifest: &Path) -> String {
    let folder = manifest.parent().and_then(Path::file_name).unwrap_or_default();
    format!("entresol-{}", folder.to_string_lossy())
}
