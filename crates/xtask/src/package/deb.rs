//! Debian packages: how one is packed, and that of the command.

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

/// A Debian package: what is said of the files below its root.
pub(crate) struct Package<'a> {
    pub name: &'a str,
    pub version: &'a str,
    /// Fields of the control file, as lines: Depends and all that follow.
    pub fields: String,
    /// The entry of its changelog.
    pub change: String,
    /// Its own files in this folder below `contrib/debian`: `copyright` and the scripts.
    pub folder: &'a str,
    /// Scripts that dpkg runs.
    pub scripts: &'a [&'a str],
    /// Words of scripts, with what they stand for: functions, names.
    pub words: &'a [(&'a str, String)],
}

impl Package<'_> {
    /// Adds the package's own files to those below `root`, and packs them: the path of the package.
    pub(crate) fn make(&self, release: &Release, root: &Path) -> Result<PathBuf> {
        let plain =
            |path: String, text: String| Packaged { path, content: text.into_bytes(), executable: false };
        let (name, version, maintainer) = (self.name, self.version, maintainer());
        let changelog = gzip(self.changelog(&maintainer, release)?.as_bytes())?;
        let own = [
            plain(format!("usr/share/doc/{name}/copyright"), self.own("copyright")?),
            Packaged {
                path: format!("usr/share/doc/{name}/changelog.Debian.gz"),
                content: changelog,
                executable: false,
            },
        ];
        write(root, &own)?;
        let control = format!(
            "Package: {name}\nVersion: {version}\nArchitecture: amd64\nMaintainer: {maintainer}\n\
             Installed-Size: {}\n{}",
            size_kib(root)?,
            self.fields
        );
        let mut files =
            vec![plain("DEBIAN/control".into(), control), plain("DEBIAN/md5sums".into(), sums(root)?)];
        for script in self.scripts {
            files.push(Packaged { executable: true, ..plain(format!("DEBIAN/{script}"), self.own(script)?) });
        }
        write(root, &files)?;
        settle(root, release)?;
        let deb = release.out.join(format!("{name}_{version}_amd64.deb"));
        let mut dpkg = Command::new("dpkg-deb");
        dpkg.args(["--root-owner-group", "-Zxz", "--build"]).arg(root).arg(&deb);
        dpkg.env("SOURCE_DATE_EPOCH", release.date.to_string());
        release.steps.run("making the Debian package", &mut dpkg)?;
        Ok(deb)
    }

    /// One of its files, with its words replaced.
    fn own(&self, name: &str) -> Result<String> {
        let mut text = source(&Path::new(self.folder).join(name))?;
        for (word, meant) in self.words {
            text = text.replace(word, meant);
        }
        Ok(text)
    }

    /// Its changelog: one entry.
    fn changelog(&self, maintainer: &str, release: &Release) -> Result<String> {
        let at = format!("@{}", release.date);
        let date = output(Command::new("date").args(["-u", "-R", "-d", &at]).env("LC_ALL", "C"))?;
        let Package { name, version, change, .. } = self;
        Ok(format!(
            "{name} ({version}) unstable; urgency=medium\n\n  * {change}\n\n -- {maintainer}  {date}\n"
        ))
    }
}

/// A file below `contrib/debian`.
fn source(name: &Path) -> Result<String> {
    let path = paths::repository().join("contrib/debian").join(name);
    fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))
}

/// Functions that several scripts of a package share, without the comment at the head of their file.
pub(crate) fn functions(name: &str) -> Result<String> {
    let text = source(Path::new(name))?;
    let lines: Vec<_> = text.lines().skip_while(|line| line.starts_with('#')).collect();
    Ok(lines.join("\n").trim().to_owned())
}

/// Makes the package of the command: its path.
pub(super) fn make(release: &Release, program: &Program, files: &[Packaged]) -> Result<PathBuf> {
    let root = release.stage("deb")?;
    write(&root.join("usr"), files)?;
    fs::create_dir_all(root.join("etc/entresol"))?;
    let package = Package {
        name: "entresol",
        version: &format!("{VERSION}-{}", release.revision),
        fields: fields(program)?,
        change: format!("Version {VERSION}: see changelog.gz."),
        folder: "",
        scripts: &["postinst", "prerm", "postrm"],
        words: &[("#RUNNING#", functions("running.sh")?)],
    };
    package.make(release, &root)
}

/// The fields of its control file.
fn fields(program: &Program) -> Result<String> {
    let glibc = program.glibc.as_ref().context("a Debian package is made of a program for glibc")?;
    let libgcc = if program.libgcc { ", libgcc-s1 (>= 3.0)" } else { "" };
    Ok(format!(
        "Depends: libc6 (>= {glibc}){libgcc}\nRecommends: python3\n\
         Suggests: libnbd-bin, nbd-client\nSection: database\nPriority: optional\n\
         Description: flash tier for databases: a cache on an SSD before a slow disk\n \
         Entresol is a crash-safe page cache on an SSD between a database's memory\n \
         and its slow storage.\n .\n \
         This package has the command: it serves a disk with a flash cache as a\n \
         block device (NBD, ublk), simulates caches on traces, and says what to buy.\n"
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
    let find = "find . -path ./DEBIAN -prune -o -type f -printf '%P\\0' | LC_ALL=C sort -z | xargs -0 md5sum";
    let sums = output(Command::new("sh").args(["-c", find]).current_dir(root)).context("md5sum")?;
    Ok(sums + "\n")
}
