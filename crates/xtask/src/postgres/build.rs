//! `cargo xtask postgres build`.

use super::source;
use super::tools::{self, Tools};
use super::{kept, module};
use crate::paths;
use crate::programs::{output, sha256};
use crate::progress::Progress;
use crate::step::Steps;
use anyhow::{Context, Result};
use clap::Args;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `build` may be told.
#[derive(Args, Clone, Debug, Default)]
pub struct BuildArgs {
    /// PostgreSQL's source as Debian has it; its checksum is in doors/postgres/patches.
    #[arg(long, value_name = "FILE")]
    pub source: Option<PathBuf>,
    /// Compile PostgreSQL's assertions in: slower, and finds more. Installed in a folder of its own.
    #[arg(long)]
    pub assertions: bool,
}

/// One build: with assertions or without.
#[derive(Clone, Debug)]
pub struct Build {
    /// The source, patched, with its objects.
    pub source: PathBuf,
    /// Where it is installed.
    pub installed: PathBuf,
    assertions: bool,
    /// With the patches of `doors/postgres`.
    patched: bool,
}

impl Build {
    /// The build that `assertions` names, whether it was made or not.
    pub fn named(assertions: bool) -> Self {
        let suffix = if assertions { "-assertions" } else { "" };
        let beside = |path: PathBuf| PathBuf::from(format!("{}{suffix}", path.display()));
        Build {
            source: beside(paths::source()),
            installed: beside(paths::installed()),
            assertions,
            patched: true,
        }
    }

    /// PostgreSQL as it is, made if it is not there.
    ///
    /// # Errors
    ///
    /// As [`build`].
    pub fn stock(steps: &Steps) -> Result<Self> {
        let named = |path: PathBuf| PathBuf::from(format!("{}-stock", path.display()));
        let build = Build {
            source: named(paths::source()),
            installed: named(paths::installed()),
            assertions: false,
            patched: false,
        };
        let recipe = build.recipe()?;
        if !build.is_made_of(&recipe) {
            build.remove()?;
            if !kept::restore(&build, &recipe)? {
                compile(&build, &Tools::for_build()?, &source::find_source(None)?, steps)?;
                build.record(&recipe)?;
            }
        }
        Ok(build)
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

    /// A program of the installed server.
    pub fn program(&self, name: &str) -> PathBuf {
        self.installed.join("bin").join(name)
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
        options.extend(tools::without().iter().map(|(option, _)| *option));
        options
    }

    /// Everything that the build depends on, as text.
    fn recipe(&self) -> Result<String> {
        let mut recipe = format!("source {}\n", source::wanted()?.sha256);
        let patches = if self.patched { source::patches()? } else { Vec::new() };
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
    let build = Build::named(arguments.assertions);
    let recipe = build.recipe()?;
    if build.is_made_of(&recipe) || kept::has(&recipe)? {
        return Ok(());
    }
    source::find_source(arguments.source.as_deref()).map(drop)
}

/// The build, made if it is not there or was made of something else.
///
/// # Errors
///
/// As [`build`].
pub fn make(arguments: &BuildArgs) -> Result<Build> {
    let build = Build::named(arguments.assertions);
    if let Some(source) = &arguments.source {
        source::check(source, &source::wanted()?)?;
    }
    let tools = Tools::for_build()?;
    let recipe = build.recipe()?;
    if build.is_made_of(&recipe) {
        return Ok(build);
    }
    build.remove()?;
    if kept::restore(&build, &recipe)? {
        return Ok(build);
    }
    let source = source::find_source(arguments.source.as_deref())?;
    for (_, lost) in tools::without() {
        eprintln!("not installed, so built without: {lost}");
    }
    let steps = Steps::new(&paths::postgres().join("build.log"))?;
    eprintln!("log: {}", steps.log().display());
    compile(&build, &tools, &source, &steps)?;
    build.record(&recipe)?;
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
    source::unpack(source, &[], &build.source)?;
    if build.patched {
        source::patch(&build.source)?;
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
