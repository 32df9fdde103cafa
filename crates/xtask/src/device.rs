//! Loop devices over files, and control groups whose processes may do so much on a device. Only for root.
//!
//! A limit is exact for direct reads and writes, and for buffered writes that their process syncs. Buffered
//! writes that the kernel writes back by itself escape it.

use crate::programs::output;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where control groups of version 1 are found.
const GROUPS: &str = "/sys/fs/cgroup";

/// A loop device over a file of its own.
#[derive(Debug)]
pub(crate) struct Loop {
    file: PathBuf,
    device: PathBuf,
}

/// What a device has done since it was made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
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
        Self::over(file)
    }

    /// A device over a file, past the kernel's cache. The file is removed with it.
    pub fn over(file: PathBuf) -> Result<Self> {
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

/// What the processes of a group may do on a device, a second; 0: no limit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    pub reads: u32,
    pub writes: u32,
    /// Read, and written, each.
    pub bytes: u64,
}

/// A control group of version 1, without a limit at first.
#[derive(Debug)]
pub(crate) struct Group {
    path: PathBuf,
}

impl Group {
    /// What limits requests to devices.
    pub fn of_devices() -> Result<Self> {
        Self::new("blkio", "blkio.throttle.read_iops_device")
    }

    /// A group of `controller`, which has the file `sign`.
    pub fn new(controller: &str, sign: &str) -> Result<Self> {
        let groups = Path::new(GROUPS).join(controller);
        if !groups.join(sign).exists() {
            bail!("{} is no control group of version 1; mount it, or boot with cgroup v1", groups.display());
        }
        let path = groups.join(format!("entresol-bench-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self { path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes one of its files.
    pub fn set(&self, file: &str, text: &str) -> Result<()> {
        let file = self.path.join(file);
        fs::write(&file, text).with_context(|| format!("{} cannot be written", file.display()))
    }

    /// What its processes may do on the device from now on.
    pub fn limit(&self, device: &Path, limits: Limits) -> Result<()> {
        let name = device.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let number = fs::read_to_string(format!("/sys/block/{name}/dev"))?;
        let Limits { reads, writes, bytes } = limits;
        let each = [
            ("read_iops", u64::from(reads)),
            ("write_iops", u64::from(writes)),
            ("read_bps", bytes),
            ("write_bps", bytes),
        ];
        for (what, limit) in each {
            self.set(&format!("blkio.throttle.{what}_device"), &format!("{} {limit}", number.trim()))?;
        }
        Ok(())
    }

    /// Its processes.
    pub fn processes(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that has ended is in it a moment longer.
        for _ in 0..100 {
            if fs::remove_dir(&self.path).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}
