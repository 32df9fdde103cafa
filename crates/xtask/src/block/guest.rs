//! A guest of QEMU with a kernel of its own, in which a job runs on virtual disks: for drivers that the
//! kernel of this machine may not have.
//!
//! The guest has this machine's root read-only, with the programs that the job needs; what it writes is in
//! its memory. Lines of the job that begin with `@` are for the caller, all others are shown.

use super::rig::{Rig, call, missing, need};
use crate::paths;
use crate::programs::output;
use anyhow::{Context, Result, bail};
use clap::Args;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Which kernel, and how it runs.
#[derive(Args, Clone, Debug)]
pub(super) struct KernelArgs {
    /// A folder with an unpacked package of a Linux kernel (boot/vmlinuz-*, lib/modules/*), as Debian's 6.12
    kernel: PathBuf,
    /// QEMU's accelerator
    #[arg(long, default_value = "tcg,thread=multi")]
    accel: String,
}

/// Modules that every guest needs.
const MODULES: [&str; 6] = ["virtio_pci", "virtio_blk", "9pnet_virtio", "9p", "ext4", "crc32c_generic"];

/// A guest that was never started.
pub(super) struct Guest<'a> {
    rig: &'a Rig,
    image: PathBuf,
    /// Its version.
    pub version: String,
    accel: String,
    drives: Vec<PathBuf>,
}

/// A job for the guest.
pub(super) struct Job<'a> {
    /// Drivers, with those that they need.
    pub modules: &'a [&'a str],
    /// A call of the shell. `$repository`, `$entresol` and the variables are set.
    pub call: &'a str,
    /// Names of variables, and their values.
    pub variables: &'a [(&'a str, String)],
    /// Images of virtual disks, in the order of /dev/vda, /dev/vdb and so on.
    pub drives: &'a [&'a str],
}

/// Says what the machine lacks for a guest, and for these programs in it.
pub(super) fn need_guest(programs: &[(&str, &str)]) -> Result<()> {
    let of_all = [
        ("qemu-system-x86_64", "qemu-system-x86"),
        ("busybox", "busybox-static"),
        ("modprobe", "kmod"),
        ("depmod", "kmod"),
        ("xz", "xz-utils"),
        ("python3", "python3"),
    ];
    need(&[&of_all[..], programs].concat())?;
    if output(Command::new("ldd").arg(call("busybox").get_program())).is_ok() {
        return missing("busybox is not static: the package busybox-static has one that is");
    }
    Ok(())
}

impl<'a> Guest<'a> {
    /// Makes what the guest boots from, in the run's folder.
    pub fn new(rig: &'a Rig, kernel: &KernelArgs, job: &Job<'_>) -> Result<Self> {
        let Some((image, version)) = image(&kernel.kernel) else {
            return missing(format!("{} has no boot/vmlinuz-*", kernel.kernel.display()));
        };
        let root = rig.file("root");
        for folder in ["bin", "modules", "proc", "sys", "dev"] {
            fs::create_dir_all(root.join(folder))?;
        }
        fs::copy(call("busybox").get_program(), root.join("bin/busybox"))?;
        fs::copy(paths::repository().join("benches/guest/init.sh"), root.join("init"))?;
        fs::set_permissions(root.join("init"), fs::Permissions::from_mode(0o755))?;
        copy_modules(rig, &kernel.kernel, &version, job.modules, &root.join("modules"))?;
        let fixed = [
            ("repository", paths::repository().display().to_string()),
            ("entresol", rig.entresol.display().to_string()),
        ];
        let variables =
            fixed.iter().chain(job.variables).map(|(name, value)| format!("export {name}='{value}'\n"));
        fs::write(root.join("job"), variables.collect::<String>())?;
        fs::write(root.join("call"), job.call)?;
        let mut pack = Command::new("sh");
        pack.args(["-c", "find . | busybox cpio -o -H newc | gzip -1 > ../initrd"]).current_dir(&root);
        output(&mut pack)?;
        let drives = job.drives.iter().map(|name| rig.file(name)).collect();
        Ok(Self { rig, image, version, accel: kernel.accel.clone(), drives })
    }

    /// Boots, shows what the guest says, and gives the caller each line for it, without its `@`, until the
    /// job ends or the caller cuts the power. Fails if the job does.
    pub fn run(&self, mut told: impl FnMut(&str, &mut Monitor) -> Result<Power>) -> Result<()> {
        let mut monitor = Monitor { socket: self.rig.file("monitor"), stream: None };
        // A socket of an earlier boot.
        let _ = fs::remove_file(&monitor.socket);
        let mut child = self.qemu(&monitor.socket).spawn().context("QEMU cannot be run")?;
        let lines = BufReader::new(child.stdout.take().context("QEMU's output")?).split(b'\n');
        let mut is_done = false;
        let mut power = Ok(Power::On);
        for line in lines {
            let line = String::from_utf8_lossy(&line?).trim_end_matches('\r').to_owned();
            is_done |= line.contains("ALL DONE");
            match line.strip_prefix('@') {
                Some(line) => power = told(line, &mut monitor),
                None => println!("{line}"),
            }
            if !matches!(power, Ok(Power::On)) {
                child.kill()?;
                break;
            }
        }
        child.wait()?;
        match power? {
            Power::On if !is_done => bail!("the guest has not ended well"),
            Power::On | Power::Off => Ok(()),
        }
    }

    fn qemu(&self, monitor: &Path) -> Command {
        let mut qemu = Command::new("qemu-system-x86_64");
        qemu.args(["-M", "q35", "-accel", &self.accel, "-cpu", "max", "-smp", "2"]);
        qemu.args([
            "-m",
            "2048",
            "-display",
            "none",
            "-vga",
            "none",
            "-serial",
            "stdio",
            "-no-reboot",
            "-nic",
            "none",
        ]);
        qemu.arg("-monitor").arg(format!("unix:{},server=on,wait=off", monitor.display()));
        qemu.arg("-kernel").arg(&self.image).arg("-initrd").arg(self.rig.file("initrd"));
        qemu.args(["-append", "console=ttyS0 panic=-1 mitigations=off quiet", "-virtfs"]);
        qemu.arg("local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap");
        for (number, drive) in self.drives.iter().enumerate() {
            qemu.arg("-drive");
            qemu.arg(format!(
                "id=drive{number},file={},format=raw,if=virtio,cache=writeback",
                drive.display()
            ));
        }
        qemu.stdin(Stdio::null()).stdout(Stdio::piped());
        qemu
    }
}

/// What the caller decides at a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Power {
    On,
    /// The guest is killed: all that was in its memory is lost.
    Off,
}

/// QEMU's monitor, while the guest runs.
pub(super) struct Monitor {
    socket: PathBuf,
    stream: Option<UnixStream>,
}

impl Monitor {
    /// Limits a virtual disk to so many requests a second, and 100 MB or as many requests of 64 KiB; 0: to
    /// none. Without the limit of bytes a request of 1 MiB counts as one of 4 KiB.
    pub fn throttle(&mut self, drive: usize, requests: u64) -> Result<()> {
        let bytes = if requests == 0 { 0 } else { (requests * 65536).max(100_000_000) };
        self.say(&format!("block_set_io_throttle drive{drive} {bytes} 0 0 {requests} 0 0"))
    }

    fn say(&mut self, words: &str) -> Result<()> {
        if self.stream.is_none() {
            self.stream =
                Some(UnixStream::connect(&self.socket).context("QEMU's monitor cannot be reached")?);
        }
        let stream = self.stream.as_mut().context("QEMU's monitor")?;
        Ok(writeln!(stream, "{words}")?)
    }
}

/// The kernel in a folder, and its version.
fn image(kernel: &Path) -> Option<(PathBuf, String)> {
    let files = fs::read_dir(kernel.join("boot")).ok()?;
    files.flatten().find_map(|file| {
        let version = file.file_name().to_str()?.strip_prefix("vmlinuz-")?.to_owned();
        Some((file.path(), version))
    })
}

/// The modules that the guest loads, with those that they need, in the order in `order`.
fn copy_modules(rig: &Rig, kernel: &Path, version: &str, modules: &[&str], to: &Path) -> Result<()> {
    let tree = rig.file("tree");
    let found = ["lib/modules", "usr/lib/modules"].map(|folder| kernel.join(folder).join(version));
    let found = found.iter().find(|folder| folder.is_dir());
    let found = found.with_context(|| format!("{} has no lib/modules/{version}", kernel.display()))?;
    fs::create_dir_all(tree.join("lib/modules"))?;
    // depmod writes into the folder of the modules, so that is a copy.
    output(Command::new("cp").arg("-r").arg(found).arg(tree.join("lib/modules")))?;
    if !tree.join("usr").exists() {
        fs::create_dir_all(tree.join("usr"))?;
        symlink("../lib", tree.join("usr/lib"))?;
    }
    output(call("depmod").arg("-b").arg(&tree).arg(version))?;
    let mut order: Vec<String> = Vec::new();
    for module in MODULES.iter().chain(modules) {
        let mut modprobe = call("modprobe");
        modprobe.arg("-d").arg(&tree).args(["-S", version, "--show-depends", module]);
        // It may be built in.
        let needed = output(&mut modprobe).unwrap_or_default();
        for file in needed.lines().filter_map(|line| line.strip_prefix("insmod ")) {
            // Options of this machine's follow the file.
            let file = file.split_whitespace().next().unwrap_or_default();
            if !order.iter().any(|known| known == file) {
                order.push(file.to_owned());
            }
        }
    }
    let mut names = String::new();
    for file in &order {
        let name = Path::new(file).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let plain = name.trim_end_matches(".xz");
        if plain == name {
            fs::copy(file, to.join(plain))?;
        } else {
            let mut xz = Command::new("xz");
            let unpacked = xz.args(["-dc", file]).stdout(File::create(to.join(plain))?).status()?;
            if !unpacked.success() {
                bail!("{file} cannot be unpacked");
            }
        }
        names += &format!("{plain}\n");
    }
    fs::write(to.join("order"), names)?;
    Ok(fs::remove_dir_all(tree)?)
}
