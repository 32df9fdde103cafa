//! A slow disk: a loop device over a sparse file, with ext4, and a control group whose processes may do so
//! many reads and so many writes a second on it.
//!
//! Servers run with `debug_io_direct = data`, since buffered writes escape the limit ([`crate::device`]).

use crate::device::{Group, Limits, Loop, Traffic};
use crate::programs::output;
use anyhow::Result;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// See the module's header.
#[derive(Debug)]
pub(super) struct Disk {
    device: Loop,
    mount: PathBuf,
    group: Group,
}

impl Disk {
    /// Of `mib` MiB, over a file in `folder`. It has no limit yet.
    pub fn new(folder: &Path, mib: u64) -> Result<Self> {
        let group = Group::of_devices()?;
        let device = Loop::new(folder.join("disk.img"), mib)?;
        let mount = folder.join("disk");
        fs::create_dir_all(&mount)?;
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
        self.group.limit(self.device.device(), Limits { reads: iops, writes: iops, bytes: 0 })
    }

    /// The device.
    pub fn device(&self) -> &Path {
        self.device.device()
    }

    /// The folder of its file system.
    pub fn folder(&self) -> &Path {
        &self.mount
    }

    /// The control group.
    pub fn group(&self) -> &Path {
        self.group.path()
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
    }
}
