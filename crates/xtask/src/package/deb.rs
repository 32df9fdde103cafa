//! The Debian package.

use super::files::{Packaged, gzip, settle, write};
use super::program::Program;
use super::{Release, VERSION};
use crate::paths;
use crate::programs::output;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The maintainer of a package unless another one is named: an address that no mail reaches (RFC 2606).
const NAME: &str = "Entresol maintainers";
const ADDRESS: &str = "maintainers@entresol.invalid";

/// The maintainer, as Debian's tools are told: DEBFULLNAME and DEBEMAIL.
fn maintainer() -> String {
    let said = |name: &str, usual: &str| std::env::var(name).unwrap_or_else(|_| usual.to_owned());
    let (name, address) = (said("DEBFULLNAME", NAME), said("DEBEMAIL", ADDRESS));
    if address == ADDRESS {
        eprintln!("the package names no person: set DEBFULLNAME and DEBEMAIL for a release");
    }
    format!("{name} <{address}>")
}

/// Makes it: its path.
pub(super) fn make(release: &Release, program: &Program, files: &[Packaged]) -> Result<PathBuf> {
    let version = format!("{VERSION}-{}", release.revision);
    let root = release.stage("deb")?;
    write(&root.join("usr"), files)?;
    let source = |name: &str| {
        let path = paths::repository().join("contrib/debian").join(name);
        fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))
    };
    let plain = |path: &str, content: Vec<u8>| Packaged { path: path.to_owned(), content, executable: false };
    let maintainer = maintainer();
    let changelog = gzip(changelog(&version, &maintainer, release)?.as_bytes())?;
    let own = [
        plain("usr/share/doc/entresol/copyright", source("copyright")?.into_bytes()),
        plain("usr/share/doc/entresol/changelog.Debian.gz", changelog),
        plain("usr/share/lintian/overrides/entresol", source("lintian-overrides")?.into_bytes()),
    ];
    write(&root, &own)?;
    fs::create_dir_all(root.join("etc/entresol"))?;

    let mut control = vec![
        plain("DEBIAN/control", description(&version, &maintainer, program, size_kib(&root)?)?.into_bytes()),
        plain("DEBIAN/md5sums", sums(&root)?.into_bytes()),
    ];
    let running = source("running.sh")?;
    let running: Vec<_> = running.lines().skip_while(|line| line.starts_with('#')).collect();
    for name in ["postinst", "prerm", "postrm"] {
        let script = source(name)?.replace("#RUNNING#", running.join("\n").trim());
        let path = format!("DEBIAN/{name}");
        control.push(Packaged { path, content: script.into_bytes(), executable: true });
    }
    write(&root, &control)?;
    settle(&root, release)?;
    let deb = release.out.join(format!("entresol_{version}_amd64.deb"));
    let mut dpkg = Command::new("dpkg-deb");
    dpkg.args(["--root-owner-group", "-Zxz", "--build"]).arg(&root).arg(&deb);
    dpkg.env("SOURCE_DATE_EPOCH", release.date.to_string());
    release.steps.run("making the Debian package", &mut dpkg)?;
    Ok(deb)
}

/// The control file.
fn description(version: &str, maintainer: &str, program: &Program, size_kib: u64) -> Result<String> {
    let glibc = program.glibc.as_ref().context("a Debian package is made of a program for glibc")?;
    let libgcc = if program.libgcc { ", libgcc-s1 (>= 3.0)" } else { "" };
    Ok(format!(
        "Package: entresol\nVersion: {version}\nArchitecture: amd64\nMaintainer: {maintainer}\n\
         Installed-Size: {size_kib}\nDepends: libc6 (>= {glibc}){libgcc}\nRecommends: python3\n\
         Suggests: libnbd-bin, nbd-client\nSection: database\nPriority: optional\n\
         Description: flash tier for databases: a cache on an SSD before a slow disk\n \
         Entresol is a crash-safe page cache on an SSD between a database's memory\n \
         and its slow storage.\n .\n \
         This package has the command: it serves a disk with a flash cache as a\n \
         block device (NBD, ublk), simulates caches on traces, and says what to buy.\n"
    ))
}

/// The package's own changelog: one entry.
fn changelog(version: &str, maintainer: &str, release: &Release) -> Result<String> {
    let at = format!("@{}", release.date);
    let date = output(Command::new("date").args(["-u", "-R", "-d", &at]).env("LC_ALL", "C"))?;
    Ok(format!(
        "entresol ({version}) unstable; urgency=medium\n\n  * Version {VERSION}: see changelog.gz.\n\n \
         -- {maintainer}  {date}\n"
    ))
}

/// Sizes as dpkg counts them: each file rounded up to KiB, and one KiB for each folder.
fn size_kib(root: &Path) -> Result<u64> {
    let mut size = 0;
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        size += match path.is_dir() {
            true => 1 + size_kib(&path)?,
            false => fs::metadata(&path)?.len().div_ceil(1024),
        };
    }
    Ok(size)
}

/// The file `md5sums`, sorted.
fn sums(root: &Path) -> Result<String> {
    let find = "find usr etc -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum";
    let sums = output(Command::new("sh").args(["-c", find]).current_dir(root)).context("md5sum")?;
    Ok(sums + "\n")
}
