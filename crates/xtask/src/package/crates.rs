//! The crates that are compiled into the command, or into the Python module: what `cargo metadata` knows of
//! them.

use crate::paths;
use crate::programs::output;
use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The platform of the packages.
pub(crate) const GNU: &str = "x86_64-unknown-linux-gnu";

/// That of the static program.
pub(super) const MUSL: &str = "x86_64-unknown-linux-musl";

/// A crate of the program.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Crate {
    id: String,
    pub name: String,
    pub version: String,
    pub license: Option<String>,
    pub license_file: Option<PathBuf>,
    pub source: Option<String>,
    pub authors: Vec<String>,
    pub description: Option<String>,
    manifest_path: PathBuf,
    /// Names and versions of the crates that it uses.
    #[serde(skip)]
    pub uses: BTreeSet<(String, String)>,
    /// SHA-256 of the published file; `None` for those of this repository.
    #[serde(skip)]
    pub checksum: Option<String>,
}

impl Crate {
    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(Path::new("/"))
    }

    /// Whether it is of this repository.
    pub fn is_ours(&self) -> bool {
        self.source.is_none()
    }

    /// Its licence as SPDX writes it: older manifests have a slash instead of OR.
    pub fn spdx(&self) -> Option<String> {
        let licence = self.license.as_deref()?;
        let parts: Vec<_> = licence.split('/').map(str::trim).collect();
        Some(parts.join(" OR "))
    }
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Crate>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    kind: Option<String>,
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
    checksum: Option<String>,
}

/// All crates that `root` is made of for `target`, by name and version. Those that only build scripts and
/// tests use are left out.
pub(crate) fn used(root: &str, target: &str, ublk: bool) -> Result<Vec<Crate>> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.args(["metadata", "--format-version", "1", "--locked", "--filter-platform", target]);
    if ublk {
        cargo.args(["--features", "entresol/ublk"]);
    }
    let text = output(cargo.current_dir(paths::repository())).context("cargo metadata")?;
    let metadata: Metadata = serde_json::from_str(&text).context("the output of cargo metadata")?;
    let mut crates = walk(metadata, root)?;
    let lock = paths::repository().join("Cargo.lock");
    let lock: Lock = toml::from_str(&std::fs::read_to_string(lock)?).context("Cargo.lock")?;
    let sums: HashMap<_, _> =
        lock.package.into_iter().filter_map(|p| Some(((p.name, p.version), p.checksum?))).collect();
    for one in &mut crates {
        one.checksum = sums.get(&(one.name.clone(), one.version.clone())).cloned();
    }
    Ok(crates)
}

/// The crates that `root` is made of.
fn walk(metadata: Metadata, root: &str) -> Result<Vec<Crate>> {
    let nodes: HashMap<_, _> = metadata.resolve.nodes.into_iter().map(|node| (node.id, node.deps)).collect();
    let crates: HashMap<_, _> = metadata.packages.into_iter().map(|one| (one.id.clone(), one)).collect();
    let root = crates
        .values()
        .find(|one| one.name == root && one.is_ours())
        .with_context(|| format!("the crate {root}"))?;
    let mut found = BTreeMap::new();
    let mut open = vec![root.id.clone()];
    while let Some(id) = open.pop() {
        let mut one = crates.get(&id).with_context(|| format!("{id} in cargo metadata"))?.clone();
        let key = (one.name.clone(), one.version.clone());
        if found.contains_key(&key) {
            continue;
        }
        let compiled = |kinds: &[Kind]| kinds.iter().any(|kind| kind.kind.is_none());
        for used in nodes.get(&id).into_iter().flatten().filter(|used| compiled(&used.dep_kinds)) {
            let used = crates.get(&used.pkg).with_context(|| format!("{} in cargo metadata", used.pkg))?;
            one.uses.insert((used.name.clone(), used.version.clone()));
            open.push(used.id.clone());
        }
        found.insert(key, one);
    }
    Ok(found.into_values().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command that uses one crate, which uses another for its build and a third for its tests.
    const METADATA: &str = r#"{"packages": [
        {"id": "c", "name": "entresol", "version": "1.0.0", "authors": [], "manifest_path": "/c/Cargo.toml"},
        {"id": "a", "name": "a", "version": "2.0.0", "license": "MIT/Apache-2.0", "source": "registry", "authors": [],
         "manifest_path": "/a/Cargo.toml"},
        {"id": "b", "name": "b", "version": "1.0.0", "source": "registry", "authors": [], "manifest_path": "/b/Cargo.toml"},
        {"id": "t", "name": "t", "version": "1.0.0", "source": "registry", "authors": [], "manifest_path": "/t/Cargo.toml"}
      ], "resolve": {"nodes": [
        {"id": "c", "deps": [{"pkg": "a", "dep_kinds": [{"kind": null}, {"kind": "dev"}]}]},
        {"id": "a", "deps": [{"pkg": "b", "dep_kinds": [{"kind": "build"}]}, {"pkg": "t", "dep_kinds": [{"kind": "dev"}]}]}
      ]}}"#;

    #[test]
    fn only_what_is_compiled_in_is_listed() {
        let crates = walk(serde_json::from_str(METADATA).unwrap(), "entresol").unwrap();
        let names: Vec<_> = crates.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["a", "entresol"]);
        assert_eq!(crates[0].spdx().as_deref(), Some("MIT OR Apache-2.0"));
        assert_eq!(crates[1].uses, BTreeSet::from([("a".to_owned(), "2.0.0".to_owned())]));
        assert!(crates[1].is_ours() && !crates[0].is_ours());
    }
}
