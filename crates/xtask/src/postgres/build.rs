//! `cargo xtask postgres build`.

use super::tools::{self, Tools};
use super::version::{Source, Version, Wanted, meant, tried};
use super::{kept, module, source};
use crate::paths;
use crate::programs::{output, sha256};
use crate::progress::Progress;
use crate::step::Steps;
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `build` may be told.
#[derive(Args, Clone, Debug)]
pub struct BuildArgs {
    /// The PostgreSQL that is meant: a minor version that was tried with the patches, as 18.6, or a major
    /// one, of which the newest one is taken that was tried and can be had.
    #[arg(long, value_name = "VERSION", default_value_t)]
    pub version: Wanted,
    /// PostgreSQL's source as Debian has it; its checksum is in doors/postgres/patches.
    #[arg(long, value_name = "FILE")]
    pub source: Option<PathBuf>,
    /// Compile PostgreSQL's assertions in: slower, and finds more. Installed in a folder of its own.
    #[arg(long)]
    pub assertions: bool,
}

/// One build of one version: with assertions or without.
#[derive(Clone, Debug)]
pub struct Build {
    /// The source, patched, with its objects.
    pub source: PathBuf,
    /// Where it is installed.
    pub installed: PathBuf,
    of: Source,
    assertions: bool,
    /// With the patches of `doors/postgres`.
    patched: bool,
    /// The I/O method of the servers that are tested, if not PostgreSQL's default.
    io_method: Option<IoMethod>,
}

/// How PostgreSQL 18 and later read asynchronously.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum IoMethod {
    /// Not at all.
    Sync,
    /// By processes of their own.
    Worker,
    /// By the kernel.
    #[value(name = "io_uring")]
    IoUring,
}

impl Build {
    /// The build of this source, whether it was made or not.
    fn new(of: Source, assertions: bool, patched: bool) -> Self {
        let suffix = match (assertions, patched) {
            (true, _) => "-assertions",
            (false, true) => "",
            (false, false) => "-stock",
        };
        let beside = |path: PathBuf| PathBuf::from(format!("{}{suffix}", path.display()));
        let (source, installed) = (beside(paths::source(of.version)), beside(paths::installed(of.version)));
        Build { source, installed, of, assertions, patched, io_method: None }
    }

    /// PostgreSQL of this build's version as it is, made if it is not there.
    ///
    /// # Errors
    ///
    /// As [`build`].
    pub fn stock(&self) -> Result<Self> {
        let build = Build::new(self.of.clone(), false, false);
        if !build.is_there()? {
            build.compile(&source::find_source(&build.of)?)?;
        }
        Ok(build)
    }

    /// The newest build of the major version before that is there, or is kept.
    ///
    /// # Errors
    ///
    /// A build that is kept cannot be unpacked.
    pub(super) fn of_the_major_before(&self) -> Result<Option<Self>> {
        for of in tried(self.of.version.major - 1).unwrap_or_default() {
            let build = Build::new(of, false, true);
            if build.is_made_of(&build.recipe()?) || kept::has(&build.recipe()?)? {
                return if build.is_there()? { Ok(Some(build)) } else { Ok(None) };
            }
        }
        Ok(None)
    }

    /// The build of a source in `file` that may never have been tried, made if it is not there.
    ///
    /// # Errors
    ///
    /// A patch does not apply, or a step fails.
    pub(super) fn of_new(of: Source, assertions: bool, file: &Path) -> Result<Self> {
        let build = Build::new(of, assertions, true);
        if !build.is_there()? {
            build.compile(file)?;
        }
        Ok(build)
    }

    /// Whether the build is made of its recipe. If such a build is kept, it is unpacked. If not, an older
    /// build is removed.
    fn is_there(&self) -> Result<bool> {
        let recipe = self.recipe()?;
        if self.is_made_of(&recipe) {
            return Ok(true);
        }
        self.remove()?;
        kept::restore(self, &recipe)
    }

    /// Compiles and installs the source in `file`.
    fn compile(&self, file: &Path) -> Result<()> {
        let tools = Tools::for_build()?;
        for (_, lost) in tools::without() {
            eprintln!("not installed, so built without: {lost}");
        }
        let steps = Steps::new(&paths::postgres().join("build.log"))?;
        eprintln!("PostgreSQL {}; log: {}", self.of.version, steps.log().display());
        compile(self, &tools, file, &steps)?;
        self.record(&self.recipe()?)
    }

    /// Removes what is there of an older build.
    fn remove(&self) -> Result<()> {
        for old in [&self.source, &self.installed] {
            if old.exists() {
                fs::remove_dir_all(old).with_context(|| format!("{} cannot be removed", old.display()))?;
            }
        }
        Ok(())
    }

    /// Last: it says that everything is there.
    fn record(&self, recipe: &str) -> Result<()> {
        fs::write(self.recipe_file(), recipe).context("the build cannot be recorded")?;
        kept::keep(self, recipe);
        Ok(())
    }

    fn is_made_of(&self, recipe: &str) -> bool {
        fs::read_to_string(self.recipe_file()).is_ok_and(|made_of| made_of == recipe)
    }

    /// What it is built of.
    pub fn version(&self) -> Version {
        self.of.version
    }

    /// A program of the installed server.
    pub fn program(&self, name: &str) -> PathBuf {
        self.installed.join("bin").join(name)
    }

    /// Lets the servers that are tested have this I/O method.
    ///
    /// # Errors
    ///
    /// PostgreSQL has none in this version.
    pub fn set_io_method(&mut self, method: IoMethod) -> Result<()> {
        if self.of.version.major < 18 {
            bail!("PostgreSQL {} has no I/O methods; name version 18", self.of.version);
        }
        self.io_method = Some(method);
        Ok(())
    }

    /// Whether the servers that are tested read flash asynchronously.
    pub fn reads_asynchronously(&self) -> bool {
        self.of.version.major >= 18 && self.io_method != Some(IoMethod::Sync)
    }

    /// Settings of the servers that are tested, as lines.
    pub fn settings(&self) -> String {
        let value = self.io_method.as_ref().and_then(IoMethod::to_possible_value);
        value.map_or_else(String::new, |value| format!("io_method = {}\n", value.get_name()))
    }

    /// What initdb is told for a cluster without checksums.
    pub fn without_checksums(&self) -> &'static [&'static str] {
        if self.of.version.major < 18 { &[] } else { &["--no-data-checksums"] }
    }

    /// Whether tests can stop the server at named points.
    pub fn has_injection_points(&self) -> bool {
        self.assertions
    }

    /// Says what the installed server was made of.
    fn recipe_file(&self) -> PathBuf {
        self.installed.join("entresol-build.txt")
    }

    fn options(&self) -> Vec<&'static str> {
        let mut options = vec!["--enable-debug"];
        if self.assertions {
            options.extend(["--enable-cassert", "--enable-injection-points"]);
        }
        options.extend(tools::with(self.of.version.major));
        options.extend(tools::without().iter().map(|(option, _)| *option));
        options
    }

    /// Everything that the build depends on, as text.
    fn recipe(&self) -> Result<String> {
        let mut recipe = format!("source {}\n", self.of.sha256);
        let patches = if self.patched { source::patches(self.of.version.major)? } else { Vec::new() };
        for patch in patches {
            let name = patch.file_name().unwrap_or_default().to_string_lossy().into_owned();
            writeln!(recipe, "patch {} {name}", sha256(&patch)?)?;
        }
        writeln!(recipe, "options {}", self.options().join(" "))?;
        let compiler = output(Command::new("cc").arg("--version"))?;
        writeln!(recipe, "compiler {}", compiler.lines().next().unwrap_or_default())?;
        Ok(recipe)
    }
}

/// Builds PostgreSQL if it is not built already, and the extension.
///
/// # Errors
///
/// A tool or the source is missing, or a step fails.
pub fn build(arguments: &BuildArgs) -> Result<()> {
    let build = make(arguments)?;
    module::install_extension(&build)?;
    println!("{}", build.installed.display());
    Ok(())
}

/// Whether [`make`] has what it needs.
///
/// # Errors
///
/// What is missing: a tool, or the source while no build is there or kept.
pub fn can_be_made(arguments: &BuildArgs) -> Result<()> {
    Tools::for_build()?;
    choose(arguments).map(drop)
}

/// The build that is meant, and the file of its source if it is to be made. Of a major version: of the newest
/// minor version that was tried, and is built, or can be.
fn choose(arguments: &BuildArgs) -> Result<(Build, Option<PathBuf>)> {
    let mut sources = meant(arguments.version)?;
    if let Some(file) = &arguments.source {
        sources = vec![source::which(file, &sources)?];
    }
    let mut newest_lacks = None;
    for of in sources {
        let version = of.version;
        let build = Build::new(of, arguments.assertions, true);
        let recipe = build.recipe()?;
        if build.is_made_of(&recipe) || kept::has(&recipe)? {
            return Ok((build, None));
        }
        let found = match &arguments.source {
            Some(file) => Ok(file.clone()),
            None => source::find_source(&build.of),
        };
        match found {
            Ok(file) => {
                if let Some(error) = newest_lacks {
                    eprintln!("PostgreSQL {version} is taken: {error:#}");
                }
                return Ok((build, Some(file)));
            }
            Err(error) => newest_lacks = newest_lacks.or(Some(error)),
        }
    }
    Err(newest_lacks.context("a version that was tried")?)
}

/// The build, made if it is not there or was made of something else.
///
/// # Errors
///
/// As [`build`].
pub fn make(arguments: &BuildArgs) -> Result<Build> {
    let (build, file) = choose(arguments)?;
    Tools::for_build()?;
    if !build.is_there()? {
        build.compile(&file.context("a build that was kept is gone; try again")?)?;
    }
    Ok(build)
}

/// Files that a build compiles, without its tests; a few more or less with other options.
const FILES: usize = 1390;

/// The files that a command in a line of make's compiles.
fn compiled(line: &str) -> impl Iterator<Item = &str> {
    let is_compiler = line.contains(" -c ") && !line.contains(" -E ");
    line.split(' ').filter(move |word| is_compiler && word.ends_with(".c") && !word.starts_with('-'))
}

fn compile(build: &Build, tools: &Tools, source: &Path, steps: &Steps) -> Result<()> {
    let unpacking = Progress::new("unpacking and patching the source");
    source::unpack(&build.of, source, &[], &build.source)?;
    if build.patched {
        source::patch(build.of.version.major, &build.source)?;
    }
    drop(unpacking);
    let mut configure = Command::new("./configure");
    configure.arg(format!("--prefix={}", build.installed.display())).args(build.options());
    steps.run("configuring", tools.set(configure.current_dir(&build.source)))?;

    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let make = |arguments: &[&str]| {
        let mut make = Command::new("make");
        // A make above this one would give us its options and its job slots.
        make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL").env_remove("MFLAGS");
        make.current_dir(&build.source).arg(format!("-j{jobs}")).arg(kept::LIBRARIES).args(arguments);
        make
    };
    let mut files = 0;
    let counted = |line: &str| {
        let last = compiled(line).inspect(|_| files += 1).last()?;
        Some(format!("{files} of about {FILES} files, {last}"))
    };
    steps.watch("compiling", tools.set(&mut make(&["world-bin"])), counted)?;
    for tests in ["src/test/isolation", "src/test/regress"] {
        steps.run("compiling the tests", tools.set(&mut make(&["-C", tests, "all"])))?;
    }
    steps.run("installing", tools.set(&mut make(&["install-world-bin"])))?;
    if build.assertions {
        let module = "src/test/modules/injection_points";
        steps.run("installing a test module", tools.set(&mut make(&["-C", module, "install"])))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::compiled;

    #[test]
    fn a_command_compiles_the_files_that_it_names() {
        let files = |line| compiled(line).collect::<Vec<_>>();
        assert_eq!(files("gcc -Wall -O2 -I../../src/include -c -o heap.o heap.c"), ["heap.c"]);
        assert_eq!(
            files("gcc -O2 -fPIC -I. -I../src -c -o dict.o dict.c -MMD -MF .deps/dict.Po"),
            ["dict.c"]
        );
        assert!(files("gcc -O2 heap.o index.o -lz -o postgres").is_empty());
        assert!(files("make -C catalog all").is_empty());
        assert!(files("/usr/bin/perl ./gen_node_support.pl nodes.c").is_empty());
    }
}
