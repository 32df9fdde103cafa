//! A volume as a block device of the kernel: a loop device over nbdfuse, with a file system on it.

use super::rig::{Rig, Running, call, missing, wait_until};
use super::volume::Volume;
use crate::programs::output;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

/// How a client meets the end of its server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Connection {
    /// It is lost, as a device that fails.
    Lost,
    /// A proxy (nbdkit's retry filter) connects anew and asks again: a mounted file system stays.
    Retried,
}

/// Until it is dropped, whatever became of the server.
pub(super) struct Attached {
    device: Option<PathBuf>,
    nbd: PathBuf,
    mount: PathBuf,
    fuse: Option<Running>,
    proxy: Option<Running>,
}

impl Attached {
    /// `options` are of losetup. `None`: the server was ended meanwhile.
    pub fn new(
        rig: &Rig,
        volume: &Volume<'_>,
        server: &mut Running,
        connection: Connection,
        options: &[&str],
    ) -> Result<Option<Self>> {
        let (nbd, mount) = (rig.file("nbd"), rig.file("mnt"));
        fs::create_dir_all(&nbd)?;
        fs::create_dir_all(&mount)?;
        let mut attached = Self { device: None, nbd, mount, fuse: None, proxy: None };
        let mut uri = volume.uri();
        if connection == Connection::Retried {
            let (proxy, socket) = proxy(rig, &uri)?;
            attached.proxy = Some(proxy);
            uri = format!("nbd+unix:///?socket={}", socket.display());
        }
        let (disk, log) = (attached.nbd.join("disk"), rig.file("fuse.log"));
        let mut nbdfuse = Command::new("nbdfuse");
        nbdfuse.arg(&disk).arg(&uri).stdout(File::create(rig.file("fuse.out"))?).stderr(File::create(&log)?);
        attached.fuse = Some(Running::keeping(&mut nbdfuse)?);
        let waited = wait_until("nbdfuse", || Ok(disk.exists() || server.has_ended()?));
        if server.has_ended()? {
            return Ok(None);
        }
        if let Err(error) = waited {
            let said = fs::read_to_string(&log).unwrap_or_default();
            if said.starts_with("fuse") {
                return missing(format!("nbdfuse cannot mount here: {}", said.trim()));
            }
            return Err(error.context(said));
        }
        match output(call("losetup").args(["-f", "--show"]).args(options).arg(&disk)) {
            Ok(device) => attached.device = Some(device.into()),
            Err(_) if server.has_ended()? => return Ok(None),
            Err(_) => return missing("this machine has no loop device over FUSE"),
        }
        Ok(Some(attached))
    }

    pub fn device(&self) -> &Path {
        self.device.as_deref().unwrap_or(Path::new("/dev/null"))
    }

    /// Mounts its file system: where.
    pub fn mount(&self) -> Result<&Path> {
        output(Command::new("mount").arg(self.device()).arg(&self.mount))?;
        Ok(&self.mount)
    }

    pub fn unmount(&self) -> Result<()> {
        output(Command::new("umount").arg(&self.mount)).map(drop)
    }

    /// What e2fsck says of it, which is not mounted; its journal was replayed by a mount.
    pub fn check(&self) -> Result<()> {
        output(call("e2fsck").args(["-f", "-n"]).arg(self.device())).context("e2fsck").map(drop)
    }
}

/// Its socket, too.
fn proxy(rig: &Rig, uri: &str) -> Result<(Running, PathBuf)> {
    let (socket, pid) = (rig.file("retry.sock"), rig.file("retry.pid"));
    let _ = fs::remove_file(&socket);
    let _ = fs::remove_file(&pid);
    let mut nbdkit = Command::new("nbdkit");
    nbdkit.arg("-f").arg("-U").arg(&socket).arg("-P").arg(&pid).args(["--filter=retry", "nbd"]);
    nbdkit.arg(format!("uri={uri}")).args([
        "retries=60",
        "retry-delay=1",
        "retry-exponential=no",
        "retry=60",
    ]);
    let mut proxy = Running::start(&mut nbdkit)?;
    wait_until("nbdkit", || {
        if proxy.has_ended()? {
            bail!("nbdkit has ended");
        }
        Ok(fs::read_to_string(&pid).is_ok_and(|pid| !pid.is_empty()))
    })?;
    Ok((proxy, socket))
}

impl Drop for Attached {
    fn drop(&mut self) {
        let unmount = |folder: &Path| {
            for options in [&[][..], &["-l"]] {
                if output(Command::new("umount").args(options).arg(folder)).is_ok() {
                    return;
                }
            }
        };
        unmount(&self.mount);
        if let Some(device) = self.device.take() {
            let _ = output(call("losetup").arg("-d").arg(device));
        }
        unmount(&self.nbd);
        drop(self.fuse.take());
        drop(self.proxy.take());
        // The kernel lets a loop device go a moment later.
        thread::sleep(Duration::from_millis(20));
    }
}
