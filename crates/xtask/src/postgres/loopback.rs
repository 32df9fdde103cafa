//! Devices that fail: a loop device over a sparse file in a small file system in memory. Only for root.
//!
//! When the file system is full, the device cannot write where it has not written before. When its file is
//! emptied, it cannot read either.

use super::test::Bench;
use crate::paths;
use crate::programs::output;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system in memory of so many MiB, mounted until this is dropped.
pub(super) struct Memory {
    folder: PathBuf,
}

impl Memory {
    /// Mounted as the folder `name`, next to the tests.
    pub fn mount(bench: &Bench, name: &str, mib: u32) -> Result<Self> {
        let folder = paths::postgres().join("test").join(format!("{name}-memory"));
        fs::create_dir_all(&folder)?;
        let size = format!("size={mib}m");
        output(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&folder))?;
        bench.user.own(&folder)?;
        Ok(Self { folder })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Uses all of its space.
    pub fn fill(&self) -> Result<()> {
        let filler = fs::File::options().create(true).append(true).open(self.folder.join("filler"))?;
        let mut written = std::io::copy(&mut std::io::repeat(0x5a), &mut &filler);
        if let Ok(bytes) = &mut written {
            anyhow::bail!("{bytes} bytes were written, and it is not full");
        }
        Ok(())
    }

    /// Gives the space free again.
    pub fn release(&self) -> Result<()> {
        Ok(fs::remove_file(self.folder.join("filler"))?)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.folder).status();
    }
}

/// A block device over a file in [`Memory`], until this is dropped.
pub(super) struct Loopback {
    pub device: PathBuf,
    pub memory: Memory,
}

impl Loopback {
    /// A device of `mib` MiB, in memory of twice as much.
    pub fn new(bench: &Bench, name: &str, mib: u32) -> Result<Self> {
        let memory = Memory::mount(bench, name, 2 * mib)?;
        let file = memory.folder().join("image");
        fs::File::create(&file)?.set_len(u64::from(mib) << 20)?;
        let device = output(Command::new("losetup").args(["-f", "--show"]).arg(&file))
            .context("a loop device cannot be made")?;
        let loopback = Self { device: device.into(), memory };
        bench.user.own(&loopback.device)?;
        Ok(loopback)
    }

    /// Whether it can be written from now on.
    pub fn may_be_written(&self, may: bool) -> Result<()> {
        let change = if may { "--setrw" } else { "--setro" };
        output(Command::new("blockdev").arg(change).arg(&self.device)).map(drop)
    }

    /// From now on it can neither be read nor written.
    pub fn die(&self) -> Result<()> {
        let image = fs::File::options().write(true).open(self.memory.folder().join("image"))?;
        // A write that came in between has made the file longer again.
        loop {
            image.set_len(0)?;
            self.memory.fill()?;
            if image.metadata()?.len() == 0 {
                return Ok(());
            }
        }
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.device).status();
        let _ = Command::new("chown").arg("root").arg(&self.device).status();
    }
}
