//! The files that all packages have, by their paths below `/usr`.

use super::Release;
use super::program::Program;
use crate::paths;
use crate::programs::output;
use anyhow::{Context, Result, bail};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

/// A file of a package.
pub(crate) struct Packaged {
    /// Below `/usr`, or whatever a package is unpacked to.
    pub path: String,
    pub content: Vec<u8>,
    pub executable: bool,
}

/// Documents of the repository that are installed, by their folder and the folder that they get.
const DOCUMENTS: &[(&str, &str)] = &[
    ("docs", "share/doc/entresol"),
    ("docs/results", "share/doc/entresol/results"),
    ("docs/design", "share/doc/entresol/design"),
    ("contrib/prometheus", "share/doc/entresol/examples"),
    ("contrib/grafana", "share/doc/entresol/examples"),
    ("contrib/docker", "share/doc/entresol/examples"),
];

/// `content` as gzip -9n would make it: without a name and a time.
pub(crate) fn gzip(content: &[u8]) -> Result<Vec<u8>> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(content)?;
    Ok(gzip.finish()?)
}

/// All of them, sorted.
pub(super) fn collect(program: &Program, licences: &str, sbom: &str) -> Result<Vec<Packaged>> {
    let plain = |path: &str, content: Vec<u8>| Packaged { path: path.to_owned(), content, executable: false };
    let run = |path: &str, content: Vec<u8>| Packaged { executable: true, ..plain(path, content) };
    let source = |name: &str| {
        fs::read(paths::repository().join(name)).with_context(|| format!("{name} cannot be read"))
    };
    let says = |arguments: &[&str]| -> Result<Vec<u8>> {
        Ok((output(Command::new(&program.file).args(arguments))? + "\n").into_bytes())
    };
    let doc = "share/doc/entresol";
    let mut files = vec![
        run("bin/entresol", fs::read(&program.file)?),
        plain("lib/systemd/system/entresol@.service", source("contrib/systemd/entresol@.service")?),
        plain("share/bash-completion/completions/entresol", says(&["completions", "bash"])?),
        plain("share/zsh/vendor-completions/_entresol", says(&["completions", "zsh"])?),
        plain("share/fish/vendor_completions.d/entresol.fish", says(&["completions", "fish"])?),
        run("share/entresol/attach.py", source("contrib/nbd/attach.py")?),
        plain(&format!("{doc}/README.md"), source("README.md")?),
        plain(&format!("{doc}/changelog.gz"), gzip(&source("CHANGELOG.md")?)?),
        plain(&format!("{doc}/third-party-licences.gz"), gzip(licences.as_bytes())?),
        plain(&format!("{doc}/entresol.cdx.json.gz"), gzip(sbom.as_bytes())?),
        plain(&format!("{doc}/examples/ublk.conf"), source("contrib/systemd/ublk.conf")?),
    ];
    for (from, to) in DOCUMENTS {
        let folder = paths::repository().join(from);
        for entry in fs::read_dir(&folder).with_context(|| format!("{from} cannot be read"))? {
            let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
            if path.is_file() {
                files.push(plain(&format!("{to}/{}", name.to_string_lossy()), fs::read(path)?));
            }
        }
    }
    files.extend(manual(program)?);
    files.sort_by(|one, other| one.path.cmp(&other.path));
    if let Some(pair) = files.windows(2).find(|pair| pair[0].path == pair[1].path) {
        bail!("two files of the package are called {}", pair[0].path);
    }
    Ok(files)
}

/// The manual pages, which the program writes itself.
fn manual(program: &Program) -> Result<Vec<Packaged>> {
    let folder = program.file.with_file_name("manual");
    fs::create_dir_all(&folder)?;
    output(Command::new(&program.file).arg("manual").arg(&folder)).context("writing the manual pages")?;
    let mut pages = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        let path_of = format!("share/man/man1/{}.gz", name.to_string_lossy());
        pages.push(Packaged { path: path_of, content: gzip(&fs::read(path)?)?, executable: false });
    }
    Ok(pages)
}

/// Writes files below `root`. Their permissions depend on no umask.
pub(crate) fn write(root: &Path, files: &[Packaged]) -> Result<()> {
    for file in files {
        let path = root.join(&file.path);
        let folder = path.parent().context("a folder")?;
        fs::create_dir_all(folder)?;
        fs::write(&path, &file.content).with_context(|| format!("{} cannot be written", path.display()))?;
        let mode = if file.executable { 0o755 } else { 0o644 };
        fs::set_permissions(&path, Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// Gives everything below `root`, and it, the date of the release, and folders their usual permissions.
pub(super) fn settle(root: &Path, release: &Release) -> Result<()> {
    if root.is_dir() {
        fs::set_permissions(root, Permissions::from_mode(0o755))?;
        for entry in fs::read_dir(root)? {
            settle(&entry?.path(), release)?;
        }
    }
    let date = SystemTime::UNIX_EPOCH + Duration::from_secs(release.date);
    Ok(File::open(root)?.set_modified(date)?)
}
