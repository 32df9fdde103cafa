//! `cargo xtask postgres deb`: a Debian package with the changed programs of one version of Debian's package
//! of PostgreSQL, and the module. They are compiled in a fresh system of the release that has this version.
//!
//! Invariant: the package has every program that a patch changes, and depends on the version of Debian's
//! package that it was made of. Another minor version of PostgreSQL is never mixed with these programs.

use super::version::{Source, Version, Wanted, tried};
use super::{module, source};
use crate::package::deb::{Package, functions};
use crate::package::files::{Packaged, gzip, write};
use crate::package::{Release, VERSION, crates, licences, sbom};
use crate::paths;
use crate::programs::{find, how_to_install, is_root, output};
use crate::step::Steps;
use anyhow::{Context, Result, bail};
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs that the patches change. Those of `doors/postgres` change no other one.
const PROGRAMS: [&str; 3] = ["pg_resetwal", "pg_rewind", "postgres"];

/// What `deb` may be told.
#[derive(Args, Clone, Debug)]
pub struct DebArgs {
    /// The PostgreSQL that is meant: a major version, or the minor one that the release of Debian must have.
    #[arg(long, value_name = "VERSION", default_value_t)]
    version: Wanted,
    /// The release of Debian [default: forky for PostgreSQL 18, trixie for 17].
    #[arg(long, value_name = "CODENAME")]
    suite: Option<String>,
    /// The package's revision of this version.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    revision: u32,
    /// Where the package is put [default: target/packages/postgres].
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

impl DebArgs {
    fn major(&self) -> u32 {
        match self.version {
            Wanted::Major(major) | Wanted::Minor(Version { major, .. }) => major,
        }
    }

    fn suite(&self) -> &str {
        let usual = if self.major() < 18 { "trixie" } else { "forky" };
        self.suite.as_deref().unwrap_or(usual)
    }
}

/// A fresh system of Debian.
struct System<'a> {
    root: PathBuf,
    steps: &'a Steps,
}

impl System<'_> {
    /// Makes it.
    fn new<'a>(suite: &str, steps: &'a Steps) -> Result<System<'a>> {
        let root = paths::postgres().join("deb").join(suite);
        if root.exists() {
            fs::remove_dir_all(&root).with_context(|| format!("{} cannot be removed", root.display()))?;
        }
        let mut make = Command::new(contrib("system.sh"));
        make.args([&format!("{suite}-minimal"), suite]).arg(&root);
        steps.run(&format!("a fresh system of {suite}"), &mut make)?;
        fs::create_dir_all(root.join("build"))?;
        Ok(System { root, steps })
    }

    /// A file of the build in it.
    fn build(&self, name: &str) -> PathBuf {
        self.root.join("build").join(name)
    }

    /// What a file of the build says.
    fn said(&self, name: &str) -> Result<String> {
        let text = fs::read_to_string(self.build(name)).with_context(|| format!("/build/{name}"))?;
        Ok(text.trim().to_owned())
    }

    /// Runs a script of contrib/debian/postgres in it.
    fn run(&self, what: &str, script: &str, major: u32) -> Result<()> {
        fs::copy(contrib("postgres").join(script), self.build(script))?;
        let mut within = Command::new(contrib("within.sh"));
        within.arg(&self.root).args(["sh", &format!("/build/{script}"), &major.to_string()]);
        // A make above this one would give its options and its job slots.
        within.env_remove("MAKEFLAGS").env_remove("MAKELEVEL").env_remove("MFLAGS");
        self.steps.run(what, &mut within)
    }
}

fn contrib(name: &str) -> PathBuf {
    paths::repository().join("contrib/debian").join(name)
}

/// Makes the package.
///
/// # Errors
///
/// A fresh system cannot be made here; the release has another version than those that were tried with the
/// patches; a step fails; lintian finds an error.
pub fn deb(arguments: &DebArgs) -> Result<()> {
    if !is_root()? {
        bail!("fresh systems of Debian are made by root only: call it as root");
    }
    for (program, package) in [("debootstrap", "debootstrap"), ("dpkg-deb", "dpkg"), ("patch", "patch")] {
        if find(program, &[PathBuf::from("/usr/sbin")]).is_none() {
            bail!("{program} is needed: {}", how_to_install(&[package]));
        }
    }
    let out = arguments.out.clone().unwrap_or_else(|| paths::target().join("packages/postgres"));
    let out = std::path::absolute(&out)?;
    let release = Release::new(arguments.revision, out, "deb.log")?;
    eprintln!("log: {}", release.steps.log().display());

    let major = arguments.major();
    let system = System::new(arguments.suite(), &release.steps)?;
    system.run("which PostgreSQL the release has", "version.sh", major)?;
    let debian = system.said("version")?;
    let of = which(arguments, &debian)?;
    system.run("PostgreSQL as Debian has it, its source and its compiler", "source.sh", major)?;
    let orig = system.build("archive").join(system.said("orig")?);
    source::check(&orig, &of)?;
    source::patch(major, &system.build("source"))?;
    module::copy_extension(&system.build("entresol"))?;
    fs::copy(module::library(Some(&release))?, system.build("libentresol_pg.a"))?;
    system.run("compiling the changed programs", "build.sh", major)?;

    let made = pack(&release, &system, major, &debian)?;
    fs::remove_dir_all(&system.root)?;
    fs::remove_dir_all(release.out.join("stage"))?;
    println!("{} {} bytes", made.display(), fs::metadata(&made)?.len());
    check(&release, &made)
}

/// The source that Debian's version is made of, if it was tried and is the one that is meant.
fn which(arguments: &DebArgs, debian: &str) -> Result<Source> {
    let suite = arguments.suite();
    let upstream = debian.split('-').next().unwrap_or_default();
    let version: Version = upstream
        .parse()
        .map_err(|why| anyhow::anyhow!("{suite} has PostgreSQL {debian}, which is no version: {why}"))?;
    if let Wanted::Minor(wanted) = arguments.version
        && wanted != version
    {
        bail!("{suite} has PostgreSQL {debian}, not {wanted}: name another release with --suite");
    }
    let tried = tried(version.major)?.into_iter().find(|source| source.version == version);
    tried.with_context(|| {
        format!(
            "{suite} has PostgreSQL {debian}, which was not tried with the patches; `cargo xtask postgres try \
             {version} --source FILE` does that"
        )
    })
}

/// The version of the package: ours, and in the revision that of Debian's package.
fn version_of(revision: u32, debian: &str) -> String {
    format!("{VERSION}-{revision}+pg{}", debian.replace('-', "."))
}

/// Packs what was compiled.
fn pack(release: &Release, system: &System<'_>, major: u32, debian: &str) -> Result<PathBuf> {
    let root = release.stage("deb")?;
    output(Command::new("cp").arg("-a").arg(system.build("stage/.")).arg(&root))?;
    let mut programs: Vec<_> = fs::read_dir(root.join(format!("usr/lib/postgresql/{major}/bin")))?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_>>()?;
    programs.sort();
    if programs != PROGRAMS {
        bail!("the programs {} were compiled, not {}", programs.join(", "), PROGRAMS.join(", "));
    }
    let name = format!("postgresql-{major}-entresol");
    let doc = format!("usr/share/doc/{name}");
    let crates = crates::used("entresol-pg", crates::GNU, false)?;
    let list = sbom::json(release, "entresol-pg", &crates)?;
    let theirs = fs::read(system.root.join(format!("usr/share/doc/postgresql-{major}/copyright")))?;
    let page = fs::read(paths::repository().join("docs/POSTGRESQL.md"))?;
    let plain =
        |name: &str, content: Vec<u8>| Packaged { path: format!("{doc}/{name}"), content, executable: false };
    let documents = [
        plain("copyright.postgresql", theirs),
        plain("third-party-licences.gz", gzip(licences::text(&crates)?.as_bytes())?),
        plain("entresol.cdx.json.gz", gzip(list.as_bytes())?),
        plain("POSTGRESQL.md.gz", gzip(&page)?),
    ];
    write(&root, &documents)?;
    let depends = system.said("depends")?;
    let libraries = depends.strip_prefix("shlibs:Depends=").context("the packages of the libraries")?;
    let package = Package {
        name: &name,
        version: &version_of(release.revision, debian),
        fields: fields(major, debian, libraries),
        change: format!("Version {VERSION}, for postgresql-{major} {debian}."),
        folder: "postgres",
        scripts: &["preinst", "postinst", "prerm", "postrm"],
        words: &[
            ("#CLUSTERS#", functions("postgres/clusters.sh")?),
            ("#PROGRAMS#", PROGRAMS.join(" ")),
            ("#PACKAGE#", name.clone()),
            ("#MAJOR#", major.to_string()),
        ],
    };
    package.make(release, &root)
}

/// The fields of its control file. `Breaks`: dpkg alone unpacks a package before it looks for those that it
/// depends on.
fn fields(major: u32, debian: &str, libraries: &str) -> String {
    let server = format!("postgresql-{major}");
    format!(
        "Depends: {server} (= {debian}), {libraries}\n\
         Breaks: {server} (<< {debian}), {server} (>> {debian})\n\
         Section: database\nPriority: optional\n\
         Description: flash cache for PostgreSQL {major}: SSD between buffers and files\n \
         Entresol is a crash-safe page cache on an SSD between the shared buffers of\n \
         PostgreSQL and its slow storage.\n .\n \
         This package has the server of {server}, pg_rewind and pg_resetwal\n \
         with hooks for such a cache, in place of those of Debian (which are there\n \
         again when it is removed), and the extension \"entresol\". A cluster that\n \
         does not load the extension is an ordinary one.\n"
    )
}

/// Asks lintian, where it is installed.
fn check(release: &Release, deb: &Path) -> Result<()> {
    if find("lintian", &[]).is_none() {
        println!("not checked: there is no lintian ({})", how_to_install(&["lintian"]));
        return Ok(());
    }
    let mut lintian = Command::new("lintian");
    lintian.args(["--fail-on", "error"]).arg(deb);
    release.steps.run("lintian", &mut lintian)?;
    println!("lintian: no error");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::version::MAJORS;
    use super::*;

    fn arguments(version: &str, suite: Option<&str>) -> DebArgs {
        let suite = suite.map(str::to_owned);
        DebArgs { version: version.parse().unwrap(), suite, revision: 1, out: None }
    }

    #[test]
    fn the_patches_change_no_other_program() {
        let mut changed: Vec<String> = Vec::new();
        for major in MAJORS {
            for file in source::patched_files(major).unwrap() {
                // What is compiled into the server alone, or says nothing new to other programs.
                if file.starts_with("src/backend/") || file.starts_with("src/include/") {
                    continue;
                }
                let program = file.strip_prefix("src/bin/").and_then(|rest| rest.split('/').next());
                changed.push(program.unwrap_or_else(|| panic!("{file} is part of what?")).to_owned());
            }
        }
        changed.push("postgres".to_owned());
        changed.sort();
        changed.dedup();
        assert_eq!(changed, PROGRAMS);
    }

    #[test]
    fn only_a_version_that_was_tried_is_packaged() {
        let newest = tried(18).unwrap().remove(0);
        let has = format!("{}-3", newest.version);
        assert_eq!(which(&arguments("18", None), &has).unwrap(), newest);
        let said = |version: &str, has: &str| which(&arguments(version, None), has).unwrap_err().to_string();
        assert!(said("18", "18.99-1").contains("try 18.99 --source FILE"), "{}", said("18", "18.99-1"));
        assert!(said("18.99", &has).contains("not 18.99: name another release"), "{}", said("18.99", &has));
        assert!(said("18", "18~beta1-1").contains("forky has PostgreSQL 18~beta1-1, which is no version"));
        assert_eq!((arguments("17", None).suite(), arguments("17", Some("sid")).suite()), ("trixie", "sid"));
    }

    #[test]
    fn the_package_is_of_one_version_of_debian_s() {
        let fields = fields(18, "18.6-3", "libc6 (>= 2.38)");
        assert!(fields.contains("Depends: postgresql-18 (= 18.6-3), libc6"), "{fields}");
        assert!(fields.contains("Breaks: postgresql-18 (<< 18.6-3), postgresql-18 (>> 18.6-3)\n"));
        assert_eq!(version_of(2, "18.6-3+deb14u1"), format!("{VERSION}-2+pg18.6.3+deb14u1"));
    }
}
