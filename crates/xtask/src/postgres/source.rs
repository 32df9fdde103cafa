//! PostgreSQL's source: where it is found, whether it is the right one, and how it is patched.

use super::version::{MAJORS, Source, names, tried};
use crate::paths;
use crate::programs::{output, sha256};
use crate::step::Steps;
use anyhow::{Context, Result, anyhow, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The source, if it is here: next to the repository, or downloaded before. It was not looked into.
pub fn present(source: &Source) -> Option<PathBuf> {
    let beside = paths::repository().parent()?.join("shared/postgres");
    let downloaded = paths::postgres().join("download");
    [beside, downloaded].iter().map(|folder| folder.join(source.name())).find(|file| file.is_file())
}

/// Asserts that `file` is the source.
///
/// # Errors
///
/// It cannot be read, or it is another file.
pub fn check(file: &Path, source: &Source) -> Result<()> {
    which(file, std::slice::from_ref(source)).map(drop)
}

/// Which of these sources `file` is.
///
/// # Errors
///
/// It cannot be read, or it is another file.
pub fn which(file: &Path, sources: &[Source]) -> Result<Source> {
    let wanted: Vec<_> =
        sources.iter().map(|source| format!("{} with SHA-256 {}", source.name(), source.sha256)).collect();
    let wanted = wanted.join(", or ");
    if !file.is_file() {
        bail!("{} is no file; bring {wanted}", file.display());
    }
    let found = sha256(file)?;
    let source = sources.iter().find(|source| source.sha256 == found).cloned();
    source.with_context(|| format!("{} has SHA-256 {found}; bring {wanted}", file.display()))
}

/// Asserts that `file` has this version of PostgreSQL.
///
/// # Errors
///
/// It has another version, or something else.
pub fn check_version(source: &Source, file: &Path) -> Result<()> {
    let top = format!("postgresql-{}", source.version);
    let member = format!("{top}/COPYRIGHT");
    output(Command::new("tar").arg("-tf").arg(file).arg(&member))
        .map(drop)
        .map_err(|_| anyhow!("{} has no folder {top}: it is no source of this version", file.display()))
}

/// The file of the source: the one next to the repository, else what was downloaded before, else that of
/// Debian's source package. Its checksum is right.
///
/// # Errors
///
/// None of them can be had, or the file is another one. The sentence says which file to bring, and which
/// versions need none.
pub fn find_source(source: &Source) -> Result<PathBuf> {
    let file = match present(source) {
        Some(file) => file,
        None => download(source).with_context(|| {
            format!(
                "the source of PostgreSQL {} cannot be had; bring {} with SHA-256 {} and name it with --source \
                 (sources that are here: {})",
                source.version,
                source.name(),
                source.sha256,
                names(&here())
            )
        })?,
    };
    check(&file, source)?;
    Ok(file)
}

/// The versions whose sources are here.
fn here() -> Vec<String> {
    let all = MAJORS.iter().flat_map(|major| tried(*major).unwrap_or_default());
    all.filter(|source| present(source).is_some()).map(|source| source.version.to_string()).collect()
}

/// The file of Debian's source package, from the archive that this system installs from. By its place in the
/// archive: an index names only the newest version, and may name one that is not there yet. When a newer
/// version enters the archive, it may drop this one.
fn download(source: &Source) -> Result<PathBuf> {
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
    let file = folder.join(source.name());
    let from = format!("{archive}/pool/main/p/postgresql-{}/{}", source.version.major, source.name());
    let steps = Steps::new(&folder.join("log"))?;
    let mut apt = Command::new(helper);
    apt.args(["download-file", &from]).arg(&file).arg(format!("SHA256:{}", source.sha256));
    steps.run(&format!("downloading the source of PostgreSQL {}", source.version), &mut apt)?;
    Ok(file)
}

/// The patches of a major version, in order.
///
/// # Errors
///
/// The folder cannot be read, or there are none.
pub fn patches(major: u32) -> Result<Vec<PathBuf>> {
    let folder = paths::patches(major);
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

/// Unpacks `members` of the source in `file`, or all of it, into the folder `to`, which is made.
///
/// # Errors
///
/// `tar` fails.
pub fn unpack(source: &Source, file: &Path, members: &[String], to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("{} cannot be made", to.display()))?;
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(file).arg("-C").arg(to).args(["--strip-components=1", "--no-same-owner"]);
    let top = format!("postgresql-{}", source.version);
    tar.args(members.iter().map(|member| format!("{top}/{member}")));
    output(&mut tar).map(drop)
}

/// Applies the patches of a major version in `folder`. Between minor versions lines move: a hunk may be at
/// another place, but all lines of it must be there.
///
/// # Errors
///
/// One does not apply, or is applied already.
pub fn patch(major: u32, folder: &Path) -> Result<()> {
    for file in patches(major)? {
        let mut patch = Command::new("patch");
        patch
            .current_dir(folder)
            .args(["-p1", "--fuzz=0", "--no-backup-if-mismatch", "--forward", "--reject-file=-", "-i"])
            .arg(&file);
        output(&mut patch).with_context(|| format!("{} does not apply", file.display()))?;
    }
    Ok(())
}

/// The files of the source that the patches of a major version change, by their paths there. Files that a
/// patch makes are not among them, even if another patch changes them.
///
/// # Errors
///
/// A patch cannot be read.
pub fn patched_files(major: u32) -> Result<Vec<String>> {
    let (mut files, mut made) = (Vec::new(), Vec::new());
    for patch in patches(major)? {
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
