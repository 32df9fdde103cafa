//! The licences of all crates that are compiled in, as the licences themselves demand: their texts, as the
//! crates have them.

use super::crates::Crate;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// How names of files with licences begin.
const NAMES: &[&str] = &["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];

/// One text for all of them: a list, then each distinct text with the crates that it is of.
pub(crate) fn text(crates: &[Crate]) -> Result<String> {
    let mut list = String::new();
    // By text, so that a text that many crates have is there once.
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for one in crates.iter().filter(|one| !one.is_ours()) {
        let name = format!("{} {}", one.name, one.version);
        let Some(licence) =
            one.spdx().or_else(|| one.license_file.as_ref().map(|_| "see its file".to_owned()))
        else {
            bail!("{name} has no licence in its manifest; it cannot be in a package");
        };
        let files = files(one.folder())?;
        let without = if files.is_empty() { authors(one) } else { String::new() };
        list.push_str(&format!("{name}: {licence}{without}\n"));
        for file in files {
            let text = fs::read(&file).with_context(|| format!("{} cannot be read", file.display()))?;
            let text = String::from_utf8_lossy(&text).replace('\r', "");
            let of = texts.entry(text.trim_end().to_owned()).or_default();
            if !of.contains(&name) {
                of.push(name.clone());
            }
        }
    }
    let mut texts: Vec<_> = texts.into_iter().collect();
    texts.sort_by(|one, other| one.1.cmp(&other.1).then_with(|| one.0.cmp(&other.0)));
    let rule = "=".repeat(78);
    let each = texts.iter().map(|(text, of)| format!("\n{rule}\n{}\n\n{text}\n", of.join(", ")));
    Ok(format!(
        "The crates that are compiled into entresol, with their licences.\n\n{list}{}",
        each.collect::<String>()
    ))
}

/// A crate that has no file: its manifest is all that there is.
fn authors(one: &Crate) -> String {
    let by = if one.authors.is_empty() { String::new() } else { format!("; by {}", one.authors.join(", ")) };
    format!(" (the crate has no file with its text{by})")
}

/// Licences in the folder of a crate, and in the folders in it: those of C sources that it contains.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    for entry in fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            folders.push(path);
        }
    }
    for folder in folders {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
            if path.is_file() && NAMES.iter().any(|begin| name.starts_with(begin)) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::files;
    use std::fs;

    #[test]
    fn licences_of_contained_sources_are_found() {
        let folder = tempfile::TempDir::new().unwrap();
        for name in ["LICENSE-MIT", "c/COPYING", "c/d/LICENSE", "src.rs", "licence.md"] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        let found = files(folder.path()).unwrap();
        let found: Vec<_> =
            found.iter().map(|path| path.strip_prefix(folder.path()).unwrap().to_str().unwrap()).collect();
        assert_eq!(found, ["LICENSE-MIT", "c/COPYING", "licence.md"]);
    }
}
