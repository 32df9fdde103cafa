//! The program of the packages: built without names of this machine's folders, and what it needs of a system.

use super::crates::{GNU, MUSL};
use super::{PackageArgs, Release};
use crate::paths;
use crate::programs::{find, how_to_install, output};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program, stripped.
pub(super) struct Program {
    pub file: PathBuf,
    /// What it was compiled for.
    pub target: &'static str,
    /// The newest version of glibc's symbols that it uses; `None`: it is static.
    pub glibc: Option<String>,
    /// Whether it needs the compiler's library for unwinding.
    pub libgcc: bool,
}

/// Builds it, or takes the one that was named.
pub(super) fn build(release: &Release, arguments: &PackageArgs) -> Result<Program> {
    let built = match &arguments.program {
        Some(file) => file.clone(),
        None => compile(release, GNU, !arguments.without_ublk)?,
    };
    let program = stripped(release, GNU, &built)?;
    let file = &program.file;
    let (glibc, libgcc) = needs(file)?;
    Ok(Program { glibc: Some(glibc), libgcc, ..program })
}

/// Builds one that needs no library at all. It has no ublk: bindgen would take glibc's headers.
pub(super) fn build_static(release: &Release) -> Result<Program> {
    let targets = output(Command::new("rustc").args(["--print", "target-libdir", "--target", MUSL]))?;
    if !Path::new(&targets).is_dir() {
        bail!("there is no library of Rust for {MUSL}: `rustup target add {MUSL}`");
    }
    if find("musl-gcc", &[]).is_none() {
        bail!("musl-gcc is needed for a static program: {}", how_to_install(&["musl-tools"]));
    }
    let program = stripped(release, MUSL, &compile(release, MUSL, false)?)?;
    let libraries = libraries(&program.file)?;
    if !libraries.is_empty() {
        bail!("the static program needs {}", libraries.join(", "));
    }
    Ok(program)
}

/// The program `built` without symbols, which says that it is of this version.
fn stripped(release: &Release, target: &'static str, built: &Path) -> Result<Program> {
    let file = release.stage(&format!("program-{target}"))?.join("entresol");
    output(Command::new("strip").arg("-o").arg(&file).arg(built)).context("stripping the program")?;
    let said = output(Command::new(&file).arg("--version")).context("starting the program")?;
    if said != format!("entresol {}", super::VERSION) {
        bail!("{} says that it is {said}; packages are of {}", built.display(), super::VERSION);
    }
    Ok(Program { file, target, glibc: None, libgcc: false })
}

/// Compiles it under the profile `dist`.
fn compile(release: &Release, target: &str, ublk: bool) -> Result<PathBuf> {
    if ublk && !has_libclang() {
        let how = how_to_install(&["libclang-dev", "linux-libc-dev"]);
        bail!("the feature ublk is built with libclang: {how}; or say --without-ublk");
    }
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.args(["build", "--locked", "--profile", "dist", "-p", "entresol"]);
    // The usual target gets its usual folder, so that programs of its build scripts are compiled once.
    let folder = if target == GNU { String::new() } else { format!("{target}/") };
    if target != GNU {
        cargo.args(["--target", target]);
    }
    if ublk {
        cargo.args(["--features", "ublk"]);
    }
    reproducible(&mut cargo, release)?;
    release
        .steps
        .run(&format!("compiling the command for {target}"), cargo.current_dir(paths::repository()))?;
    Ok(paths::target().join(format!("{folder}dist/entresol")))
}

/// Lets `cargo`, or what calls it, compile without names of this machine's folders: paths in messages begin
/// with `/entresol`, `/target`, `/cargo` and `/rust`.
pub(crate) fn reproducible(cargo: &mut Command, release: &Release) -> Result<()> {
    let home = |name: &str, usual: &str| {
        let usual = || Some(Path::new(&std::env::var_os("HOME")?).join(usual));
        std::env::var_os(name).map(PathBuf::from).or_else(usual)
    };
    let sysroot = output(Command::new("rustc").args(["--print", "sysroot"])).context("rustc")?;
    let from = [
        (Some(paths::repository().to_owned()), "/entresol"),
        (Some(paths::target()), "/target"),
        (home("CARGO_HOME", ".cargo"), "/cargo"),
        (Some(sysroot.into()), "/rust"),
    ];
    let from: Vec<_> = from.into_iter().filter_map(|(from, to)| Some((from?, to))).collect();
    let flags = |option: &str| {
        let each: Vec<_> =
            from.iter().map(|(from, to)| format!("{option}={}={to}", from.display())).collect();
        each.join("\x1f")
    };
    cargo.env_remove("RUSTFLAGS").env("CARGO_ENCODED_RUSTFLAGS", flags("--remap-path-prefix"));
    // C sources that crates contain: zstd's.
    cargo.env("CFLAGS", flags("-ffile-prefix-map").replace('\x1f', " "));
    cargo.env("SOURCE_DATE_EPOCH", release.date.to_string());
    Ok(())
}

/// Where bindgen would find it.
fn has_libclang() -> bool {
    let names = |folder: &Path| -> Vec<PathBuf> {
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    let is =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libclang"));
    let folders = ["/usr/lib", "/usr/lib64", "/usr/local/lib"].map(Path::new);
    let below =
        folders.iter().flat_map(|folder| names(folder)).flat_map(|folder| [folder.join("lib"), folder]);
    std::env::var_os("LIBCLANG_PATH").is_some()
        || find("llvm-config", &[]).is_some()
        || below.flat_map(|folder| names(&folder)).any(|path| is(&path))
}

/// The libraries that a program is linked with when it starts.
fn libraries(program: &Path) -> Result<Vec<String>> {
    let dynamic = output(Command::new("readelf").args(["--wide", "--dynamic"]).arg(program))?;
    let named = dynamic.lines().filter_map(|line| line.split("Shared library: [").nth(1));
    Ok(named.map(|library| library.trim_end_matches(']').to_owned()).collect())
}

/// The version of glibc, and whether libgcc_s is needed. A library of another system package is an error.
fn needs(program: &Path) -> Result<(String, bool)> {
    let mut libgcc = false;
    for library in libraries(program)? {
        match library.as_str() {
            "libc.so.6" | "libm.so.6" | "libdl.so.2" | "libpthread.so.0" | "ld-linux-x86-64.so.2" => {}
            "libgcc_s.so.1" => libgcc = true,
            other => bail!("the program needs {other}, which no package of Debian is named for here"),
        }
    }
    let versions = output(Command::new("readelf").args(["--wide", "--version-info"]).arg(program))?;
    let glibc = newest(&versions).context("the program names no version of glibc")?;
    Ok((glibc, libgcc))
}

/// The newest of the versions `GLIBC_x.y` in a text.
fn newest(text: &str) -> Option<String> {
    let named = text.split("GLIBC_").skip(1);
    let number = |part: &str| -> Option<Vec<u32>> {
        let end = part.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(part.len());
        part[..end].split('.').map(|number| number.parse().ok()).collect()
    };
    let newest = named.filter_map(number).max()?;
    Some(newest.iter().map(u32::to_string).collect::<Vec<_>>().join("."))
}

#[cfg(test)]
mod tests {
    use super::newest;

    #[test]
    fn versions_are_compared_by_number() {
        let text = "Name: GLIBC_2.9  Flags: none\nName: GLIBC_2.34 x\nName: GLIBC_2.2.5\nName: GLIBC_PRIVATE";
        assert_eq!(newest(text).as_deref(), Some("2.34"));
        assert_eq!(newest("Name: GCC_3.0"), None);
    }
}
