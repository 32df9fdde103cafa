//! A slow disk: a loop device over a sparse file, with ext4, and a control group whose processes may do so
//! many reads and so many writes a second on it.
//!
//! The limit is exact for direct reads and writes, and for buffered writes that their process syncs. Buffered
//! writes that the kernel writes back by itself escape it: so servers run with `debug_io_direct = data`.

use crate::programs::output;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where control groups of version 1 are found.
const GROUPS: &str = "/sys/fs/cgroup/blkio";

/// A loop device over a file of its own.
#[derive(Debug)]
pub(super) struct Loop {
    file: PathBuf,
    device: PathBuf,
}

/// What a device has done since it was made.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traffic {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub written_bytes: u64,
    pub flushes: u64,
}

impl std::ops::Sub for Traffic {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Traffic {
            reads: self.reads - before.reads,
            read_bytes: self.read_bytes - before.read_bytes,
            writes: self.writes - before.writes,
            written_bytes: self.written_bytes - before.written_bytes,
            flushes: self.flushes - before.flushes,
        }
    }
}

impl Loop {
    /// A device of `mib` MiB over `file`, which is made anew.
    pub fn new(file: PathBuf, mib: u64) -> Result<Self> {
        if file.exists() {
            fs::remove_file(&file)?;
        }
        let made = fs::File::create(&file).with_context(|| format!("{} cannot be made", file.display()))?;
        made.set_len(mib << 20)?;
        let mut setup = Command::new("losetup");
        setup.args(["--find", "--show", "--direct-io=on"]).arg(&file);
        let device = output(&mut setup).context("a loop device")?;
        Ok(Loop { file, device: device.into() })
    }

    pub fn device(&self) -> &Path {
        &self.device
    }

    /// What it has done, of `/sys/block/…/stat`.
    pub fn traffic(&self) -> Result<Traffic> {
        let name = self.device.file_name().unwrap_or_default();
        let text = fs::read_to_string(Path::new("/sys/block").join(name).join("stat"))?;
        let fields: Vec<u64> = text.split_whitespace().filter_map(|field| field.parse().ok()).collect();
        let field = |at: usize| fields.get(at).copied().context("a device without statistics");
        Ok(Traffic {
            reads: field(0)?,
            read_bytes: field(2)? * 512,
            writes: field(4)?,
            written_bytes: field(6)? * 512,
            flushes: field(15)?,
        })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // A device that is left behind is seen with `losetup --list`.
        let _ = output(Command::new("losetup").arg("--detach").arg(&self.device));
        let _ = fs::remove_file(&self.file);
    }
}

/// See the module's header.
#[derive(Debug)]
pub(super) struct Disk {
    device: Loop,
    mount: PathBuf,
    group: PathBuf,
}

impl Disk {
    /// Of `mib` MiB, over a file in `folder`. It has no limit yet.
    pub fn new(folder: &Path, mib: u64) -> Result<Self> {
        if !Path::new(GROUPS).join("blkio.throttle.read_iops_device").exists() {
            bail!("{GROUPS} is no control group of version 1 with blkio; mount it, or boot with cgroup v1");
        }
        let group = Path::new(GROUPS).join(format!("entresol-bench-{}", std::process::id()));
        let device = Loop::new(folder.join("disk.img"), mib)?;
        let mount = folder.join("disk");
        fs::create_dir_all(&mount)?;
        fs::create_dir_all(&group)?;
        let options = "lazy_itable_init=0,lazy_journal_init=0";
        output(Command::new("mkfs.ext4").args(["-q", "-F", "-E", options]).arg(device.device()))?;
        let disk = Disk { device, mount, group };
        disk.mount()?;
        Ok(disk)
    }

    fn mount(&self) -> Result<()> {
        let mut mount = Command::new("mount");
        output(mount.args(["-o", "noatime"]).arg(self.device.device()).arg(&self.mount)).map(drop)
    }

    /// Reads and writes a second of the group's processes, each; 0: no limit.
    pub fn limit(&self, iops: u32) -> Result<()> {
        let name = self.device.device().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let device = fs::read_to_string(format!("/sys/block/{name}/dev"))?;
        for kind in ["read", "write"] {
            let file = self.group.join(format!("blkio.throttle.{kind}_iops_device"));
            fs::write(&file, format!("{} {iops}", device.trim()))
                .with_context(|| format!("{} cannot be written", file.display()))?;
        }
        Ok(())
    }

    /// The folder of its file system.
    pub fn folder(&self) -> &Path {
        &self.mount
    }

    /// The control group.
    pub fn group(&self) -> &Path {
        &self.group
    }

    /// What it has done.
    pub fn traffic(&self) -> Result<Traffic> {
        self.device.traffic()
    }

    /// Drops what the kernel has of its files. Nobody may use them.
    pub fn forget_cached(&self) -> Result<()> {
        output(Command::new("umount").arg(&self.mount))?;
        self.mount()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = output(Command::new("umount").arg(&self.mount));
        let _ = fs::remove_dir(&self.group);
    }
}
