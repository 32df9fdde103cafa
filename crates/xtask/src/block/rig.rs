//! What every run over the block door needs: the command, a folder of its own, other programs, and what is
//! said when one is missing.

use crate::programs::{find, how_to_install};
use crate::{paths, programs};
use anyhow::{Context, Result, bail};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long something may take that takes a moment.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// What this machine lacks. With `--or-skip` it is a reason to pass.
#[derive(Debug)]
pub(super) struct Missing(pub String);

impl fmt::Display for Missing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Missing {}

/// That something is missing, as an error.
pub(super) fn missing<T>(what: impl Into<String>) -> Result<T> {
    Err(Missing(what.into()).into())
}

/// Looks for programs, and for the packages of those that are not there.
pub(super) fn need(programs: &[(&str, &str)]) -> Result<()> {
    let places = folders();
    let absent: Vec<_> = programs.iter().filter(|(program, _)| find(program, &places).is_none()).collect();
    let names: Vec<_> = absent.iter().map(|(program, _)| *program).collect();
    let mut packages: Vec<_> = absent.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    match names[..] {
        [] => Ok(()),
        _ => missing(format!("not installed: {}; {}", names.join(", "), how_to_install(&packages))),
    }
}

/// Where programs of root and of PostgreSQL are.
pub(super) fn folders() -> Vec<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<_> = versions.map(|version| version.path().join("bin")).collect();
    folders.sort();
    folders.push("/usr/sbin".into());
    folders
}

/// A call of `program`, in one of these folders too.
pub(super) fn call(program: &str) -> Command {
    Command::new(find(program, &folders()).unwrap_or_else(|| program.into()))
}

/// The machine has what mounts a volume: root, FUSE, a free loop device.
pub(super) fn need_mounts() -> Result<()> {
    need(&[
        ("nbdfuse", "libnbd-bin"),
        ("losetup", "mount"),
        ("mkfs.ext4", "e2fsprogs"),
        ("e2fsck", "e2fsprogs"),
    ])?;
    if !programs::is_root()? {
        return missing("only root can mount");
    }
    if !Path::new("/dev/fuse").exists() {
        return missing("this machine has no /dev/fuse");
    }
    match programs::output(call("losetup").arg("-f")) {
        Ok(_) => Ok(()),
        Err(_) => missing("this machine has no free loop device"),
    }
}

/// See the module's header.
pub(super) struct Rig {
    /// The command `entresol`.
    pub entresol: PathBuf,
    /// A folder of this run alone, removed with it.
    pub folder: PathBuf,
}

impl Rig {
    /// Builds the command, unless the variable `ENTRESOL` names one. Makes the folder below `parent`, or
    /// below that of cargo's outputs.
    pub fn new(parent: Option<&Path>) -> Result<Self> {
        Self::with_features(parent, &[])
    }

    /// Builds the command with these features.
    pub fn with_features(parent: Option<&Path>, features: &[&str]) -> Result<Self> {
        let entresol = match std::env::var_os("ENTRESOL").filter(|named| !named.is_empty()) {
            Some(named) => std::path::absolute(named)?,
            None => build("entresol", &["--features", &features.join(",")], "entresol")?,
        };
        let parent = parent.map_or_else(|| paths::target().join("block"), Path::to_owned);
        let folder = std::path::absolute(parent.join(format!("run-{}", std::process::id())))?;
        fs::create_dir_all(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        Ok(Self { entresol, folder })
    }

    /// A file of the run.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Builds a program of a package in release mode: its path.
pub(super) fn build(package: &str, what: &[&str], program: &str) -> Result<PathBuf> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(paths::repository()).args(["build", "--quiet", "--release", "--locked", "-p", package]);
    if !cargo.args(what).status().context("cargo cannot be run")?.success() {
        bail!("{package} was not built");
    }
    Ok(paths::target().join("release").join(program))
}

/// What a file has before a run.
#[derive(Clone, Copy)]
pub(super) enum Filled {
    /// It is sparse.
    Sparse,
    /// Zeros that were written: a sync has no blocks to note then.
    Zeros,
    Random,
}

/// Makes a file of so many MiB anew.
pub(super) fn make_file(path: &Path, mib: u64, filled: Filled) -> Result<()> {
    let mut file = File::create(path).with_context(|| format!("{} cannot be made", path.display()))?;
    let mut source: Box<dyn Read> = match filled {
        Filled::Sparse => return Ok(file.set_len(mib << 20)?),
        Filled::Zeros => Box::new(io::repeat(0)),
        Filled::Random => Box::new(File::open("/dev/urandom")?),
    };
    io::copy(&mut source.by_ref().take(mib << 20), &mut file)?;
    Ok(file.sync_all()?)
}

/// Waits until `is_so`, at most [`PATIENCE`].
pub(super) fn wait_until(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let began = Instant::now();
    while !is_so()? {
        if began.elapsed() > PATIENCE {
            bail!("{what}: not within {} s", PATIENCE.as_secs());
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// A program in the background, ended with this.
pub(super) struct Running(Child);

impl Running {
    /// What it says is not kept.
    pub fn start(command: &mut Command) -> Result<Self> {
        Self::keeping(command.stdout(Stdio::null()).stderr(Stdio::null()))
    }

    /// Its output is where `command` says.
    pub fn keeping(command: &mut Command) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        Ok(Self(command.stdin(Stdio::null()).spawn().with_context(|| format!("{name} cannot be run"))?))
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.0.try_wait()?.is_some())
    }

    /// Sends a signal, as `TERM`. It may have ended already.
    pub fn signal(&self, name: &str) {
        let _ = Command::new("kill")
            .arg(format!("-{name}"))
            .arg(self.id().to_string())
            .stderr(Stdio::null())
            .status();
    }

    /// Waits for its end. Whether it was a success.
    pub fn wait(&mut self) -> Result<bool> {
        Ok(self.0.wait()?.success())
    }

    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// Processor time that it has taken, in nanoseconds.
    pub fn processor_ns(&self) -> Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id()))?;
        // The name of the program, in parentheses, may have blanks. Then the state is the third field.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks: u64 = fields
            .get(11..13)
            .context("no times")?
            .iter()
            .filter_map(|field| field.parse::<u64>().ok())
            .sum();
        let a_second: u64 = programs::output(Command::new("getconf").arg("CLK_TCK"))?.parse()?;
        Ok(ticks as f64 * 1e9 / a_second as f64)
    }

    /// Bytes that it has had written to devices.
    pub fn written(&self) -> Result<u64> {
        let text = fs::read_to_string(format!("/proc/{}/io", self.id()))?;
        let written = text.lines().find_map(|line| line.strip_prefix("write_bytes: "));
        Ok(written.context("no count of written bytes")?.trim().parse()?)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.has_ended(), Ok(false)) {
            self.signal("TERM");
            let _ = self.0.wait();
        }
    }
}

/// Waits until a server has made its socket.
pub(super) fn wait_for_socket(path: &Path) -> Result<()> {
    let is_there = || Ok(fs::metadata(path).is_ok_and(|it| it.file_type().is_socket()));
    wait_until(&format!("a server has made {}", path.display()), is_there)
}

/// Where a measurement was made.
pub(super) fn machine() -> String {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!("on {cores} cores with a load of {}", load.split(' ').next().unwrap_or_default())
}
