//! The block door under a real kernel: boots one in QEMU and attaches a volume there with the kernel's
//! drivers nbd and ublk. Four writers make and sync files on ext4. The server is killed with SIGKILL while
//! the file system stays mounted, and started again; the writers continue. Then every file that was synced
//! must have its content, read from the volume and at last from the disk alone; e2fsck must find nothing,
//! and the kernel must have met no error.
//!
//! The guest has this machine's root read-only, with python3, nbd-client and e2fsprogs in it, and runs
//! `benches/guest/doors.sh`.

use super::TestArgs;
use crate::block::rig::{Filled, Rig, call, make_file, missing, need};
use crate::paths;
use crate::programs::output;
use anyhow::{Context, Result, bail};
use clap::Args;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Of the suite `guest`.
#[derive(Args, Clone, Debug)]
pub(super) struct GuestArgs {
    /// A folder with an unpacked package of a Linux kernel (boot/vmlinuz-*, lib/modules/*), as Debian's 6.12
    kernel: PathBuf,
    /// The kernel's drivers; for ublk the command is built with that feature, which needs libclang
    #[arg(long, value_delimiter = ',', default_value = "nbd,ublk")]
    doors: Vec<String>,
    /// QEMU's accelerator
    #[arg(long, default_value = "tcg,thread=multi")]
    accel: String,
    /// Without a journal: in write-back mode files are found damaged
    #[arg(long)]
    no_journal: bool,
}

impl GuestArgs {
    /// Those that the command is built with.
    pub(super) fn features(&self) -> &'static [&'static str] {
        if self.doors.iter().any(|door| door == "ublk") { &["ublk"] } else { &[] }
    }
}

const MODULES: [&str; 8] =
    ["virtio_pci", "virtio_blk", "9pnet_virtio", "9p", "ext4", "crc32c_generic", "nbd", "ublk_drv"];
const ROUNDS: u32 = 4;
const PATIENCE_S: &str = "3000";

pub(super) fn test(rig: impl Fn() -> Result<Rig>, guest: &GuestArgs, arguments: &TestArgs) -> Result<()> {
    need(&[
        ("qemu-system-x86_64", "qemu-system-x86"),
        ("busybox", "busybox-static"),
        ("modprobe", "kmod"),
        ("depmod", "kmod"),
        ("xz", "xz-utils"),
        ("python3", "python3"),
        ("nbd-client", "nbd-client"),
        ("mkfs.ext4", "e2fsprogs"),
    ])?;
    let busybox = call("busybox").get_program().to_owned();
    if output(Command::new("ldd").arg(&busybox)).is_ok() {
        return missing("busybox is not static: the package busybox-static has one that is");
    }
    let Some((image, version)) = image(&guest.kernel) else {
        return missing(format!("{} has no boot/vmlinuz-*", guest.kernel.display()));
    };
    let rig = rig()?;
    let root = rig.file("root");
    for folder in ["bin", "modules", "proc", "sys", "dev"] {
        fs::create_dir_all(root.join(folder))?;
    }
    fs::copy(&busybox, root.join("bin/busybox"))?;
    fs::copy(paths::repository().join("benches/guest/init.sh"), root.join("init"))?;
    fs::set_permissions(root.join("init"), fs::Permissions::from_mode(0o755))?;
    copy_modules(&rig, &guest.kernel, &version, &root.join("modules"))?;
    let job = [
        ("repository", paths::repository().display().to_string()),
        ("entresol", rig.entresol.display().to_string()),
        ("doors", guest.doors.join(" ")),
        ("modes", arguments.modes.join(" ")),
        ("rounds", arguments.rounds.unwrap_or(ROUNDS).to_string()),
        ("journal", if guest.no_journal { "none" } else { "kept" }.to_owned()),
    ];
    fs::write(root.join("job"), job.map(|(name, value)| format!("{name}='{value}'\n")).concat())?;
    let mut pack = Command::new("sh");
    pack.args(["-c", "find . | busybox cpio -o -H newc | gzip -1 > ../initrd"]).current_dir(&root);
    output(&mut pack)?;
    make_file(&rig.file("disk"), 192, Filled::Sparse)?;
    make_file(&rig.file("flash"), 48, Filled::Sparse)?;
    println!("Linux {version}");
    boot(&rig, &image, guest)
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
fn copy_modules(rig: &Rig, kernel: &Path, version: &str, to: &Path) -> Result<()> {
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
    for module in MODULES {
        let mut modprobe = call("modprobe");
        modprobe.arg("-d").arg(&tree).args(["-S", version, "--show-depends", module]);
        // It may be built in.
        let needed = output(&mut modprobe).unwrap_or_default();
        for file in needed.lines().filter_map(|line| line.strip_prefix("insmod ")) {
            let file = file.trim();
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

/// Shows what the guest says.
fn boot(rig: &Rig, image: &Path, guest: &GuestArgs) -> Result<()> {
    let mut qemu = Command::new("timeout");
    qemu.args([
        PATIENCE_S,
        "qemu-system-x86_64",
        "-M",
        "q35",
        "-accel",
        &guest.accel,
        "-cpu",
        "max",
        "-smp",
        "2",
    ]);
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
    qemu.arg("-kernel").arg(image).arg("-initrd").arg(rig.file("initrd"));
    qemu.args(["-append", "console=ttyS0 panic=-1 mitigations=off quiet", "-virtfs"]);
    qemu.arg("local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap");
    for drive in ["disk", "flash"] {
        qemu.arg("-drive").arg(format!("file={},format=raw,if=virtio", rig.file(drive).display()));
    }
    let mut child = qemu.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("QEMU cannot be run")?;
    let mut is_done = false;
    for line in BufReader::new(child.stdout.take().context("QEMU's output")?).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).trim_end_matches('\r').to_owned();
        is_done |= line.contains("ALL DONE");
        println!("{line}");
    }
    child.wait()?;
    match is_done {
        true => Ok(()),
        false => bail!("the guest has not ended well"),
    }
}
