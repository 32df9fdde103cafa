//! The programs and libraries that PostgreSQL is built with.

use crate::paths;
use crate::programs::{find, how_to_install, output};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs that must be there, with Debian's name of the package.
const NEEDED: &[(&str, &str)] = &[
    ("cc", "gcc"),
    ("make", "make"),
    ("perl", "perl"),
    ("patch", "patch"),
    ("tar", "tar"),
    ("bzip2", "bzip2"),
    ("sha256sum", "coreutils"),
];

/// Programs that can be unpacked into `target/postgres/tools` if the system has none.
const PRIVATE: &[&str] = &["bison", "flex", "m4"];

/// Perl modules of PostgreSQL's own test framework, with Debian's names of their packages.
const PERL_PACKAGES: &[&str] = &["libipc-run-perl", "libio-pty-perl"];

/// What a build or a test is called with so that it finds its tools.
#[derive(Debug, Default)]
pub struct Tools {
    folder: PathBuf,
}

impl Tools {
    /// Finds what a build needs. On Debian and its kin, bison, flex and m4 are downloaded with apt-get and
    /// unpacked for this build alone if they are not installed; nothing is installed.
    ///
    /// # Errors
    ///
    /// Something is missing. The sentence has the command that installs it.
    pub fn for_build() -> Result<Self> {
        let absent = |(program, _): &&(&str, &str)| find(program, &[]).is_none();
        let missing: Vec<_> = NEEDED.iter().filter(absent).collect();
        if !missing.is_empty() {
            let programs: Vec<_> = missing.iter().map(|(program, _)| *program).collect();
            let packages: Vec<_> = missing.iter().map(|(_, package)| *package).collect();
            bail!("{} missing: {}", programs.join(", "), how_to_install(&packages));
        }
        let tools = Tools { folder: paths::postgres().join("tools") };
        let absent = |program: &&str| find(program, &tools.bin()).is_none();
        tools.unpack_all(PRIVATE.iter().copied().filter(absent).collect())?;
        Ok(tools)
    }

    /// Also finds what PostgreSQL's test framework in Perl needs.
    ///
    /// # Errors
    ///
    /// As [`Tools::for_build`].
    pub fn for_tap() -> Result<Self> {
        let tools = Self::for_build()?;
        if output(tools.set(&mut Command::new("perl")).args(["-e", "use IPC::Run;"])).is_err() {
            tools.unpack_all(PERL_PACKAGES.to_vec())?;
        }
        Ok(tools)
    }

    fn bin(&self) -> [PathBuf; 1] {
        [self.folder.join("usr/bin")]
    }

    fn unpack_all(&self, packages: Vec<&str>) -> Result<()> {
        if packages.is_empty() {
            return Ok(());
        }
        let how = || format!("{} missing: {}", packages.join(", "), how_to_install(&packages));
        if find("apt-get", &[]).is_none() || find("dpkg", &[]).is_none() {
            bail!(how());
        }
        eprintln!("not installed, unpacked for this build alone: {}", packages.join(", "));
        let downloads = self.folder.join("packages");
        fs::create_dir_all(&downloads)?;
        for package in &packages {
            let mut apt = Command::new("apt-get");
            apt.current_dir(&downloads).args(["-qq", "-o", "APT::Sandbox::User=root", "download", package]);
            output(&mut apt).with_context(how)?;
        }
        for file in fs::read_dir(&downloads)? {
            self.unpack(&file?.path()).with_context(how)?;
        }
        Ok(())
    }

    fn unpack(&self, package: &Path) -> Result<()> {
        output(Command::new("dpkg").arg("-x").arg(package).arg(&self.folder)).map(drop)
    }

    /// Lets `command` find the tools that were unpacked.
    pub fn set<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let bin = self.bin();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let all = bin.iter().cloned().chain(std::env::split_paths(&path));
        if let Ok(joined) = std::env::join_paths(all) {
            command.env("PATH", joined);
        }
        if bin[0].join("m4").is_file() {
            command.env("M4", bin[0].join("m4"));
        }
        let data = self.folder.join("usr/share/bison");
        if data.is_dir() {
            command.env("BISON_PKGDATADIR", data);
        }
        if let Some(folders) = self.perl_folders() {
            command.env("PERL5LIB", folders);
        }
        command
    }

    /// Where the unpacked Perl modules are: those in Perl, and those compiled for one version of it.
    fn perl_folders(&self) -> Option<String> {
        let plain = self.folder.join("usr/share/perl5");
        if !plain.is_dir() {
            return None;
        }
        let mut folders = vec![plain.display().to_string()];
        for machine in fs::read_dir(self.folder.join("usr/lib")).into_iter().flatten().flatten() {
            let versions = fs::read_dir(machine.path().join("perl5")).into_iter().flatten().flatten();
            folders.extend(versions.map(|version| version.path().display().to_string()));
        }
        Some(folders.join(":"))
    }
}

/// Options of `configure` for libraries that a major version can use if they are there.
pub fn with(major: u32) -> Vec<&'static str> {
    if major >= 18 && has_package(&["liburing"]) { vec!["--with-liburing"] } else { Vec::new() }
}

/// Options of `configure` for libraries that are not there, with what is lost.
pub fn without() -> Vec<(&'static str, &'static str)> {
    let mut without = Vec::new();
    if !has_header("readline/readline.h") {
        without.push(("--without-readline", "psql has no history (libreadline-dev)"));
    }
    if !has_header("zlib.h") {
        without.push(("--without-zlib", "no gzip in backups (zlib1g-dev)"));
    }
    if !has_package(&["icu-uc", "icu-i18n"]) {
        without.push(("--without-icu", "no ICU collations (libicu-dev, pkg-config)"));
    }
    without
}

fn has_package(libraries: &[&str]) -> bool {
    let found = Command::new("pkg-config").arg("--exists").args(libraries).status();
    found.is_ok_and(|status| status.success())
}

fn has_header(header: &str) -> bool {
    let program = format!("echo '#include <stdio.h>\n#include <{header}>' | cc -E - >/dev/null 2>&1");
    Command::new("sh").args(["-c", &program]).status().is_ok_and(|status| status.success())
}
