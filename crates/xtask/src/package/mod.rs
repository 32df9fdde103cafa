//! `cargo xtask package`: the command as a Debian package and as a tarball, with manual pages, completions,
//! the licences of all that is compiled in, a list of it (SBOM), and checksums.
//!
//! Invariant: what is made depends on the sources, the compiler and the date of the last commit alone. Two
//! builds in different folders give equal files; `--twice` compares them.

pub(crate) mod crates;
pub(crate) mod deb;
pub(crate) mod files;
pub(crate) mod licences;
pub(crate) mod program;
pub(crate) mod sbom;
mod tarball;
mod twice;
mod wheel;

use crate::paths;
use crate::programs::{output, sha256};
use crate::step::Steps;
use anyhow::{Context, Result, bail};
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version of all crates.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What `package` may be told.
#[derive(Args, Debug)]
pub struct PackageArgs {
    /// Packages this program instead of building one.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Builds without the feature `ublk`, which needs libclang; of --program: it was built without.
    #[arg(long)]
    without_ublk: bool,
    /// Makes a tarball of a static program, too, for systems without glibc or with an older one.
    #[arg(long, conflicts_with = "program")]
    musl: bool,
    /// Makes a wheel of the Python module, too. Needs maturin.
    #[arg(long, conflicts_with = "program")]
    wheel: bool,
    /// Debian's revision of this version.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    revision: u32,
    /// Builds the last commit twice in other folders, too, and compares all files.
    #[arg(long, conflicts_with = "program")]
    twice: bool,
    /// Where the packages are put [default: target/packages].
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// What all packages are made of.
pub(crate) struct Release {
    /// Seconds since 1970 of the last commit, or SOURCE_DATE_EPOCH: the date of every file.
    pub date: u64,
    /// Debian's revision.
    pub revision: u32,
    /// Where packages are put.
    pub out: PathBuf,
    pub steps: Steps,
}

impl Release {
    /// Packages in the folder `out`, with a new log there.
    pub fn new(revision: u32, out: PathBuf, log: &str) -> Result<Self> {
        let steps = Steps::new(&out.join(log))?;
        Ok(Release { date: date()?, revision, out, steps })
    }

    /// The folder in which a package's files are laid out. It is emptied.
    pub fn stage(&self, name: &str) -> Result<PathBuf> {
        let stage = self.out.join("stage").join(name);
        if stage.exists() {
            fs::remove_dir_all(&stage).with_context(|| format!("{} cannot be emptied", stage.display()))?;
        }
        fs::create_dir_all(&stage).with_context(|| format!("{} cannot be made", stage.display()))?;
        Ok(stage)
    }
}

/// Makes the packages.
///
/// # Errors
///
/// A program that is needed is missing or fails; a crate without a licence; `--twice` finds a difference.
pub fn package(arguments: &PackageArgs) -> Result<()> {
    for (program, package) in
        [("dpkg-deb", "dpkg"), ("readelf", "binutils"), ("strip", "binutils"), ("tar", "tar")]
    {
        if crate::programs::find(program, &[]).is_none() {
            let how = crate::programs::how_to_install(&[package]);
            bail!("{program} is needed to make packages: {how}");
        }
    }
    if arguments.wheel {
        wheel::needs()?;
    }
    if let Some(file) = arguments.program.as_ref().filter(|file| !file.is_file()) {
        bail!("--program {}: is no file; name a built entresol", file.display());
    }
    let out = arguments.out.clone().unwrap_or_else(|| paths::target().join("packages"));
    let out = std::path::absolute(&out)?;
    let release = Release::new(arguments.revision, out, "package.log")?;

    let built = program::build(&release, arguments)?;
    let crates = crates::used("entresol", crates::GNU, !arguments.without_ublk)?;
    let list = sbom::json(&release, "entresol", &crates)?;
    let files = files::collect(&built, &licences::text(&crates)?, &list)?;
    let sbom = release.out.join(format!("entresol-{VERSION}.cdx.json"));
    fs::write(&sbom, list)?;
    let mut made = vec![deb::make(&release, &built, &files)?, tarball::make(&release, &built, &files)?, sbom];
    if arguments.musl {
        let built = program::build_static(&release)?;
        let crates = crates::used("entresol", crates::MUSL, false)?;
        let list = sbom::json(&release, "entresol", &crates)?;
        let files = files::collect(&built, &licences::text(&crates)?, &list)?;
        made.push(tarball::make(&release, &built, &files)?);
    }
    if arguments.wheel {
        made.push(wheel::make(&release)?);
    }
    let sums = checksums(&release.out, &made)?;
    fs::remove_dir_all(release.out.join("stage"))?;
    for file in &made {
        println!("{} {} bytes", file.display(), fs::metadata(file)?.len());
    }
    println!("{}", sums.display());
    let glibc = built.glibc.as_deref().unwrap_or_default();
    println!("needs glibc {glibc} or newer; {} crates are compiled in", crates.len());
    if arguments.twice { twice::compare(&release, arguments, &made) } else { Ok(()) }
}

/// `SOURCE_DATE_EPOCH`, or the time of the last commit.
fn date() -> Result<u64> {
    let given = std::env::var("SOURCE_DATE_EPOCH").ok();
    let text = match &given {
        Some(text) => text.clone(),
        None => {
            output(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(paths::repository()))
                .context("the date of the last commit (or set SOURCE_DATE_EPOCH)")?
        }
    };
    text.parse().with_context(|| format!("SOURCE_DATE_EPOCH {text} is not a number of seconds since 1970"))
}

/// Writes SHA256SUMS, as `sha256sum --check` reads it.
fn checksums(out: &Path, files: &[PathBuf]) -> Result<PathBuf> {
    let mut lines = String::new();
    for file in files {
        let name = file.file_name().context("a file")?.to_string_lossy();
        lines.push_str(&format!("{}  {name}\n", sha256(file)?));
    }
    let sums = out.join("SHA256SUMS");
    fs::write(&sums, lines)?;
    Ok(sums)
}
