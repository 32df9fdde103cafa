//! PostgreSQL's source: where it is found, whether it is the right one, and how it is patched.

use crate::paths;
use crate::programs::{output, sha256};
use crate::step::Steps;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The file that is wanted, and its checksum: `SHA256SUMS` in the folder of the patches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// SHA-256, in hex.
    pub sha256: String,
    /// The name Debian gives it.
    pub name: String,
}

/// The source that the patches are for.
///
/// # Errors
///
/// `SHA256SUMS` is missing or not one line of a checksum and a name.
pub fn wanted() -> Result<Wanted> {
    let file = paths::patches().join("SHA256SUMS");
    let text = fs::read_to_string(&file).with_context(|| format!("{} cannot be read", file.display()))?;
    match text.trim().split_once("  ") {
        Some((sha256, name)) if sha256.len() == 64 && !name.contains(['\n', '/']) => {
            Ok(Wanted { sha256: sha256.to_owned(), name: name.to_owned() })
        }
        _ => bail!("{} is not one line of a checksum and a name", file.display()),
    }
}

/// The source, if it is here: next to the repository, or downloaded before. It was not looked into.
pub fn present(wanted: &Wanted) -> Option<PathBuf> {
    let beside = paths::repository().parent()?.join("shared/postgres");
    let downloaded = paths::postgres().join("download");
    [beside, downloaded].iter().map(|folder| folder.join(&wanted.name)).find(|file| file.is_file())
}

/// Asserts that `file` is the source that is wanted.
///
/// # Errors
///
/// It cannot be read, or it is another file.
pub fn check(file: &Path, wanted: &Wanted) -> Result<()> {
    if !file.is_file() {
        bail!("{} is no file; bring {} with SHA-256 {}", file.display(), wanted.name, wanted.sha256);
    }
    let found = sha256(file)?;
    if found != wanted.sha256 {
        bail!("{} has SHA-256 {found}; bring {} with SHA-256 {}", file.display(), wanted.name, wanted.sha256);
    }
    Ok(())
}

/// The source: the file that was named, else the one next to the repository, else what was downloaded
/// before, else Debian's source package. Its checksum is right.
///
/// # Errors
///
/// None of them can be had, or the file is another one. The sentence says which file to bring.
pub fn find_source(named: Option<&Path>) -> Result<PathBuf> {
    let wanted = wanted()?;
    let file = match (named, present(&wanted)) {
        (Some(file), _) => file.to_owned(),
        (None, Some(file)) => file,
        (None, None) => download(&wanted).with_context(|| {
            format!(
                "PostgreSQL's source cannot be had; bring {} with SHA-256 {} and name it with --source",
                wanted.name, wanted.sha256
            )
        })?,
    };
    check(&file, &wanted)?;
    Ok(file)
}

/// The file of Debian's source package, from the archive that this system installs from. By its place in the
/// archive: an index names only the newest version, and may name one that is not there yet.
fn download(wanted: &Wanted) -> Result<PathBuf> {
    let helper = Path::new("/usr/lib/apt/apt-helper");
    if !helper.is_file() {
        bail!("this system has no apt");
    }
    let archives = output(Command::new("apt-get").args(["indextargets", "--format", "$(REPO_URI)"]))?;
    let archive = archives
        .lines()
        .map(|archive| archive.trim_end_matches('/'))
        .find(|archive| archive.ends_with("/debian"))
        .context("this system does not install from a Debian archive")?;
    let folder = paths::postgres().join("download");
    fs::create_dir_all(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    let file = folder.join(&wanted.name);
    let package = wanted.name.split('_').next().unwrap_or_default();
    let from = format!("{archive}/pool/main/p/{package}/{}", wanted.name);
    let steps = Steps::new(&folder.join("log"))?;
    let mut apt = Command::new(helper);
    apt.args(["download-file", &from]).arg(&file).arg(format!("SHA256:{}", wanted.sha256));
    steps.run("downloading PostgreSQL's source", &mut apt)?;
    Ok(file)
}

/// The patches, in order.
///
/// # Errors
///
/// The folder cannot be read, or there are none.
pub fn patches() -> Result<Vec<PathBuf>> {
    let folder = paths::patches();
    let entries = fs::read_dir(&folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    let files: std::io::Result<Vec<_>> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut patches = files?;
    patches.retain(|file| file.extension().is_some_and(|extension| extension == "patch"));
    patches.sort();
    if patches.is_empty() {
        bail!("{} has no patches", folder.display());
    }
    Ok(patches)
}

/// Unpacks `members` of the source, or all of it, into the folder `to`, which is made.
///
/// # Errors
///
/// `tar` fails.
pub fn unpack(source: &Path, members: &[String], to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("{} cannot be made", to.display()))?;
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(source).arg("-C").arg(to).args(["--strip-components=1", "--no-same-owner"]);
    let top = format!("postgresql-{}", paths::VERSION);
    tar.args(members.iter().map(|member| format!("{top}/{member}")));
    output(&mut tar).map(drop)
}

/// Applies the patches in `folder`, each of them exactly: a hunk that has to be searched for is an error.
///
/// # Errors
///
/// One does not apply.
pub fn patch(folder: &Path) -> Result<()> {
    for file in patches()? {
        let mut patch = Command::new("patch");
        patch
            .current_dir(folder)
            .args(["-p1", "--fuzz=0", "--no-backup-if-mismatch", "--batch", "-i"])
            .arg(&file);
        let said = output(&mut patch).with_context(|| format!("{} does not apply", file.display()))?;
        if said.contains("offset") {
            bail!("{} applies only with an offset", file.display());
        }
    }
    Ok(())
}

/// The files of the source that the patches change, by their paths there. Files that a patch makes are not
/// among them, even if another patch changes them.
///
/// # Errors
///
/// A patch cannot be read.
pub fn patched_files() -> Result<Vec<String>> {
    let (mut files, mut made) = (Vec::new(), Vec::new());
    for patch in patches()? {
        let text = fs::read_to_string(&patch)?;
        files.extend(text.lines().filter_map(|line| line.strip_prefix("--- a/")).map(str::to_owned));
        let new = text.lines().zip(text.lines().skip(1)).filter(|(old, _)| *old == "--- /dev/null");
        made.extend(new.filter_map(|(_, new)| new.strip_prefix("+++ b/")).map(str::to_owned));
    }
    files.retain(|file| !made.contains(file));
    files.sort();
    files.dedup();
    Ok(files)
}
